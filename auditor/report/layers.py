"""The layer table's data: one JSON value of columns, worded here, which the page filters, sorts and shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from auditor.contract import Audit, Candidate, Layer
from auditor.report import words

FORMATS = ("fp16", "bf16", "tf32", "fp32")


def layer_table(audit: Audit) -> dict[str, Any]:
    """Columns of equal length, in the model's order; texts that repeat stand once in `texts` and columns hold
    their index. `candidates[format][i]` is what `_candidate` makes of layer i."""
    found: dict[str, list[str]] = {}
    for finding in audit.findings:
        for module in dict.fromkeys((finding.module, *finding.also_at)):
            found.setdefault(module, []).append(finding.id)
    source = words.source_file(audit.subject.source)
    texts: dict[str, int] = {}

    def indexed(values: Iterable[str]) -> list[int]:
        return [texts.setdefault(value, len(texts)) for value in values]

    def column(of: Callable[[Layer], Any]) -> list[Any]:
        return [of(layer) for layer in audit.layers]

    return {
        "module": column(lambda layer: layer.module),
        "type": indexed(layer.type for layer in audit.layers),
        "file": indexed(words.short_path(layer.file, source) if layer.file else "" for layer in audit.layers),
        "line": column(lambda layer: layer.line or 0),
        "precision": indexed(words.PRECISION[layer.precision] for layer in audit.layers),
        "why": indexed(layer.why for layer in audit.layers),
        "ops": indexed(", ".join(layer.ops) for layer in audit.layers),
        "parameters": column(lambda layer: words.number(layer.parameters)),
        "flops": column(lambda layer: words.number(layer.flops)),
        "findings": column(lambda layer: found.get(layer.module, [])),
        "candidates": {
            words.PRECISION[p]: [_candidate(layer.candidates.get(p), texts) for layer in audit.layers]  # type: ignore[call-overload]
            for p in FORMATS
        },
        "texts": list(texts),
    }


def _candidate(candidate: Candidate | None, texts: dict[str, int]) -> Sequence[Any]:
    """[safe, error, local error, largest value, overflow, underflow, microseconds, how the time was got];
    empty where the format was not tried. Numbers are texts as they are shown, by their index."""
    if candidate is None:
        return ()
    shown = (
        words.percent(candidate.error),
        words.percent(candidate.local_error),
        words.number(candidate.absmax),
        words.percent(candidate.overflow),
        words.percent(candidate.underflow),
        words.number(candidate.time_us),
        candidate.time_kind or "",
    )
    return (candidate.safe, *(texts.setdefault(text, len(texts)) for text in shown))
