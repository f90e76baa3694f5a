"""Compare a candidate tensor with its float32 twin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

_LOW = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output against its twin.

    error: ||out - twin|| / ||twin||, inf where `out` is non-finite and the twin is not.
    local: ||out - before rounding|| / ||out||, what this op's own rounding added.
    nonfinite: elements non-finite here and finite in the twin; of these `nans` are NaN.
    overflowed: elements finite before rounding and infinite after.
    flushed: elements nonzero before rounding and zero after; `lost`: nonzero in the twin, zero here.
    absmax: largest finite magnitude of the twin.
    """

    numel: int
    absmax: float
    nonfinite: int
    nans: int
    overflowed: int
    flushed: int
    lost: int
    error: float
    local: float


def largest_magnitude(tensor: torch.Tensor) -> float:
    """max |x|; NaN if the tensor holds one; 0 when empty."""
    if tensor.numel() == 0:
        return 0.0
    low, high = torch.aminmax(tensor)
    return max(abs(low.item()), abs(high.item())) if not math.isnan(low.item()) else math.nan


def _norm(tensor: torch.Tensor) -> float:
    """L2 norm, inf or NaN if an element is; squares that overflow or underflow are no obstacle."""
    flat = tensor.reshape(-1)
    # dot is BLAS's own, at half the time of vector_norm; its sum of squares is good to 1e-6 or so.
    squares = torch.dot(flat, flat).item()
    if 1e-30 < squares < 1e36:
        return math.sqrt(squares)
    largest = largest_magnitude(flat)
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    return largest * float(torch.linalg.vector_norm(flat.double() / largest))


def _zeros(tensor: torch.Tensor) -> int:
    return tensor.numel() - int(torch.count_nonzero(tensor))


def compare(out: torch.Tensor, before: torch.Tensor, twin: torch.Tensor) -> Comparison:
    """`out` as held by the candidate, `before` its last rounding (the same tensor if there was none), and
    the float32 `twin`, all of one shape."""
    low = out.dtype in _LOW
    rounded = low and before is not out
    out, before, twin = out.detach(), before.detach(), twin.detach()
    wide = out.float() if low else out
    size, scale = _norm(wide), _norm(twin)
    if math.isfinite(size) and math.isfinite(scale):
        counted = (0, 0, 0)
        absmax = largest_magnitude(twin)
        error = _relative(_norm(wide - twin), scale)
    else:
        counted = _count_nonfinite(wide, before if rounded else None, twin)
        absmax = largest_magnitude(torch.where(torch.isfinite(twin), twin, 0.0))
        error = math.inf if counted[0] else _finite_error(wide, twin)
    flushed = lost = 0
    local = 0.0
    if low:
        zeros = _zeros(wide)
        if zeros:
            lost = max(zeros - _zeros(twin), 0)
            flushed = max(zeros - _zeros(before), 0) if rounded else lost
        if rounded and math.isfinite(size):
            local = _relative(_norm(wide.sub_(before)), size)
    nonfinite, nans, overflowed = counted
    return Comparison(out.numel(), absmax, nonfinite, nans, overflowed, flushed, lost, error, local)


def _count_nonfinite(
    wide: torch.Tensor, before: torch.Tensor | None, twin: torch.Tensor
) -> tuple[int, int, int]:
    """(non-finite where the twin is finite, of these NaN, of these finite before rounding)."""
    bad = ~torch.isfinite(wide) & torch.isfinite(twin)
    nonfinite = int(bad.sum())
    if not nonfinite:
        return 0, 0, 0
    overflowed = int((bad & torch.isfinite(before)).sum()) if before is not None else 0
    return nonfinite, int((bad & torch.isnan(wide)).sum()), overflowed


def _finite_error(wide: torch.Tensor, twin: torch.Tensor) -> float:
    """The relative error over the elements finite in both."""
    both = torch.isfinite(wide) & torch.isfinite(twin)
    return _relative(_norm(torch.where(both, wide - twin, 0.0)), _norm(torch.where(both, twin, 0.0)))


def _relative(value: float, scale: float) -> float:
    if value == 0.0:
        return 0.0
    return value / scale if scale > 0.0 else math.inf
