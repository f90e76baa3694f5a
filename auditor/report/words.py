"""Numbers, places and terms as a reader sees them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from auditor.contract import Finding

PRECISION = {"fp16": "FP16", "bf16": "BF16", "tf32": "TF32", "fp32": "FP32"}
MODE = {
    "fp32": "FP32",
    "tf32": "TF32",
    "autocast_fp16": "FP16 autocast",
    "autocast_bf16": "BF16 autocast",
    "pure_fp16": "pure FP16",
    "pure_bf16": "pure BF16",
    "plan": "the plan",
}
MODE_HINT = {
    "fp32": "the reference",
    "tf32": "FP32 with TF32 matrix products",
    "autocast_fp16": "torch.autocast as it comes",
    "autocast_bf16": "torch.autocast as it comes",
    "pure_fp16": "model.half()",
    "pure_bf16": "model.bfloat16()",
    "plan": "what this report recommends",
}
SEVERITY_ICON = {"high": "✖", "medium": "▲", "low": "●", "info": "ℹ"}
VERDICT_WORD = {"pass": "passes", "warn": "passes with warnings", "fail": "fails"}
VERDICT_ICON = {"pass": "✔", "warn": "▲", "fail": "✖"}
MODE_VERDICT = {
    "ok": "ok",
    "degraded": "degraded",
    "broken": "broken",
    "not_run": "not run",
    "unsupported": "unsupported",
}
MODE_VERDICT_ICON = {"ok": "✔", "degraded": "▲", "broken": "✖", "not_run": "–", "unsupported": "–"}
KIND_HINT = {
    "measured": "counted or timed while the model ran",
    "emulated": "the model ran with the format's rounding applied to every op",
    "static": "follows from the code and its constants",
    "predicted": "computed from a model of the target, not timed on it",
    "assumed": "a usual value, not checked on this model",
}
ROLE = {
    "activation": "activation",
    "weight": "weight",
    "activation_gradient": "activation gradient",
    "weight_gradient": "weight gradient",
}
MEMORY_ITEM = {
    "parameters": "parameters",
    "master_weights": "FP32 master weights",
    "gradients": "gradients",
    "optimizer_state": "optimizer state",
    "saved_activations": "saved activations",
    "autocast_weight_copies": "16-bit weight copies",
}
EVIDENCE = {
    "absmax": "largest output",
    "input_absmax": "largest input",
    "headroom": "binades below the format's largest value",
    "nonfinite": "non-finite values",
    "nans": "NaN values",
    "overflowed": "values that overflow",
    "lost": "values flushed to zero",
    "lost_share": "share flushed to zero",
    "error": "relative error of the result",
    "inherited": "relative error of the inputs",
    "amplification": "error out / error in",
    "mode_error": "output error of the whole mode",
    "gradient_error": "gradient error of the whole mode",
    "constant_name": "constant",
    "constant_value": "its value",
}
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | None, digits: int = 3) -> str:
    """A plain number to `digits` significant digits."""
    if value is None:
        return "–"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if isinstance(value, int) or (value == round(value) and abs(value) < 1e6):
        return f"{value:,.0f}"
    if abs(value) < 1e-3 or abs(value) >= 1e6:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def percent(value: float | None) -> str:
    """A share or a relative error (1.0 is 100 %) to two significant digits; never rounded to nothing."""
    if value is None:
        return "–"
    if math.isnan(value) or math.isinf(value):
        return "non-finite"
    if value == 0:
        return "0 %"
    if abs(value) < 1e-6:
        return "<0.0001 %"
    scaled = 100 * value
    if abs(scaled) >= 99.5:
        return f"{scaled:,.0f} %"
    places = max(1 - math.floor(math.log10(abs(scaled))), 0)
    return f"{scaled:.{places}f} %"


def size(value: float | None) -> str:
    """Bytes in the binary unit that fits."""
    if value is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def milliseconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f} ms" if value < 100 else f"{value:,.0f} ms"


def speedup(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def power(exponent: int) -> str:
    """2 to the exponent, set with superscript digits."""
    return "2" + str(exponent).translate(_SUPERSCRIPT)


def count(amount: int, singular: str, plural: str | None = None) -> str:
    """ "1 line", "3 lines"."""
    return f"{amount:,} {singular if amount == 1 else plural or singular + 's'}"


def value(anything: Any) -> str:
    """One evidence value of whatever type the rule gave it."""
    if isinstance(anything, bool):
        return "yes" if anything else "no"
    if isinstance(anything, (int, float)):
        return number(anything)
    if anything in ("Infinity", "-Infinity", "NaN"):  # as audit.json spells them
        return number(float(anything))
    if isinstance(anything, (list, tuple)):
        return ", ".join(value(item) for item in anything)
    return "–" if anything is None else str(anything)


def listed(names: Sequence[str], last: str = "and") -> str:
    """ "a", "a and b", "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}" if names else ""


def short_path(file: str, source: str) -> str:
    """The part of a path a reader looks for: the audited file as it was given, a package's path below
    site-packages, else the last three components."""
    if source and not source.startswith("/") and (file == source or file.endswith("/" + source)):
        return source
    _, inside, below = file.rpartition("/site-packages/")
    if inside:
        return below
    parts = file.split("/")
    return file if len(parts) <= 4 else "…/" + "/".join(parts[-3:])


def source_file(source: str) -> str:
    """The file of "path.py:name"; the source itself otherwise."""
    head, _, _ = source.rpartition(":")
    return head if head.endswith(".py") else source


def place(finding: Finding) -> str:
    """file:line with the file's name as it lies in the audit; the module where there is no line."""
    if finding.file is None:
        return finding.module or "the model"
    return f"{finding.file}:{finding.line}" if finding.line else finding.file


def short_place(file: str | None, line: int | None, module: str, source: str) -> str:
    """file:line as short as it stays clear; the module where there is no file."""
    if file is None:
        return module or "the whole model"
    short = short_path(file, source_file(source))
    return f"{short}:{line}" if line else short


def formats(finding: Finding) -> tuple[str, ...]:
    """The formats in which it goes wrong."""
    return tuple(PRECISION[p] for p in finding.precisions)


def printable(text: str) -> str:
    """`text` without control characters, so that a name cannot steer a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def sentence(text: str) -> str:
    """`text` with a full stop and, unless it starts with code or a name, a capital first letter."""
    text = text.strip()
    if not text:
        return text
    start = text.split()[0].rstrip(",;")
    return (text[0].upper() if start.isalpha() else text[0]) + text[1:] + ("" if text[-1] in ".!?" else ".")
