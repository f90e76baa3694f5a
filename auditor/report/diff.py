"""A difference between two audits as text, Markdown or JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from auditor.contract import Finding
from auditor.gate.diff import Diff, LayerChange, ModeChange, RangeChange
from auditor.report import words
from auditor.report.markdown import escaped

_MOST = 20


def render_json(diff: Diff) -> str:
    return diff.model_dump_json(indent=1) + "\n"


def render_text(diff: Diff) -> str:
    out = [f"{_heading(diff)}"]
    for title, lines in _parts(diff):
        out += ["", f"{title} ({len(lines)})", *(f"  {words.printable(line)}" for line in _cut(lines))]
    return "\n".join(out) + "\n"


def render_markdown(diff: Diff) -> str:
    """Changes of findings open, the others folded; under 60 lines however much has changed."""
    out = [f"### ampaudit: {escaped(_heading(diff))}"]
    for title, lines in _parts(diff):
        items = [f"- {escaped(line)}" for line in _cut(lines, 6)]
        if title.endswith("findings"):
            out += ["", f"**{title}** ({len(lines)})", "", *items]
        else:
            out += ["", f"<details><summary>{title} ({len(lines)})</summary>", "", *items, "", "</details>"]
    return "\n".join(out) + "\n"


FORMATS: dict[str, Callable[[Diff], str]] = {"text": render_text, "md": render_markdown, "json": render_json}


def _heading(diff: Diff) -> str:
    source = (
        diff.new.source if diff.new.source == diff.old.source else f"{diff.old.source} → {diff.new.source}"
    )
    verdict = words.VERDICT_WORD[diff.new.verdict]
    if diff.new.verdict != diff.old.verdict:
        verdict = f"{words.VERDICT_WORD[diff.old.verdict]} → {verdict}"
    targets = "" if diff.new.target == diff.old.target else f" (target {diff.old.target} → {diff.new.target})"
    return f"{source} {verdict}{targets}" + ("; nothing has changed" if diff.empty else "")


def _parts(diff: Diff) -> Iterator[tuple[str, list[str]]]:
    """The kinds of change that occur, each as lines."""
    scale = diff.loss_scale
    parts: tuple[tuple[str, list[str]], ...] = (
        ("New findings", [_finding(f) for f in diff.added]),
        ("Worse findings", [f"{_finding(r.finding)} (was {r.before})" for r in diff.worse]),
        ("Better findings", [f"{_finding(r.finding)} (was {r.before})" for r in diff.better]),
        ("Removed findings", [_finding(f) for f in diff.removed]),
        ("Modes", [_mode(m) for m in diff.modes]),
        ("Layers", [_layer(c) for c in diff.layers]),
        ("Ranges", [_range(r) for r in diff.ranges]),
        ("Loss scale", [f"{_power(scale.before)} → {_power(scale.after)}"] if scale else []),
    )
    yield from ((title, lines) for title, lines in parts if lines)


def _cut(lines: Sequence[str], most: int = _MOST) -> list[str]:
    return [*lines[:most], f"and {len(lines) - most} more"] if len(lines) > most else list(lines)


def _finding(f: Finding) -> str:
    where = words.short_place(f.file, f.line, f.module, "")
    return f"{f.severity} {where} {f.name} [{f.rule}] {'/'.join(words.formats(f))}"


def _mode(change: ModeChange) -> str:
    parts = []
    if change.verdict[0] != change.verdict[1]:
        parts.append(" → ".join(words.MODE_VERDICT[v] if v else "absent" for v in change.verdict))
    for shown, (was, now) in (
        (words.milliseconds, change.time_ms),
        (words.size, change.memory_bytes),
        (lambda e: f"gradient error {words.percent(e)}", change.gradient_error),
    ):
        if was is not None and now is not None and shown(was) != shown(now):
            parts.append(f"{shown(was)} → {shown(now)}")
    return f"{words.MODE[change.mode]}: {', '.join(parts) or 'figures differ'}"


def _layer(change: LayerChange) -> str:
    before, after = (words.PRECISION[p] if p else "absent" for p in (change.before, change.after))
    return f"{change.module or '(root)'}: {before} → {after}"


def _range(change: RangeChange) -> str:
    (a, b), (c, d) = change.before, change.after
    moved = f"{words.power(a)} … {words.power(b)} → {words.power(c)} … {words.power(d)}"
    return f"{change.module or '(root)'}, {words.ROLE[change.role]}: {moved}"


def _power(log2: int | None) -> str:
    return "none needed" if log2 is None else words.power(log2)
