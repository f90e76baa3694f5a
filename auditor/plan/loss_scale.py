"""Where to start the loss scale, from the gradients' binade histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from auditor.contract import CurvePoint, Evidence, EvidenceKind, LossScale
from auditor.numerics.formats import FORMATS
from auditor.numerics.histogram import BinadeHistogram, empty_histogram

FP16 = FORMATS["fp16"]
LARGEST_LOG2 = 32
GROWTH_INTERVAL = 2000  # torch.amp.GradScaler's default
USUAL_LOG2 = 16  # torch.amp.GradScaler's default initial scale
# Gradients this rare below FP16's range do not turn an optimizer's step.
NEGLIGIBLE_FLUSH = 1e-3


def merged(histograms: Sequence[BinadeHistogram]) -> BinadeHistogram:
    total = empty_histogram()
    for histogram in histograms:
        total = total.merge(histogram)
    return total


def largest_safe_log2(absmax: float) -> int | None:
    """The largest k with absmax * 2^k still finite in FP16; None without gradients."""
    if absmax <= 0.0 or not math.isfinite(absmax):
        return None
    return math.floor(math.log2(FP16.max / absmax))


def no_loss_scale(reason: str, kind: EvidenceKind) -> LossScale:
    """What is said of the loss scale when no gradient was seen."""
    return LossScale(
        needed=False,
        initial=None,
        log2=None,
        safe_log2_range=None,
        headroom_binades=None,
        curve=(),
        growth_interval=GROWTH_INTERVAL,
        confidence="low",
        reason=reason,
        evidence=Evidence(kind=kind),
    )


def loss_scale_of(
    histograms: Sequence[BinadeHistogram], *, run_log2: int, fp16: bool, surrogate: bool, why_not: str = ""
) -> LossScale:
    """Recommend a scale from histograms of every 16-bit gradient of a step whose loss was scaled by
    2^run_log2. `fp16`: whether the recommended plan computes in FP16 at all; else none is needed."""
    histogram = merged(histograms)
    if histogram.nonzero == 0:
        return no_loss_scale(why_not or "no FP16 gradients were seen", "assumed")
    absmax = math.ldexp(histogram.absmax, -run_log2)
    top = min(max(largest_safe_log2(absmax) or 0, 0), LARGEST_LOG2)
    curve = tuple(
        CurvePoint(
            log2=k,
            overflow=histogram.overflow_share(FP16, k - run_log2),
            underflow=histogram.flush_share(FP16, k - run_log2),
        )
        for k in range(LARGEST_LOG2 + 1)
    )
    flush = [p.underflow for p in curve]
    enough = next((k for k in range(top + 1) if flush[k] <= max(NEGLIGIBLE_FLUSH, flush[top] * 1.01)), top)
    # One binade below the largest that fits leaves a factor of two for the next batches; more than what
    # flushes nothing is of no use, unless the usual start already is that.
    log2 = max(min(top - 1, max(enough, USUAL_LOG2)), 0)
    headroom = math.log2(FP16.max / math.ldexp(absmax, log2))
    unscaled = flush[0]
    if not fp16:
        reason = (
            "the plan computes in a format with FP32's exponent range (or in FP32), which needs no loss scale"
        )
    else:
        reason = (
            f"at 2^{log2} the largest gradient lies {headroom:.1f} binades below FP16's largest value and "
            f"{flush[log2]:.2%} of gradient values flush to zero ({unscaled:.2%} without a scale)"
        )
    return LossScale(
        needed=fp16,
        initial=float(2.0**log2) if fp16 else None,
        log2=log2 if fp16 else None,
        safe_log2_range=(min(enough, log2), top),
        headroom_binades=headroom,
        curve=curve,
        growth_interval=GROWTH_INTERVAL,
        confidence="low" if surrogate else "high",
        reason=reason,
        evidence=Evidence(
            kind="emulated",
            values={
                "gradient_values": histogram.nonzero,
                "absmax": absmax,
                "flushed_at_1": unscaled,
                f"flushed_at_2^{USUAL_LOG2}": flush[USUAL_LOG2],
                "surrogate_loss": surrogate,
            },
        ),
    )
