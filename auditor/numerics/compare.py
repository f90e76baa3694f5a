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
    local: ||out - before rounding|| / ||before rounding||, what this op's own rounding added.
    worst: the largest element error over the twin's largest magnitude.
    nonfinite: elements non-finite here and finite in the twin; of these `nans` are NaN.
    overflowed: elements finite before rounding and infinite after.
    flushed: elements nonzero before rounding and zero after; `lost`: nonzero in the twin, zero here.
    absmax: largest magnitude of the twin.
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
    worst: float


def _norm(tensor: torch.Tensor, largest: float) -> float:
    """L2 norm without overflow or underflow of the squares."""
    if largest == 0.0 or not math.isfinite(largest):
        return 0.0 if largest == 0.0 else math.inf
    if 1e-12 < largest < 1e12:
        return float(torch.linalg.vector_norm(tensor))
    return largest * float(torch.linalg.vector_norm(tensor.double() / largest))


def largest_magnitude(tensor: torch.Tensor) -> float:
    """max |x|; NaN if the tensor holds one; 0 when empty."""
    if tensor.numel() == 0:
        return 0.0
    low, high = torch.aminmax(tensor)
    return max(abs(float(low)), abs(float(high))) if not math.isnan(float(low)) else math.nan


def compare(out: torch.Tensor, before: torch.Tensor, twin: torch.Tensor) -> Comparison:
    """`out` as held by the candidate, `before` its last rounding (the same tensor if there was none), and
    the float32 `twin`, all of one shape."""
    low = out.dtype in _LOW
    out = out.detach()
    twin = twin.detach()
    wide = out.float() if low else out
    twin_largest = largest_magnitude(twin)
    out_largest = largest_magnitude(wide)
    nonfinite = nans = overflowed = 0
    if not math.isfinite(out_largest):
        bad = ~torch.isfinite(wide) & torch.isfinite(twin)
        nonfinite = int(bad.sum())
        if nonfinite:
            nans = int((bad & torch.isnan(wide)).sum())
            overflowed = int((bad & torch.isfinite(before)).sum()) if before is not out else 0
    if math.isfinite(out_largest) and math.isfinite(twin_largest):
        scale = _norm(twin, twin_largest)
        difference = wide - twin
        worst = largest_magnitude(difference)
        error = _relative(_norm(difference, worst), scale)
    else:
        both = torch.isfinite(wide) & torch.isfinite(twin)
        difference = torch.where(both, wide - twin, 0.0)
        kept = torch.where(both, twin, 0.0)
        twin_largest = largest_magnitude(torch.where(torch.isfinite(twin), twin, 0.0))
        worst = largest_magnitude(difference)
        error = (
            math.inf
            if nonfinite
            else _relative(_norm(difference, worst), _norm(kept, largest_magnitude(kept)))
        )
    flushed = lost = 0
    local = 0.0
    if low:
        zeros = out.numel() - int(torch.count_nonzero(out))
        if zeros:
            lost = max(zeros - (twin.numel() - int(torch.count_nonzero(twin))), 0)
            flushed = (
                max(zeros - (before.numel() - int(torch.count_nonzero(before))), 0)
                if before is not out
                else lost
            )
        if before is not out and math.isfinite(out_largest):
            rounding = wide - before
            local = _relative(
                _norm(rounding, largest_magnitude(rounding)), _norm(before, largest_magnitude(before))
            )
    return Comparison(
        numel=out.numel(),
        absmax=twin_largest,
        nonfinite=nonfinite,
        nans=nans,
        overflowed=overflowed,
        flushed=flushed,
        lost=lost,
        error=error,
        local=local,
        worst=_relative(worst, twin_largest),
    )


def _relative(value: float, scale: float) -> float:
    if value == 0.0:
        return 0.0
    return value / scale if scale > 0.0 else math.inf
