"""Geometry of the report's pictures: numbers in, SVG coordinates out. The template only draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from auditor.contract import Audit, Histogram, LossScale
from auditor.report.words import MODE, size

# Exponents of the largest and smallest normal binade, and of the smallest subnormal (IEEE 754; BF16 and TF32
# share FP32's range).
WINDOWS = {"fp16": (-24, -14, 15), "bf16": (-133, -126, 127)}


@dataclass(frozen=True)
class Line:
    points: str
    area: str


@dataclass(frozen=True)
class ScaleCurve:
    """Shares against log2 of the loss scale on a square-root axis, so that small shares are seen."""

    width: int
    height: int
    overflow: Line
    underflow: Line
    safe_x: float
    safe_width: float
    initial_x: float | None
    ticks: tuple[tuple[float, str], ...]
    shares: tuple[tuple[float, str], ...]


_W, _H, _LEFT, _BOTTOM, _TOP = 640, 220, 44, 28, 12


def _x(log2: float, last: float) -> float:
    return round(_LEFT + log2 / last * (_W - _LEFT - 10), 1)


def _y(share: float) -> float:
    return round(_TOP + (1 - math.sqrt(max(min(share, 1.0), 0.0))) * (_H - _TOP - _BOTTOM), 1)


def scale_curve(scale: LossScale) -> ScaleCurve | None:
    if not scale.curve:
        return None
    last = scale.curve[-1].log2

    def line(shares: Sequence[float]) -> Line:
        points = " ".join(f"{_x(p.log2, last)},{_y(s)}" for p, s in zip(scale.curve, shares, strict=True))
        floor = _y(0.0)
        return Line(points, f"{_x(0, last)},{floor} {points} {_x(last, last)},{floor}")

    low, high = scale.safe_log2_range or (0, 0)
    return ScaleCurve(
        width=_W,
        height=_H,
        overflow=line([p.overflow for p in scale.curve]),
        underflow=line([p.underflow for p in scale.curve]),
        safe_x=_x(low, last),
        safe_width=max(_x(high, last) - _x(low, last), 1.0),
        initial_x=_x(scale.log2, last) if scale.log2 is not None else None,
        ticks=tuple((_x(k, last), f"2^{k}") for k in range(0, last + 1, 4)),
        shares=tuple((_y(s), f"{s:.0%}" if s >= 0.01 or s == 0 else f"{s:.1%}") for s in (0.0, 0.01, 0.1, 0.25, 0.5, 1.0)),
    )


@dataclass(frozen=True)
class Bars:
    """One histogram: bars per binade over the exponent axis, with FP16's window."""

    title: str
    subtitle: str
    why: str
    bars: tuple[tuple[float, float, float, str], ...]  # x, y, height, label
    bar_width: float
    window_x: float
    window_width: float
    subnormal_x: float
    subnormal_width: float
    ticks: tuple[tuple[float, str], ...]
    zeros: str


_BW, _BH = 420, 130


def histogram_bars(histogram: Histogram) -> Bars:
    low = min(histogram.start, -26)
    high = max(histogram.start + len(histogram.counts), 18)
    step = _BW / (high - low)
    largest = max(histogram.counts, default=1) or 1
    bars = []
    for index, count in enumerate(histogram.counts):
        if count:
            height = max(math.log1p(count) / math.log1p(largest) * (_BH - 24), 1.0)
            exponent = histogram.start + index
            bars.append((round((exponent - low) * step, 1), round(_BH - 18 - height, 1), round(height, 1), f"2^{exponent}: {count:,} values"))
    smallest, tiny, top = WINDOWS["fp16"]
    total = sum(histogram.counts) + histogram.zeros + histogram.nonfinite
    return Bars(
        title=histogram.name,
        subtitle=histogram.module,
        why=histogram.why,
        bars=tuple(bars),
        bar_width=round(max(step - 1, 1), 1),
        window_x=round((tiny - low) * step, 1),
        window_width=round((top + 1 - tiny) * step, 1),
        subnormal_x=round((smallest - low) * step, 1),
        subnormal_width=round((tiny - smallest) * step, 1),
        ticks=tuple((round((e - low) * step, 1), f"2^{e}") for e in range(-(-low // 16) * 16, high, 16)),
        zeros=f"{histogram.zeros / total:.1%} zeros" if total else "",
    )


@dataclass(frozen=True)
class LadderRow:
    module: str
    spans: tuple[tuple[str, float, float, float, str], ...]  # role, x, width, median x, label


@dataclass(frozen=True)
class Ladder:
    rows: tuple[LadderRow, ...]
    ticks: tuple[tuple[float, str], ...]
    top_x: float
    tiny_x: float
    smallest_x: float
    left_out: int


_LW, _MOST_ROWS = 520, 60


def range_ladder(audit: Audit) -> Ladder | None:
    if not audit.ranges:
        return None
    low = min(max(min(r.low for r in audit.ranges), -60), -26)
    high = max(max(r.high for r in audit.ranges) + 1, 18)
    step = _LW / (high - low)

    def x(exponent: float) -> float:
        return round((max(exponent, low) - low) * step, 1)

    modules: dict[str, list[tuple[str, float, float, float, str]]] = {}
    for r in audit.ranges:
        label = f"{r.role.replace('_', ' ')}: 2^{r.low} to 2^{r.high}, median 2^{r.median}"
        modules.setdefault(r.module, []).append((r.role, x(r.low), max(round((r.high + 1 - max(r.low, low)) * step, 1), 2.0), x(r.median + 0.5), label))
    smallest, tiny, top = WINDOWS["fp16"]
    rows = tuple(LadderRow(module or "(root)", tuple(spans)) for module, spans in modules.items())
    return Ladder(
        rows=rows[:_MOST_ROWS],
        ticks=tuple((x(e), f"2^{e}") for e in range(-(-low // 8) * 8, high, 8)),
        top_x=x(top + 1),
        tiny_x=x(tiny),
        smallest_x=x(smallest),
        left_out=max(len(rows) - _MOST_ROWS, 0),
    )


@dataclass(frozen=True)
class MemoryBar:
    mode: str
    total: str
    parts: tuple[tuple[str, float, float, str], ...]  # item, x, width, label


def memory_bars(audit: Audit) -> tuple[MemoryBar, ...]:
    if audit.memory is None:
        return ()
    largest = max(item.total for item in audit.memory.modes.values()) or 1
    bars = []
    for mode, item in audit.memory.modes.items():
        parts, x = [], 0.0
        for name in ("parameters", "master_weights", "autocast_weight_copies", "gradients", "optimizer_state", "saved_activations"):
            value = getattr(item, name)
            width = value / largest * 480
            if value:
                parts.append((name, round(x, 1), round(width, 1), f"{name.replace('_', ' ')}: {size(value)}"))
            x += width
        bars.append(MemoryBar(MODE[mode], size(item.total), tuple(parts)))
    return tuple(bars)
