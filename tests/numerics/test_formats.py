"""Formats against torch's, against rounding, and by hand for TF32, which torch has no dtype for."""

import math

import pytest
import torch

from auditor.numerics.formats import FORMATS
from auditor.numerics.rounding import round_value


@pytest.mark.parametrize(
    ("name", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16), ("fp32", torch.float32)]
)
def test_formats_are_torchs(name: str, dtype: torch.dtype) -> None:
    fmt, info = FORMATS[name], torch.finfo(dtype)
    assert (fmt.max, fmt.tiny, fmt.smallest) == (info.max, info.tiny, info.smallest_normal * info.eps)
    assert fmt.unit_roundoff == info.eps / 2


def test_tf32_has_float32s_range_and_float16s_precision() -> None:
    tf32, fp16, fp32 = (FORMATS[name] for name in ("tf32", "fp16", "fp32"))
    assert (tf32.bias, tf32.max_exponent, tf32.min_exponent) == (127, 127, -126)
    assert (tf32.tiny, tf32.smallest) == (fp32.tiny, 2.0**-136)
    assert (tf32.unit_roundoff, tf32.exact_integer_limit) == (fp16.unit_roundoff, 2048)
    assert tf32.max == (2 - 2**-10) * 2.0**127


@pytest.mark.parametrize("name", ["fp16", "bf16", "tf32"])
def test_bounds_are_where_rounding_changes(name: str) -> None:
    fmt = FORMATS[name]
    below = fmt.overflow_threshold * (1 - 2.0**-23)
    assert round_value(below, name) == fmt.max
    assert round_value(fmt.overflow_threshold, name) == math.inf
    assert round_value(fmt.smallest, name) == fmt.smallest
    assert round_value(fmt.smallest * 0.499, name) == 0.0
    assert round_value(fmt.exact_integer_limit, name) == fmt.exact_integer_limit
    assert round_value(fmt.exact_integer_limit + 1, name) != fmt.exact_integer_limit + 1
