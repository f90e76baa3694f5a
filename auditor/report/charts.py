"""Geometry of the report's pictures: numbers in, positions out. The template only draws them.

Positions are percentages of the drawing's width or height unless a name says otherwise, so that a picture
fits any screen while its lettering keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from auditor.contract import Audit, Histogram, LossScale, RangeRow
from auditor.report.words import MEMORY_ITEM, MODE, PRECISION, ROLE, count, percent, power, size

# Exponents of the smallest subnormal, the smallest normal and the largest binade (IEEE 754-2019, table 3.5,
# and bfloat16, which has FP32's exponents).
FP16 = (-24, -14, 15)
BF16 = (-133, -126, 127)


@dataclass(frozen=True)
class Tick:
    at: float
    label: str
    anchor: str = "middle"


@dataclass(frozen=True)
class Span:
    at: float
    width: float
    label: str = ""
    kind: str = ""

    @property
    def middle(self) -> float:
        return round(self.at + self.width / 2, 2)

    @property
    def end(self) -> float:
        return round(self.at + self.width, 2)


def _ticks(positions: Sequence[tuple[float, str]]) -> tuple[Tick, ...]:
    """Labels at the drawing's ends turn inwards, so that none is cut off."""
    return tuple(
        Tick(x, label, "start" if x < 3 else "end" if x > 97 else "middle") for x, label in positions
    )


@dataclass(frozen=True)
class ScaleCurve:
    """Shares of gradient values lost against log2 of the loss scale; `overflow` and `underflow` are points of
    a 1000 x 1000 drawing."""

    overflow: str
    underflow: str
    safe: Span | None
    initial: Tick | None
    scales: tuple[Tick, ...]
    shares: tuple[Tick, ...]


_LEAST_SHARE_LOG10 = -6.0


def _share_y(share: float) -> float:
    """Decades from 100 % at the top down to 0.0001 %, and nothing at the bottom."""
    if share <= 0:
        return 97.0
    return round(4 + 84 * min(math.log10(share) / _LEAST_SHARE_LOG10, 1.0), 2)


def scale_curve(scale: LossScale) -> ScaleCurve | None:
    if len(scale.curve) < 2:
        return None
    first, last = scale.curve[0].log2, scale.curve[-1].log2

    def x(log2: float) -> float:
        return round(100 * (log2 - first) / (last - first), 2)

    def line(shares: Sequence[float]) -> str:
        points = zip(scale.curve, shares, strict=True)
        return " ".join(f"{10 * x(p.log2):.1f},{10 * _share_y(share):.1f}" for p, share in points)

    safe = None
    if scale.safe_log2_range is not None:
        low, high = scale.safe_log2_range
        safe = Span(x(low), max(round(x(high) - x(low), 2), 0.5), f"{power(low)} to {power(high)}")
    return ScaleCurve(
        overflow=line([p.overflow for p in scale.curve]),
        underflow=line([p.underflow for p in scale.curve]),
        safe=safe,
        initial=Tick(x(scale.log2), power(scale.log2)) if scale.log2 is not None else None,
        scales=_ticks([(x(k), power(k)) for k in range(first, last + 1) if k % 4 == 0]),
        shares=tuple(Tick(_share_y(s), f"{100 * s:g} %") for s in (1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 0.0)),
    )


