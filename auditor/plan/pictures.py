"""The histograms and ranges worth a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from auditor.contract import Finding, Histogram, LossScale, RangeRow
from auditor.measure import Measurements
from auditor.numerics.histogram import BinadeHistogram, empty_histogram
from auditor.plan.loss_scale import merged

Role = Literal["activation", "weight", "activation_gradient", "weight_gradient"]
_MOST = 8


def _picture(
    name: str, role: Role, module: str, op: str | None, histogram: BinadeHistogram, why: str
) -> Histogram:
    start, counts = histogram.trimmed()
    return Histogram(
        name=name,
        role=role,
        module=module,
        op=op,
        start=start,
        counts=counts,
        zeros=histogram.zeros,
        nonfinite=histogram.nonfinite,
        absmax=histogram.absmax,
        why=why,
    )


def worst_histograms(
    measured: Measurements, findings: Sequence[Finding], scale: LossScale
) -> tuple[Histogram, ...]:
    """The gradients as a whole, the tensors findings speak of, and those nearest the ends of FP16."""
    pictures = []
    gradients = [r.gradient for r in measured.runs["autocast_fp16"].records if r.gradient is not None]
    if gradients and scale.curve:
        pictures.append(
            _picture(
                "all FP16 gradients",
                "activation_gradient",
                "",
                None,
                merged(gradients),
                "the loss scale is chosen from these",
            )
        )
    places = {(f.file, f.line): f for f in findings if f.severity in ("high", "medium")}
    shown = set()
    for op in measured.trace.ops:
        finding = places.get((op.file, op.line))
        if (
            finding is None
            or op.id not in measured.ranges
            or op.phase != "forward"
            or (op.file, op.line, op.name) in shown
        ):
            continue
        shown.add((op.file, op.line, op.name))
        pictures.append(
            _picture(
                f"{op.name} at line {op.line}",
                "activation",
                op.module,
                op.name,
                measured.ranges[op.id],
                f"finding {finding.rule}",
            )
        )
    forward = [op for op in measured.trace.ops if op.phase == "forward" and op.id in measured.ranges]
    for op in sorted(forward, key=lambda op: -measured.ranges[op.id].absmax)[:2]:
        pictures.append(
            _picture(
                f"{op.name} at line {op.line}",
                "activation",
                op.module,
                op.name,
                measured.ranges[op.id],
                "among the largest activations",
            )
        )
    return tuple(pictures[:_MOST])


def _row(module: str, role: Role, histogram: BinadeHistogram) -> RangeRow | None:
    low, median, high = (histogram.quantile_exponent(q) for q in (0.001, 0.5, 1.0))
    if low is None or median is None or high is None:
        return None
    return RangeRow(module=module, role=role, low=low, median=median, high=high)


def range_rows(measured: Measurements) -> tuple[RangeRow, ...]:
    """Exponents (0.1 % quantile, median, largest) of activations, gradients and weights per module."""
    collected: dict[tuple[str, Role], BinadeHistogram] = {}

    def add(module: str, role: Role, histogram: BinadeHistogram) -> None:
        key = (module, role)
        collected[key] = collected.get(key, empty_histogram()).merge(histogram)

    for op in measured.trace.ops:
        if op.id in measured.ranges and op.module_type:
            role: Role = "activation" if op.phase == "forward" else "activation_gradient"
            add(op.module, role, measured.ranges[op.id])
    for name, histogram in measured.weights.items():
        add(name.rpartition(".")[0], "weight", histogram)
    for name, histogram in measured.weight_gradients.items():
        add(name.rpartition(".")[0], "weight_gradient", histogram)
    rows = [_row(module, role, histogram) for (module, role), histogram in collected.items()]
    return tuple(row for row in rows if row is not None)
