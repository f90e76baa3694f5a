"""Series and scatter pictures: error growth, roofline, and the loss-scale window to drag."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from auditor.contract import Audit, OpTable
from auditor.report import words
from auditor.report.charts import FP16, Tick, histogram_picture

_MOST_POINTS = 500
_LEAST_LOG10, _MOST_LOG10 = -6.0, 0.0


@dataclass(frozen=True)
class DepthCurve:
    """Polylines of a 1000 x 1000 drawing."""

    fp16: str
    bf16: str
    steps: tuple[Tick, ...]
    shares: tuple[Tick, ...]
    description: str


def _error_y(error: float) -> float:
    """Percent of the height: 100 % error at the top, a millionth and less at the bottom."""
    log = math.log10(error) if 0 < error < math.inf else _MOST_LOG10 if error else _LEAST_LOG10
    return round(
        4 + 90 * (_MOST_LOG10 - min(max(log, _LEAST_LOG10), _MOST_LOG10)) / (_MOST_LOG10 - _LEAST_LOG10), 2
    )


def depth_curve(ops: OpTable | None) -> DepthCurve | None:
    """The worst error of each stretch of forward ops, so that a peak is never thinned away."""
    if ops is None:
        return None
    forward = [i for i, phase in enumerate(ops.phase) if ops.texts[phase] == "forward"]
    forward = [i for i in forward if ops.fp16_error[i] or ops.bf16_error[i]]  # exact ones are not on the axis
    if len(forward) < 3:
        return None
    stride = math.ceil(len(forward) / _MOST_POINTS)

    def line(column: Sequence[float | None]) -> str:
        points = []
        for start in range(0, len(forward), stride):
            errors = [e for i in forward[start : start + stride] if (e := column[i])]
            if errors:
                worst = max(math.inf if math.isnan(e) else e for e in errors)
                points.append(f"{1000 * start / (len(forward) - 1):.1f},{10 * _error_y(worst):.1f}")
        return " ".join(points)

    last = {
        name: column[forward[-1]] for name, column in (("FP16", ops.fp16_error), ("BF16", ops.bf16_error))
    }
    told = words.listed([f"{words.percent(e)} in {name}" for name, e in last.items() if e is not None])
    fifths = [round(k * (len(forward) - 1) / 4) for k in range(5)]
    return DepthCurve(
        fp16=line(ops.fp16_error),
        bf16=line(ops.bf16_error),
        steps=tuple(
            Tick(round(100 * k / (len(forward) - 1), 2), f"op {k + 1:,}", _anchor(n))
            for n, k in enumerate(fifths)
        ),
        shares=tuple(Tick(_error_y(e), f"{100 * e:g} %") for e in (1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)),
        description=f"At the end of the forward pass: {told}." if told else "",
    )


def _anchor(index: int) -> str:
    return {0: "start", 4: "end"}.get(index, "middle")


@dataclass(frozen=True)
class Roof:
    kind: str
    label: str
    points: str


@dataclass(frozen=True)
class Dot:
    """`kind` is memory or arithmetic: what bounds the layer in FP32."""

    x: float
    y: float
    radius: float
    kind: str
    label: str


@dataclass(frozen=True)
class Roofline:
    roofs: tuple[Roof, ...]
    dots: tuple[Dot, ...]
    intensities: tuple[Tick, ...]
    rates: tuple[Tick, ...]
    description: str


_MOST_DOTS = 60
_INTENSITY = (-2.0, 4.0)  # log10 of FLOP per byte


def roofline(audit: Audit) -> Roofline | None:
    """Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009: min(peak, intensity x bandwidth)."""
    ops, target = audit.ops, audit.target
    if ops is None or not target.bandwidth or not target.product_flops.get("fp32"):
        return None
    flops: dict[int, int] = defaultdict(int)
    moved: dict[int, int] = defaultdict(int)
    for row, module in enumerate(ops.module):
        flops[module] += ops.flops[row]
        moved[module] += ops.bytes[row]
    heaviest = sorted((m for m in flops if flops[m] and moved[m]), key=lambda m: -flops[m])[:_MOST_DOTS]
    if not heaviest:
        return None
    peaks = {p: r for p, r in target.product_flops.items() if r}
    top = math.ceil(math.log10(max(peaks.values())))
    bottom = top - 5

    def x(intensity: float) -> float:
        low, high = _INTENSITY
        return round(100 * (min(max(math.log10(intensity), low), high) - low) / (high - low), 2)

    def y(rate: float) -> float:
        return round(4 + 90 * (top - min(max(math.log10(rate), bottom), top)) / (top - bottom), 2)

    bandwidth, fp32 = target.bandwidth, peaks["fp32"]
    roofs = []
    for precision, peak in peaks.items():
        start, ridge = 10 ** _INTENSITY[0], peak / bandwidth
        corner = [(10 * x(i), 10 * y(min(peak, i * bandwidth))) for i in (start, ridge, 10 ** _INTENSITY[1])]
        low = 10.0**bottom / bandwidth  # where the slope leaves the drawing
        if low > start:
            corner[0] = (10 * x(low), 10 * y(10.0**bottom))
        label = f"{words.PRECISION[precision]} roof, {peak / 1e12:.3g} TFLOP/s"
        roofs.append(Roof(precision, label, " ".join(f"{a:.1f},{b:.1f}" for a, b in corner)))
    most = max(flops[m] for m in heaviest)
    dots = []
    for module in heaviest:
        intensity = flops[module] / moved[module]
        rate = min(fp32, intensity * bandwidth)
        bound = "memory" if intensity * bandwidth < fp32 else "arithmetic"
        label = f"{ops.texts[module] or '(root)'}: {intensity:.3g} FLOP per byte, bound by {bound} in FP32"
        dots.append(
            Dot(x(intensity), y(rate), round(3 + 7 * math.sqrt(flops[module] / most), 1), bound, label)
        )
    waiting = sum(d.kind == "memory" for d in dots)
    return Roofline(
        roofs=tuple(roofs),
        dots=tuple(dots),
        intensities=tuple(
            Tick(x(10.0**k), f"{10.0**k:g}", "start" if k == -2 else "end" if k == 4 else "middle")
            for k in range(-2, 5, 2)
        ),
        rates=tuple(Tick(y(10.0**k), f"{10.0 ** (k - 12):g} TF/s") for k in range(bottom, top + 1)),
        description=f"In FP32 {waiting} of these {len(dots)} layers wait for memory, "
        f"{len(dots) - waiting} for arithmetic.",
    )


@dataclass(frozen=True)
class ScaleWindow:
    """Unscaled FP16 gradients under the window a loss scale gives them. `points[i]` is made for the page."""

    bars: str
    ticks: tuple[Tick, ...]
    points: tuple[dict[str, Any], ...]
    start: int


def scale_window(audit: Audit) -> ScaleWindow | None:
    """Scaling by 2^k moves FP16's window k binades down over the unscaled gradients."""
    scale = audit.loss_scale
    unscaled = scale.evidence.values.get("absmax")
    gradients = next((h for h in audit.histograms if h.name == "all FP16 gradients"), None)
    if gradients is None or len(scale.curve) < 2:
        return None
    if isinstance(unscaled, (int, float)) and unscaled > 0 and gradients.absmax > 0:
        # The run itself may have scaled its loss; the evidence holds the largest gradient without.
        shift = round(math.log2(gradients.absmax / unscaled))
        gradients = gradients.model_copy(update={"start": gradients.start - shift})
    picture = histogram_picture(gradients)
    axis = picture.axis

    def point(log2: int, overflow: float, underflow: float) -> dict[str, Any]:
        normal = axis.span(FP16[1] - log2, FP16[2] - log2)
        subnormal = axis.span(FP16[0] - log2, FP16[1] - 1 - log2)
        lost, over = words.percent(underflow), words.percent(overflow)
        said = f"{words.power(log2)}: {lost} of gradients become zero, {over} overflow"
        return {
            "normal": [normal.at, normal.width],
            "subnormal": [subnormal.at, subnormal.width],
            "words": said,
        }

    points = tuple(point(p.log2, p.overflow, p.underflow) for p in scale.curve)
    chosen = scale.log2 if scale.log2 is not None else 0
    start = min(range(len(points)), key=lambda i: abs(scale.curve[i].log2 - chosen))
    return ScaleWindow(picture.bars, axis.ticks(), points, start)
