"""The loss scale's start, from gradients whose exponents are known."""

import torch

from auditor.numerics.histogram import binade_histogram
from auditor.plan.loss_scale import loss_scale_of


def recommend(gradients: torch.Tensor, **options: object) -> object:
    settings = {"run_log2": 0, "fp16": True, "surrogate": False, **options}
    return loss_scale_of([binade_histogram(gradients)], **settings)  # type: ignore[arg-type]


def test_one_binade_below_the_largest_that_fits() -> None:
    # 65504 / 2^-4 = 2^19.99...: scaled by 2^19 the largest is 2^15, by 2^20 it is infinite.
    # 2^-43 needs 2^18 to be kept.
    scale = recommend(torch.tensor([2.0**-4, 2.0**-30, 2.0**-43]))
    assert scale.safe_log2_range[1] == 19
    assert scale.log2 == 18 and scale.initial == 2.0**18
    assert 1.0 < scale.headroom_binades < 2.0


def test_no_more_than_is_of_use() -> None:
    # 2^-20 at most: 2^35 would fit, but at 2^16 nothing flushes any more.
    scale = recommend(torch.full((100,), 2.0**-20))
    assert scale.log2 == 16 and scale.safe_log2_range == (0, 32)


def test_the_curve_counts_what_flushes_and_overflows() -> None:
    scale = recommend(torch.tensor([2.0**-30] * 3 + [1.0]))
    shares = {p.log2: (p.overflow, p.underflow) for p in scale.curve}
    assert len(shares) == 33
    assert shares[0] == (0.0, 0.75)  # 2^-30 lies below 2^-25
    assert shares[4] == (0.0, 0.75) and shares[6] == (0.0, 0.0)
    assert shares[15] == (0.0, 0.0) and shares[16] == (0.25, 0.0)


def test_gradients_of_a_scaled_run_are_taken_back() -> None:
    plain = recommend(torch.tensor([2.0**-6, 2.0**-20]))
    scaled = recommend(torch.tensor([2.0**-6, 2.0**-20]) * 2.0**10, run_log2=10)
    assert (plain.log2, plain.safe_log2_range) == (scaled.log2, scaled.safe_log2_range)


def test_bf16_needs_none_and_a_surrogate_lowers_confidence() -> None:
    scale = recommend(torch.ones(4), fp16=False, surrogate=True)
    assert not scale.needed and scale.initial is None and scale.confidence == "low"


def test_without_gradients_nothing_is_claimed() -> None:
    scale = loss_scale_of([], run_log2=0, fp16=True, surrogate=False)
    assert scale.initial is None and scale.curve == () and scale.evidence.kind == "assumed"
