"""Rounding is bit-exact against references that share no code with it."""

import math
import struct

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from auditor.numerics.rounding import round_to, round_value

ANY_FLOAT32 = st.integers(0, 2**32 - 1).map(lambda bits: struct.unpack("<f", struct.pack("<I", bits))[0])


def tf32_reference(value: float) -> float:
    """Round to nearest, ties away, by integer arithmetic on sign and magnitude."""
    if math.isnan(value) or math.isinf(value):
        return value
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    sign, magnitude = bits & 0x80000000, bits & 0x7FFFFFFF
    kept, dropped = magnitude >> 13, magnitude & 0x1FFF
    kept += dropped >= 0x1000
    return struct.unpack("<f", struct.pack("<I", sign | (kept << 13)))[0]


def same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or struct.pack("<f", a) == struct.pack("<f", b)


@given(ANY_FLOAT32)
def test_fp16_is_numpys(value: float) -> None:
    with np.errstate(over="ignore"):
        assert same(round_value(value, "fp16"), float(np.float32(np.float16(np.float32(value)))))


@given(ANY_FLOAT32)
def test_bf16_is_ml_dtypes(value: float) -> None:
    assert same(
        round_value(value, "bf16"), float(np.float32(value).astype(ml_dtypes.bfloat16).astype(np.float32))
    )


@given(ANY_FLOAT32)
def test_tf32_is_integer_arithmetics(value: float) -> None:
    assert same(round_value(value, "tf32"), tf32_reference(value))


@pytest.mark.parametrize(
    ("value", "fmt", "expected"),
    [
        (65519.99, "fp16", 65504.0),
        (65520.0, "fp16", math.inf),
        (2.0**-25, "fp16", 0.0),  # a tie between 0 and 2^-24 goes to the even one
        (2.0**-25 * 1.001, "fp16", 2.0**-24),
        (2049.0, "fp16", 2048.0),
        (2051.0, "fp16", 2052.0),
        (257.0, "bf16", 256.0),
        (3.4e38, "bf16", math.inf),
        (1 + 2.0**-11, "tf32", 1 + 2.0**-10),  # a tie, away from zero
        (-(1 + 2.0**-11), "tf32", -(1 + 2.0**-10)),
        (1024.5, "tf32", 1025.0),  # what torch.matmul by 1 gives on an RTX 3090: pytorch/pytorch#53635
        (1e-45, "tf32", 0.0),
        (2.0**-137, "tf32", 2.0**-136),  # half of the smallest subnormal, a tie
        (3.4028e38, "tf32", math.inf),
        (1.0 / 3.0, "fp32", struct.unpack("<f", struct.pack("<f", 1.0 / 3.0))[0]),
    ],
)
def test_edges(value: float, fmt: str, expected: float) -> None:
    assert round_value(value, fmt) == expected


def test_a_strided_tensor_is_rounded_in_place_of_its_elements() -> None:
    x = torch.tensor([[1 + 2.0**-11, 5.0], [7.0, 1 + 2.0**-12]]).t()
    assert round_to(x, "tf32").tolist() == [[1 + 2.0**-10, 7.0], [5.0, 1.0]]


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "tf32", "fp32"])
def test_nan_infinity_and_the_sign_of_zero_are_kept(fmt: str) -> None:
    assert math.isnan(round_value(math.nan, fmt))
    for value in (math.inf, -math.inf, 0.0, -0.0):
        assert same(round_value(value, fmt), value)
    assert same(round_value(-1e-45, fmt), -1e-45 if fmt == "fp32" else -0.0)


@given(ANY_FLOAT32, st.sampled_from(["fp16", "bf16", "tf32"]))
def test_rounding_twice_is_rounding_once(value: float, fmt: str) -> None:
    once = round_value(value, fmt)
    assert same(round_value(once, fmt), once)
