"""A closer look at an op that came out worse than its format's rounding explains, operands at hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from auditor.capture.storages import storage_id
from auditor.numerics.compare import largest_magnitude
from auditor.numerics.twins import Twins, widened

_SUMS = frozenset({"aten.add", "aten.add_", "aten.sub", "aten.sub_", "aten.rsub", "aten.lerp", "aten.lerp_"})
_QUOTIENTS = frozenset({"aten.div", "aten.div_"})
_INVERSES = frozenset({"aten.reciprocal", "aten.rsqrt", "aten.log", "aten.sqrt", "aten.log2", "aten.log10"})
_SOFTMAXES = frozenset({"aten._softmax", "aten._log_softmax", "aten._safe_softmax", "aten.logsumexp"})


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What the operands say.

    cancellation: median over elements of log2(max(|a|, |b|) / |a - b|), 0 if this is no sum of two.
    absorbed: share of elements that a nonzero addend left unchanged here but not in the twin.
    denominator: smallest magnitude divided by (or rooted, or logged) in the candidate; inf if none.
    vanished_denominators: elements that are zero there and nonzero in the twin.
    masked_rows: softmax rows whose every input is -inf or at the format's floor, here but not in the twin.
    """

    input_absmax: float
    cancellation: float = 0.0
    absorbed: float = 0.0
    denominator: float = math.inf
    vanished_denominators: int = 0
    masked_rows: int = 0


def _binades_lost(a: torch.Tensor, b: torch.Tensor, result: torch.Tensor) -> float:
    larger = torch.maximum(a.abs(), b.abs()).expand_as(result)
    known = (larger > 0) & (result != 0) & torch.isfinite(larger) & torch.isfinite(result)
    if not bool(known.any()):
        return 0.0
    return max(float(torch.log2(larger[known] / result[known].abs()).median()), 0.0)


def _absorbed(
    a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, a_twin: torch.Tensor, twin: torch.Tensor
) -> float:
    adds = (b != 0) & (twin != a_twin)
    stuck = adds & (out == a)
    total = int(adds.expand_as(out).sum())
    return int(stuck.expand_as(out).sum()) / total if total else 0.0


def examine(
    name: str, out: torch.Tensor, twin: torch.Tensor, inputs: Sequence[torch.Tensor], twins: Twins
) -> Suspicion:
    """`inputs` are the op's tensors; one that `out` aliases was overwritten and is passed over."""
    storage = storage_id(out)
    kept = [t for t in inputs if t.is_floating_point() and storage_id(t) != storage and t.numel()]
    found = {
        "input_absmax": max((largest_magnitude(twins.get(t)) for t in kept), default=0.0),
    }
    if name in _SUMS and len(kept) == 2:
        a, b = kept
        found["cancellation"] = _binades_lost(twins.get(a), twins.get(b), twin)
        first = _absorbed(widened(a), widened(b), widened(out), twins.get(a), twin)
        second = _absorbed(widened(b), widened(a), widened(out), twins.get(b), twin)
        found["absorbed"] = max(first, second)
    divisor = (
        kept[1] if name in _QUOTIENTS and len(kept) == 2 else kept[0] if name in _INVERSES and kept else None
    )
    if divisor is not None:
        magnitude = widened(divisor.detach()).abs()
        found["denominator"] = float(magnitude.min())
        found["vanished_denominators"] = int(((magnitude == 0) & (twins.get(divisor) != 0)).sum())
    if name in _SOFTMAXES and kept:
        rows = widened(kept[0].detach()).amax(-1)
        ok = torch.isfinite(twins.get(kept[0]).amax(-1))
        found["masked_rows"] = int(((rows == -math.inf) & ok).sum())
    return Suspicion(**found)  # type: ignore[arg-type]