@dataclass(frozen=True)
class Axis:
    """A stretch of exponents, and where FP16's and BF16's windows lie on it."""

    low: int
    high: int

    def x(self, exponent: float) -> float:
        return round(100 * (min(max(exponent, self.low), self.high) - self.low) / (self.high - self.low), 2)

    def span(self, low: int, high: int, label: str = "", kind: str = "") -> Span:
        """The binades `low` to `high`, both included."""
        start = self.x(low)
        return Span(start, round(self.x(high + 1) - start, 2), label, kind)

    @property
    def normal(self) -> Span:
        return self.span(FP16[1], FP16[2], "FP16")

    @property
    def subnormal(self) -> Span:
        return self.span(FP16[0], FP16[1] - 1, "FP16 subnormal")

    @property
    def bf16(self) -> Span:
        return self.span(BF16[1], BF16[2], "BF16")

    def ticks(self) -> tuple[Tick, ...]:
        step = 8 if self.high - self.low <= 48 else 16 if self.high - self.low <= 96 else 32
        first = -(-self.low // step) * step
        return _ticks([(self.x(e), power(e)) for e in range(first, self.high + 1, step)])


def _axis(low: int, high: int) -> Axis:
    """An axis that shows FP16's whole window beside the data from binade `low` to binade `high`."""
    return Axis(min(low, FP16[0] - 2), max(high + 1, FP16[2] + 3))


@dataclass(frozen=True)
class HistogramPicture:
    histogram: Histogram
    axis: Axis
    bars: str  # an SVG path in a 1000 x 100 drawing
    description: str
    zeros: str


def histogram_picture(histogram: Histogram) -> HistogramPicture:
    """Bars over binades; heights are logarithmic in the count, so that rare extremes are seen."""
    axis = _axis(histogram.start, histogram.start + len(histogram.counts) - 1)
    largest = max(histogram.counts, default=0)
    gap = 150 / (axis.high - axis.low)
    path = []
    for index, amount in enumerate(histogram.counts):
        if amount:
            left, right = (10 * axis.x(histogram.start + index + side) for side in (0, 1))
            height = max(96 * math.log1p(amount) / math.log1p(largest), 1.5)
            path.append(f"M{left:.1f} 100V{100 - height:.1f}H{right - gap:.1f}V100Z")
    total = sum(histogram.counts) + histogram.zeros + histogram.nonfinite
    seen = [histogram.start + i for i, amount in enumerate(histogram.counts) if amount]
    if seen:
        peak = histogram.start + histogram.counts.index(largest)
        description = f"Values from {power(seen[0])} to {power(seen[-1])}, most of them near {power(peak)}."
    else:
        description = "No finite nonzero value."
    zeros = percent(histogram.zeros / total) if total else "–"
    return HistogramPicture(histogram, axis, "".join(path), description, zeros)


@dataclass(frozen=True)
class LadderBar:
    span: Span
    median: float


@dataclass(frozen=True)
class LadderRow:
    module: str
    bars: tuple[LadderBar, ...]
    description: str


@dataclass(frozen=True)
class Ladder:
    axis: Axis
    rows: tuple[LadderRow, ...]
    left_out: int


_MOST_ROWS = 24
_LOWEST_SHOWN = -64


def _margin(ranges: Sequence[RangeRow]) -> int:
    """Binades between a module's values and the nearer end of FP16's normal range; negative beyond it."""
    return min(min(FP16[2] - r.high, r.median - FP16[1]) for r in ranges)


def range_ladder(audit: Audit) -> Ladder | None:
    """Exponent ranges of the modules nearest to FP16's ends, in the model's order."""
    if not audit.ranges:
        return None
    modules: dict[str, list[RangeRow]] = {}
    for row in audit.ranges:
        modules.setdefault(row.module, []).append(row)
    nearest = set(sorted(modules, key=lambda m: _margin(modules[m]))[:_MOST_ROWS])
    shown = {module: rows for module, rows in modules.items() if module in nearest}
    every = [row for rows in shown.values() for row in rows]
    axis = _axis(max(min(r.low for r in every), _LOWEST_SHOWN), max(r.high for r in every))

    def bar(r: RangeRow) -> LadderBar:
        words = f"{ROLE[r.role]}: {power(r.low)} to {power(r.high)}, median {power(r.median)}"
        return LadderBar(axis.span(r.low, r.high, words, r.role), axis.x(r.median + 0.5))

    def row_of(module: str, rows: Sequence[RangeRow]) -> LadderRow:
        bars = tuple(bar(r) for r in rows)
        return LadderRow(module or "(root)", bars, "; ".join(b.span.label for b in bars))

    rows = tuple(row_of(module, ranges) for module, ranges in shown.items())
    return Ladder(axis, rows, len(modules) - len(rows))


def precision_strip(audit: Audit) -> tuple[Span, ...]:
    """The layers by the format the plan runs them in: one span a format that occurs."""
    spans, x = [], 0.0
    for precision, name in PRECISION.items():
        amount = sum(layer.precision == precision for layer in audit.layers)
        if amount:
            spans.append(
                Span(
                    round(x, 2),
                    round(100 * amount / len(audit.layers), 2),
                    f"{name}: {count(amount, 'layer')}",
                    precision,
                )
            )
            x += spans[-1].width
    return tuple(spans)


@dataclass(frozen=True)
class MemoryRow:
    mode: str
    parts: tuple[Span, ...]
    items: tuple[str, ...]  # in MEMORY_ITEM's order
    total: str


def memory_rows(audit: Audit) -> tuple[MemoryRow, ...]:
    if audit.memory is None:
        return ()
    largest = max((item.total for item in audit.memory.modes.values()), default=0) or 1
    rows = []
    for mode in (m for m in MODE if m in audit.memory.modes):
        item = audit.memory.modes[mode]
        parts, x = [], 0.0
        for name, words in MEMORY_ITEM.items():
            amount = getattr(item, name)
            width = round(100 * amount / largest, 2)
            if amount:
                parts.append(Span(round(x, 2), width, f"{words}: {size(amount)}", name))
            x += width
        items = tuple(size(getattr(item, name)) for name in MEMORY_ITEM)
        rows.append(MemoryRow(MODE[mode], tuple(parts), items, size(item.total)))
    return tuple(rows)
