"""Predicted time of a recorded run on a device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from auditor.capture.families import OpFamilies
from auditor.capture.trace import Op
from auditor.devices.catalogue_reader import Device
from auditor.devices.roofline import Product, Work, op_time

_NAMES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}


@dataclass(frozen=True)
class StepTime:
    """Microseconds of one step and where they go."""

    total_us: float
    modules: dict[str, float]


def product_of(op: Op) -> Product | None:
    """The matrix product an op computes, convolutions as implicit products; None for other ops."""
    shapes = [t.shape for t in op.inputs]
    if op.name in ("aten.mm", "aten.bmm", "aten.addmm", "aten.baddbmm"):
        a, b = shapes[-2:]
        batch = a[0] if len(a) == 3 else 1
        return Product(batch, a[-2], b[-1], a[-1])
    if op.name == "aten.convolution" and op.outputs:
        out, weight = op.outputs[0].shape, shapes[1]
        pixels = out[0]
        for size in out[2:]:
            pixels *= size
        depth = 1
        for size in weight[1:]:
            depth *= size
        return Product(1, pixels, out[1], depth)
    if op.name == "aten.convolution_backward":
        grad, weight = shapes[0], shapes[2]
        pixels = grad[0]
        for size in grad[2:]:
            pixels *= size
        depth = 1
        for size in weight[1:]:
            depth *= size
        return Product(1, pixels, depth, grad[1])
    return None


def compute_format(op: Op, families: OpFamilies, *, tf32: bool) -> str:
    """The format a product runs in, from the dtypes it was given."""
    floats = [t.dtype for t in op.inputs if t.dtype in _NAMES and t.shape]
    low = next((d for d in floats if d in ("float16", "bfloat16")), None)
    if low is not None:
        return _NAMES[low]
    if tf32 and op.name in families.products and "float64" not in floats:
        return "tf32"
    return _NAMES.get(floats[0], "fp32") if floats else "fp32"


def step_time(ops: Sequence[Op], device: Device, families: OpFamilies, *, tf32: bool) -> StepTime:
    """Sum of the ops' predicted times; ops are those the mode really ran, casts included."""
    modules: dict[str, float] = defaultdict(float)
    total = 0.0
    for op in ops:
        work = Work(op.flops, op.bytes_read + op.bytes_written, product_of(op))
        time, _ = op_time(work, compute_format(op, families, tf32=tf32), device)
        total += time
        modules[op.module] += time
    return StepTime(total, dict(modules))


def optimizer_time_us(parameters: int, bytes_per_parameter: int, device: Device) -> float:
    """A fused optimizer step: bound by the bytes of parameters, gradients and state it reads and writes."""
    return op_time(Work(0, parameters * bytes_per_parameter), "fp32", device)[0]
