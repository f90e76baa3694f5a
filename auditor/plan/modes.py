"""Every mode of the table: what it costs and how it came out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from auditor.capture.families import OpFamilies
from auditor.contract import Evidence, Memory, MemoryItem, ModeName, ModeResult
from auditor.devices import Device
from auditor.measure import Measurements, ModeRun
from auditor.plan.memory import NOTE, STATE_ELEMENTS, itemise
from auditor.plan.solve import Solved
from auditor.plan.timing import StepTime, optimizer_time_us, step_time

_ORDER: tuple[ModeName, ...] = ("tf32", "autocast_fp16", "autocast_bf16", "pure_fp16", "pure_bf16", "plan")


def _runs(measured: Measurements, solved: Solved) -> dict[ModeName, ModeRun]:
    plan: dict[ModeName, ModeRun] = {"plan": solved.run} if solved.run is not None else {}
    return {**measured.runs, **plan}


def times_of(
    measured: Measurements, solved: Solved, device: Device, families: OpFamilies
) -> dict[ModeName, StepTime]:
    """Predicted time of every mode whose step came to its end, from the ops it really ran."""
    times: dict[ModeName, StepTime] = {"fp32": step_time(measured.trace.ops, device, families, tf32=False)}
    for name, run in _runs(measured, solved).items():
        if not run.result.failed:
            times[name] = step_time(run.ops, device, families, tf32=name == "tf32")
    return times


def _trainable(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _weight_copies(run: ModeRun) -> int:
    """Bytes of the 16-bit copies autocast makes of parameters, from the casts that were executed."""
    return sum(
        op.bytes_written
        for op in run.ops
        if op.family == "cast"
        and op.phase == "forward"
        and op.origins
        and (op.origins[0] or "").startswith("param:")
    )


def memory_of(model: nn.Module, measured: Measurements, solved: Solved, optimizer: str) -> Memory:
    """Itemised bytes of a step in every mode: saved activations measured, the rest from element counts."""
    total, trainable = sum(p.numel() for p in model.parameters()), _trainable(model)

    def item(saved: int, copies: int, pure: bool) -> MemoryItem:
        return itemise(
            parameters=total,
            trainable=trainable,
            saved_activations=saved,
            weight_copies=copies,
            pure=pure,
            optimizer=optimizer,
        )

    items: dict[ModeName, MemoryItem] = {"fp32": item(measured.reference.saved_bytes, 0, False)}
    for name, run in _runs(measured, solved).items():
        if run.result.failed:
            continue
        pure = run.mode.pure is not None
        copies = 0 if pure else _weight_copies(run)
        # Copies of weights are saved for backward too; they are shown on their own.
        items[name] = item(max(run.saved_bytes - copies, 0), copies, pure)
    items.setdefault("plan", items["fp32"])
    return Memory(
        optimizer=optimizer,
        modes=items,
        evidence=Evidence(
            kind="measured",
            values={
                "saved_activations": "bytes autograd kept, measured",
                "rest": "computed from element counts",
            },
        ),
        note=NOTE,
    )


def modes_of(
    measured: Measurements,
    solved: Solved,
    times: Mapping[ModeName, StepTime],
    memory: Memory,
    device: Device,
    model: nn.Module,
) -> dict[ModeName, ModeResult]:
    """The table of modes. Times include an optimizer step that reads and writes parameter, gradient and
    state once."""
    values = 3 + 2 * STATE_ELEMENTS[memory.optimizer]
    optimizer = {width: optimizer_time_us(_trainable(model), values * width, device) for width in (2, 4)}

    def milliseconds(name: ModeName) -> float | None:
        if name not in times:
            return None
        return (times[name].total_us + optimizer[2 if name.startswith("pure") else 4]) / 1e3

    base = milliseconds("fp32")

    def row(name: ModeName, **measured_values: Any) -> ModeResult:
        ms = milliseconds(name)
        item = memory.modes.get(name)
        return ModeResult(
            time_ms=ms,
            time_kind="predicted" if ms is not None else None,
            memory_bytes=item.total if item else None,
            memory_kind="predicted" if item else None,
            speedup=base / ms if base and ms else None,
            **measured_values,
        )

    problem = measured.reference_problem
    modes: dict[ModeName, ModeResult] = {
        "fp32": row(
            "fp32",
            verdict="broken" if problem else "ok",
            reason=problem or "the reference",
            loss_error=0.0,
            output_error=0.0,
            gradient_error=0.0,
            gradient_cosine=1.0 if measured.reference.gradients else None,
            nonfinite=0,
        )
    }
    runs = _runs(measured, solved)
    for name in _ORDER:
        if name not in runs:
            stand_in = modes["tf32" if solved.base == "tf32" else "fp32"]
            modes["plan"] = stand_in.model_copy(update={"reason": solved.reason})
            continue
        result = runs[name].result
        modes[name] = row(
            name,
            verdict=result.verdict,
            reason=result.reason,
            loss_error=result.loss_error,
            output_error=result.output_error,
            gradient_error=result.gradient_error,
            gradient_cosine=result.gradient_cosine,
            nonfinite=result.nonfinite,
        )
    return modes
