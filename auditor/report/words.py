"""Numbers and terms as a reader sees them."""

from __future__ import annotations

import math

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
    "autocast_fp16": "stock torch.autocast",
    "autocast_bf16": "stock torch.autocast",
    "pure_fp16": "model.half()",
    "pure_bf16": "model.bfloat16()",
    "plan": "what this report recommends",
}
SEVERITY_ICON = {"high": "✖", "medium": "▲", "low": "●", "info": "ℹ"}
VERDICT_WORD = {"pass": "passes", "warn": "passes with warnings", "fail": "fails"}
MODE_VERDICT_ICON = {"ok": "✔", "degraded": "▲", "broken": "✖", "not_run": "–", "unsupported": "–"}


def number(value: float | None, digits: int = 2) -> str:
    """A relative error or another plain number."""
    if value is None:
        return "–"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "non-finite"
    if value == 0:
        return "0"
    if abs(value) < 1e-3 or abs(value) >= 1e5:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{digits}g}" if abs(value) < 100 else f"{value:,.0f}"


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


def place(finding: Finding) -> str:
    """file:line with the file's name as it lies in the audit; the module where there is no line."""
    if finding.file is None:
        return finding.module or "the model"
    return f"{finding.file}:{finding.line}" if finding.line else finding.file
