"""The measurements of several batches as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from auditor.measure import Measurements, ModeRun
from auditor.numerics.histogram import BinadeHistogram

_RANK = {"ok": 0, "not_run": 0, "unsupported": 0, "degraded": 1, "broken": 2}


def widest(measurements: Sequence[Measurements]) -> Measurements:
    """The measurements of several batches as one: ranges united (where the batches run the same ops), and
    of each mode the run that came out worst."""
    first, *others = measurements
    if not others:
        return first

    def severity(run: ModeRun) -> tuple[int, float]:
        return _RANK[run.result.verdict], max(
            run.result.output_error or 0.0, run.result.gradient_error or 0.0
        )

    targets = [op.target for op in first.trace.ops]
    alike = [m for m in others if [op.target for op in m.trace.ops] == targets]
    ranges, gradients = dict(first.ranges), dict(first.weight_gradients)
    for other in alike:
        _unite(ranges, other.ranges)
    for other in others:
        _unite(gradients, other.weight_gradients)
    return replace(
        first,
        reference_problem=next((m.reference_problem for m in measurements if m.reference_problem), None),
        ranges=ranges,
        weight_gradients=gradients,
        runs={name: max((m.runs[name] for m in measurements), key=severity) for name in first.runs},
    )


def _unite(known: dict[Any, BinadeHistogram], more: Mapping[Any, BinadeHistogram]) -> None:
    for key, histogram in more.items():
        known[key] = known[key].merge(histogram) if key in known else histogram
