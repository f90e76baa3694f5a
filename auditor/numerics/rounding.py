"""Rounding float32 values to the grid of a narrower format."""

from __future__ import annotations

import torch

from auditor.numerics.formats import FORMATS

_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
_DROPPED_BITS = 23 - FORMATS["tf32"].mantissa_bits


def round_to(x: torch.Tensor, fmt: str) -> torch.Tensor:
    """float32 `x` (any shape) rounded to `fmt`, as float32.

    fp16 and bf16 round to nearest, ties to even, through PyTorch's own conversion; overflow goes to infinity,
    infinities and NaN are kept. TF32 rounds to nearest, ties away from zero, for which the evidence is:
    PTX's conversion for tensor-core operands, cvt.rna.tf32.f32, does so; so does CUTLASS
    (tfloat32_t::round_half_ulp_truncate); and torch.matmul of 1024.5 by 1 on an RTX 3090 gives 1025
    (pytorch/pytorch#53635), where truncation and ties to even both give 1024. That cuBLAS does the same on
    every NVIDIA generation is an assumption. Kernels that hand raw float32 to the tensor cores truncate, as
    AMD's xf32 does (ROCm/rocm-libraries#9176): up to twice this error, and biased toward zero.
    """
    if fmt == "fp32":
        return x
    if fmt == "tf32":
        return _round_tf32(x)
    return x.to(_DTYPES[fmt]).to(torch.float32)


def _round_tf32(x: torch.Tensor) -> torch.Tensor:
    # Sign and magnitude share the word, so adding half an ulp to the bits rounds the magnitude and carries
    # into the exponent; the largest values carry into the pattern of infinity.
    bits = x.contiguous().view(torch.int32)
    rounded = (bits + (1 << (_DROPPED_BITS - 1))) & -(1 << _DROPPED_BITS)
    return torch.where(torch.isfinite(x), rounded.view(torch.float32), x)


def round_value(value: float, fmt: str) -> float:
    """One Python float, by way of float32, rounded to `fmt`."""
    return float(round_to(torch.tensor(value, dtype=torch.float32), fmt))
