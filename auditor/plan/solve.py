"""The plan: a 16-bit base and the fewest modules kept in FP32, executed before it is recommended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from auditor.capture.families import OpFamilies
from auditor.contract import LossScale, Precision, VerificationAttempt
from auditor.devices.catalogue_reader import Device
from auditor.measure import Measurements, ModeRun, run_mode
from auditor.numerics.shadow import OpRecord
from auditor.numerics.step import Mode, Work

_DTYPE = {"fp16": torch.float16, "bf16": torch.bfloat16}
_ATTEMPTS = 4


@dataclass(frozen=True)
class Solved:
    """`run` is the plan's execution, None when no 16-bit plan holds (then `base` is tf32 or fp32)."""

    base: Precision
    regions: dict[str, Precision]
    reasons: dict[str, str]
    fp32_loss: bool
    run: ModeRun | None
    attempts: tuple[VerificationAttempt, ...]
    reason: str


def _promoted(
    model: nn.Module, record: OpRecord, base: Precision, regions: dict[str, Precision]
) -> str | None:
    """Put the module of a culprit into FP32, its own children back to the base; returns its path, or None
    when the fault lies in the loss, outside any module."""
    path = record.op.module
    if path == "" and record.op.module_type == "":
        return None
    modules = dict(model.named_modules(remove_duplicate=False))
    regions[path] = "fp32"
    for name, child in modules[path].named_children():
        below = f"{path}.{name}" if path else name
        if any(True for _ in child.parameters()):
            regions.setdefault(below, base)
    return path


def _culprits(run: ModeRun) -> Sequence[OpRecord]:
    refused = [r for r in run.records if r.refusal is not None]
    return refused or list(run.blame.culprits.values())


def _why(record: OpRecord) -> str:
    place = f" (line {record.op.line})" if record.op.line else ""
    return f"{record.op.name}{place} does not survive the base precision"


def _attempt_base(
    work: Work,
    measured: Measurements,
    families: OpFamilies,
    base: Precision,
    loss_scale: float,
    attempts: list[VerificationAttempt],
) -> tuple[ModeRun, dict[str, Precision], dict[str, str], bool]:
    regions: dict[str, Precision] = {}
    reasons: dict[str, str] = {}
    fp32_loss = False
    stock = measured.runs["autocast_bf16" if base == "bf16" else "autocast_fp16"]
    run = stock
    for attempt in range(_ATTEMPTS):
        same_as_stock = not regions and not fp32_loss and stock.mode.loss_scale == loss_scale
        if not same_as_stock:
            mode = Mode(
                "plan",
                autocast=_DTYPE[base],
                regions=dict(regions),
                fp32_loss=fp32_loss,
                loss_scale=loss_scale,
            )
            run = run_mode(work, mode, base, measured, families)
        attempts.append(
            VerificationAttempt(
                regions=sum(p == "fp32" for p in regions.values()) + fp32_loss,
                verdict=run.result.verdict,
                reason=f"{base}: {run.result.reason}",
            )
        )
        if run.result.verdict == "ok" or attempt == _ATTEMPTS - 1:
            break
        before = (dict(regions), fp32_loss)
        for record in _culprits(run):
            path = _promoted(work.model, record, base, regions)
            if path is None:
                fp32_loss = True
            else:
                reasons[path] = _why(record)
        if (regions, fp32_loss) == before:
            break
    return run, regions, reasons, fp32_loss


def solve(
    work: Work,
    measured: Measurements,
    families: OpFamilies,
    device: Device,
    loss_scale_of: Callable[[bool], LossScale],
) -> Solved:
    """BF16 where the device has it, else FP16, with the modules that fail promoted until the step holds.

    A base that holds with fewer promotions beats one that needs more; BF16 wins ties, for it needs no
    loss scale.
    """
    bases: list[Precision] = [p for p in ("bf16", "fp16") if p in device.precisions]
    attempts: list[VerificationAttempt] = []
    held = []
    for base in bases:
        scale = (loss_scale_of(True).initial or 1.0) if base == "fp16" else 1.0
        run, regions, reasons, fp32_loss = _attempt_base(work, measured, families, base, scale, attempts)
        if run.result.verdict == "ok":
            held.append((len(reasons) + fp32_loss, base, run, regions, reasons, fp32_loss))
            if not reasons and not fp32_loss:
                break
    if held:
        promoted, base, run, regions, reasons, fp32_loss = min(held, key=lambda h: h[0])
        reason = (
            f"executed in {base} autocast with {promoted} in FP32: {run.result.reason}"
            if promoted
            else f"executed in {base} autocast as it is: {run.result.reason}"
        )
        return Solved(base, regions, reasons, fp32_loss, run, tuple(attempts), reason)
    tf32 = "tf32" in device.precisions and measured.runs["tf32"].result.verdict == "ok"
    why = "no 16-bit plan held" if bases else f"{device.name} computes no 16-bit format faster than FP32"
    return Solved("tf32" if tf32 else "fp32", {}, {}, False, None, tuple(attempts), why)
