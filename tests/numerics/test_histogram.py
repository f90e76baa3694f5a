"""Binade histograms against counting by hand."""

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from auditor.numerics.formats import FORMATS
from auditor.numerics.histogram import binade_histogram, empty_histogram

FP16 = FORMATS["fp16"]


def test_counts_by_exponent() -> None:
    h = binade_histogram(torch.tensor([1.0, 1.99, 2.0, -4.0, 0.0, math.inf, math.nan, 1e-45]))
    assert (h.zeros, h.nonfinite, h.nonzero, h.total) == (1, 2, 5, 8)
    assert h.counts[127] == 2 and h.counts[128] == 1 and h.counts[129] == 1
    assert h.counts[0] == 1  # float32's subnormals
    assert h.absmax == 4.0


def test_strided_half_double_and_empty() -> None:
    x = torch.arange(1, 7, dtype=torch.float32).view(2, 3)
    assert binade_histogram(x.t()) == binade_histogram(x)
    assert binade_histogram(x.half()) == binade_histogram(x)
    assert binade_histogram(x.bfloat16()) == binade_histogram(x)
    assert binade_histogram(x.clone().requires_grad_()) == binade_histogram(x)
    assert binade_histogram(torch.tensor([1e300], dtype=torch.float64)).nonfinite == 1
    assert binade_histogram(torch.empty(0)) == empty_histogram()


def test_with_nothing_finite_there_is_no_largest() -> None:
    h = binade_histogram(torch.tensor([math.nan, -math.inf]))
    assert (h.nonfinite, h.nonzero, h.absmax) == (2, 0, 0.0)
    assert (h.overflow_share(FP16), h.flush_share(FP16), h.quantile_exponent(0.5)) == (0.0, 0.0, None)
    assert h.trimmed() == (0, ())


def test_a_double_below_float32s_range_is_no_zero() -> None:
    h = binade_histogram(torch.tensor([1e-300, -0.0, 1.0], dtype=torch.float64))
    assert (h.zeros, h.nonzero, h.counts[0]) == (1, 2, 1)
    assert h.flush_share(FP16) == 0.5


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=50), st.integers(-20, 20))
def test_shares_follow_from_the_values(values: list[float], log2: int) -> None:
    x = torch.tensor(values)
    nonzero = [abs(v) for v in x.tolist() if v]
    h = binade_histogram(x)
    assert h.nonzero == len(nonzero)
    if not nonzero:
        return
    scaled = [math.ldexp(v, log2) for v in nonzero]
    flushed = sum(v < 2.0**-25 for v in scaled) / len(scaled)
    assert math.isclose(h.flush_share(FP16, log2), flushed, abs_tol=1e-12)
    subnormal = sum(v < 2.0**-14 for v in scaled) / len(scaled)
    assert math.isclose(h.subnormal_share(FP16, log2), subnormal, abs_tol=1e-12)
    with np.errstate(over="ignore"):
        overflow = any(np.isinf(np.float16(v)) for v in scaled)
    assert (h.overflow_share(FP16, log2) > 0) == overflow


def test_overflow_is_exact_but_for_the_top_binade() -> None:
    past = binade_histogram(torch.tensor([65504.0, 65530.0, 70000.0]))
    assert past.overflow_share(FP16) == 1 / 3  # 65530 shares its binade with 65504
    within = binade_histogram(torch.tensor([1.0, 65504.0, 65530.0]))
    assert within.overflow_share(FP16) == 2 / 3  # that binade overflows as one
    assert binade_histogram(torch.tensor([1.0, 65519.0])).overflow_share(FP16) == 0.0


def test_bin_0_counts_as_kept_where_bf16_flushes() -> None:
    h = binade_histogram(torch.tensor([2.0**-140, 1.0]))
    assert h.flush_share(FORMATS["bf16"]) == 0.0
    assert h.subnormal_share(FORMATS["bf16"]) == 0.5


def test_merging_is_counting_together() -> None:
    a, b = torch.randn(100), torch.randn(50) * 1e-6
    assert binade_histogram(a).merge(binade_histogram(b)) == binade_histogram(torch.cat([a, b]))


def test_quantiles_and_trimming() -> None:
    h = binade_histogram(torch.tensor([0.5, 0.6, 8.0, 9.0, 10.0]))
    assert (h.quantile_exponent(0.01), h.quantile_exponent(0.5), h.quantile_exponent(1.0)) == (-1, 3, 3)
    assert h.trimmed() == (-1, (2, 0, 0, 0, 3))
