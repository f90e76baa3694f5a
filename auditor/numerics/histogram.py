"""Exact binade histograms: how many values have which exponent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from auditor.numerics.formats import FloatFormat

_BINS = 256
_BIAS = 127


@dataclass(frozen=True, slots=True)
class BinadeHistogram:
    """counts[i] finite nonzero values have float32 exponent field i, i.e. 2^(i-127) <= |x| < 2^(i-126).

    Bin 0 holds all magnitudes below 2^-126; exact zeros and non-finite values are counted apart. `absmax` is
    the largest finite magnitude, to float32. From one histogram follow the shares for any format and any
    scale 2^k, since scaling by 2^k moves every value k bins up.
    """

    counts: tuple[int, ...]
    zeros: int
    nonfinite: int
    absmax: float

    @property
    def nonzero(self) -> int:
        return sum(self.counts)

    @property
    def total(self) -> int:
        return self.nonzero + self.zeros + self.nonfinite

    def merge(self, other: BinadeHistogram) -> BinadeHistogram:
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return BinadeHistogram(
            counts, self.zeros + other.zeros, self.nonfinite + other.nonfinite, max(self.absmax, other.absmax)
        )

    def _share_from(self, exponent: int) -> float:
        first = min(max(exponent + _BIAS, 0), _BINS)
        nonzero = self.nonzero
        return sum(self.counts[first:]) / nonzero if nonzero else 0.0

    def overflow_share(self, fmt: FloatFormat, log2_scale: int = 0) -> float:
        """Share of nonzero values beyond `fmt`'s largest after scaling by 2^log2_scale.

        Exact but for the binade that holds the largest finite value: its values count as fitting unless
        the largest of all rounds to infinity, and then they count as overflowing with it.
        """
        if math.ldexp(self.absmax, log2_scale) < fmt.overflow_threshold:
            return 0.0
        share = self._share_from(fmt.max_exponent + 1 - log2_scale)
        return share if share > 0.0 else self._share_from(fmt.max_exponent - log2_scale)

    def flush_share(self, fmt: FloatFormat, log2_scale: int = 0) -> float:
        """Share of nonzero values that round to zero: below half the smallest subnormal (the one value
        exactly at half, a tie to even, is counted as kept).

        Exact while the unscaled threshold is at least 2^-126, as for fp16 up to log2_scale 101. Below, it
        lies within bin 0, whose values count as kept: so for bf16 and tf32 at scale 1 the share is 0.
        """
        exponent = fmt.min_exponent - fmt.mantissa_bits - 1
        return 1.0 - self._share_from(exponent - log2_scale) if self.nonzero else 0.0

    def subnormal_share(self, fmt: FloatFormat, log2_scale: int = 0) -> float:
        """Share of nonzero values below the smallest normal, the flushed ones included."""
        return 1.0 - self._share_from(fmt.min_exponent - log2_scale) if self.nonzero else 0.0

    def quantile_exponent(self, share: float) -> int | None:
        """Exponent of the binade in which the given share (0..1) of nonzero values is reached."""
        wanted = share * self.nonzero
        reached = 0
        for index, count in enumerate(self.counts):
            reached += count
            if count and reached >= wanted:
                return index - _BIAS
        return None

    def trimmed(self) -> tuple[int, tuple[int, ...]]:
        """(exponent of the first, counts) of the occupied bins; (0, ()) when there are none."""
        filled = [i for i, count in enumerate(self.counts) if count]
        if not filled:
            return 0, ()
        return filled[0] - _BIAS, self.counts[filled[0] : filled[-1] + 1]


def empty_histogram() -> BinadeHistogram:
    return BinadeHistogram((0,) * _BINS, 0, 0, 0.0)


def binade_histogram(x: torch.Tensor) -> BinadeHistogram:
    """Histogram of a floating tensor of any shape. float64 values are cast to float32 first: those beyond
    its range count as non-finite, those below it as nonzero values of bin 0."""
    if x.numel() == 0:
        return empty_histogram()
    wide = x.detach().to(torch.float32).contiguous()
    low, high = torch.aminmax(wide)
    # int32 >> 23 leaves sign and exponent; uint8 drops the sign.
    field = (wide.view(torch.int32) >> 23).to(torch.uint8)
    listed = torch.bincount(field.flatten(), minlength=_BINS).tolist()
    nonfinite = listed[-1]
    absmax = max(abs(float(low)), abs(float(high)))
    if nonfinite:
        finite = wide[torch.isfinite(wide)]
        absmax = float(finite.abs().max()) if finite.numel() else 0.0
    # Counted before the cast, which turns a float64 below float32's range into a zero it was not.
    zeros = x.numel() - int(torch.count_nonzero(x)) if listed[0] else 0
    return BinadeHistogram((listed[0] - zeros, *listed[1:-1], 0), zeros, nonfinite, absmax)
