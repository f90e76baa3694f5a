"""Predicted time of a recorded run on a device."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from auditor.capture.families import OpFamilies
from auditor.capture.trace import Op
from auditor.devices.catalogue_reader import Device
from auditor.devices.roofline import OpTime, Product, Work, op_time

_NAMES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}
_GEMMS = ("aten.mm", "aten.bmm", "aten.addmm", "aten.addmm_", "aten._addmm_activation", "aten.baddbmm")


@dataclass(frozen=True)
class StepTime:
    """Microseconds of one step and where they go: by module path, and for each op in the order given."""

    total_us: float
    modules: dict[str, float]
    ops: tuple[OpTime, ...]


def products_of(op: Op, forward: Op | None = None) -> tuple[Product, ...]:
    """The matrix products an op computes, from its shapes; () for ops that compute none.

    `forward` is the op whose gradient `op` computes; it tells a weight gradient from an input gradient.
    """
    if op.name in _GEMMS:
        return (_gemm(op, forward),)
    if op.name in ("aten.convolution", "aten._convolution"):
        return _convolution(op)
    if op.name == "aten.convolution_backward":
        return _convolution_backward(op)
    if op.name.startswith("aten._scaled_dot_product"):
        return _attention(op)
    return ()


def product_of(op: Op) -> Product | None:
    """The first of an op's products; all of them share the sizes that must be aligned."""
    return next(iter(products_of(op)), None)


def _gemm(op: Op, forward: Op | None) -> Product:
    a, b = (t.shape for t in op.inputs[-2:])
    batch, m, n, k = (a[0] if len(a) == 3 else 1), a[-2], b[-1], a[-1]
    # Row-major operands lie along k and n. A weight gradient sums over the rows of the forward product
    # (tokens), which then take the place of k and lie along nothing.
    rows = forward.inputs[-2].shape[-2] if forward is not None and forward.name in _GEMMS else None
    sums_rows = len(a) == 2 and k == rows and m != rows
    return Product(batch, m, n, k, loaded=(("n", n), ("m", m) if sums_rows else ("k", k)))


@dataclass(frozen=True, slots=True)
class _Channels:
    """Channels of a convolution in one group, in the direction of its forward pass."""

    groups: int
    into: int
    out: int
    taps: int

    @property
    def loaded(self) -> tuple[tuple[str, int], ...]:
        return (("in_channels", self.into), ("out_channels", self.out))


def _channels(op: Op, weight: tuple[int, ...]) -> _Channels | None:
    """None for depthwise convolutions: those kernels are no matrix products and run on vector units."""
    groups = int(op.constants.get("groups", 1))
    into, out = weight[1], weight[0] // groups
    if op.constants.get("transposed", False):  # weight is (in, out / groups, ...)
        into, out = out, into
    depthwise = groups > 1 and into == 1
    return None if depthwise else _Channels(groups, into, out, math.prod(weight[2:]))


def _pixels(shape: tuple[int, ...]) -> int:
    """Batch times spatial positions of an activation (N, C, ...)."""
    return shape[0] * math.prod(shape[2:])


def _implicit(groups: int, m: int, n: int, multiply_adds: int, channels: _Channels) -> Product:
    """k is what is left of the arithmetic: with strides not every tap meets every pixel."""
    return Product(groups, m, n, max(multiply_adds // max(groups * m * n, 1), 1), loaded=channels.loaded)


def _multiply_adds(channels: _Channels, pixels: int) -> int:
    return channels.groups * channels.into * channels.out * channels.taps * pixels


def _convolution(op: Op) -> tuple[Product, ...]:
    x, weight, y = op.inputs[0].shape, op.inputs[1].shape, op.outputs[0].shape
    c = _channels(op, weight)
    if c is None:
        return ()
    work = _multiply_adds(c, _pixels(x if op.constants.get("transposed", False) else y))
    return (_implicit(c.groups, _pixels(y), c.out, work, c),)


def _convolution_backward(op: Op) -> tuple[Product, ...]:
    """One product for each gradient the op returns: the input's, the weight's."""
    grad, x, weight = (t.shape for t in op.inputs[:3])
    c = _channels(op, weight)
    if c is None:
        return ()
    work = _multiply_adds(c, _pixels(x if op.constants.get("transposed", False) else grad))
    returned = {t.shape for t in op.outputs}
    products = []
    if x in returned:
        products.append(_implicit(c.groups, _pixels(x), c.into, work, c))
    if weight in returned:
        products.append(_implicit(c.groups, c.out, c.into * c.taps, work, c))
    return tuple(products)


def _attention(op: Op) -> tuple[Product, ...]:
    """Fused attention: q k^T and p v forward; backward computes q k^T again and four gradients."""
    backward = op.name.endswith("_backward")
    q, key, value = (t.shape for t in op.inputs[backward : backward + 3])  # backward takes the gradient first
    batch, rows, keys = math.prod(q[:-2]), q[-2], key[-2]
    # A causal mask spares half of the arithmetic.
    rows = max(rows // 2, 1) if op.constants.get("is_causal", False) else rows
    scores = Product(batch, rows, keys, q[-1], loaded=(("head_dim", q[-1]),))
    mixed = Product(batch, rows, value[-1], keys, loaded=(("head_dim", value[-1]),))
    return (scores, scores, scores, mixed, mixed) if backward else (scores, mixed)


def compute_format(op: Op, families: OpFamilies, *, tf32: bool) -> str:
    """The format of a product's operands, from the dtypes it was given."""
    floats = [t.dtype for t in op.inputs if t.dtype in _NAMES and t.shape]
    low = next((d for d in floats if d in ("float16", "bfloat16")), None)
    if low is not None:
        return _NAMES[low]
    if tf32 and op.name in families.products and "float64" not in floats:
        return "tf32"
    return _NAMES.get(floats[0], "fp32") if floats else "fp32"


def step_time(ops: Sequence[Op], device: Device, families: OpFamilies, *, tf32: bool) -> StepTime:
    """Sum of the ops' predicted times; ops are those the mode really ran, casts included."""
    by_id = {op.id: op for op in ops}
    modules: dict[str, float] = defaultdict(float)
    times = []
    for op in ops:
        forward = by_id.get(op.forward_id) if op.forward_id is not None else None
        work = Work(op.flops, op.bytes_read + op.bytes_written, products_of(op, forward))
        time = op_time(work, compute_format(op, families, tf32=tf32), device)
        times.append(time)
        modules[op.module] += time.us
    return StepTime(sum(t.us for t in times), dict(modules), tuple(times))


def optimizer_time_us(parameters: int, bytes_per_parameter: int, device: Device) -> float:
    """A fused optimizer step: bound by the bytes of parameters, gradients and state it reads and writes."""
    return op_time(Work(0, parameters * bytes_per_parameter), "fp32", device).us
