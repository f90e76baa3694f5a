"""Half transforms as CUDA has them: which lengths, which dtypes, which values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from auditor.numerics.fourier import CudaFourier


@pytest.mark.parametrize(
    ("call", "sizes"),
    [
        (lambda x: torch.fft.rfft(x), (3, 64)),
        (lambda x: torch.fft.fft(x, dim=0), (64, 3)),
        (lambda x: torch.fft.rfft2(x), (3, 8, 16)),
        (lambda x: torch.fft.fftn(x, dim=(0, 2)), (4, 3, 8)),
        (lambda x: torch.fft.rfft(x, n=32), (3, 50)),
        (lambda x: torch.stft(x, 16, window=torch.ones(16).half(), return_complex=True), (100,)),
    ],
)
def test_powers_of_two_are_computed_wide_and_held_in_half(
    call: Callable[[torch.Tensor], torch.Tensor], sizes: tuple[int, ...]
) -> None:
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(0)).half()
    with CudaFourier():
        out = call(x)
    with torch.no_grad():
        window = torch.ones(16)
        exact = (
            torch.stft(x.float(), 16, window=window, return_complex=True) if x.dim() == 1 else call(x.float())
        )
    assert out.dtype == torch.complex32
    assert torch.equal(out.to(torch.complex64), exact.to(torch.complex32).to(torch.complex64))


def test_back_to_real_is_half_again_and_gradients_flow() -> None:
    x = torch.randn(4, 16, requires_grad=True)
    with CudaFourier():
        y = torch.fft.irfft(torch.fft.rfft(x.half()))
    assert y.dtype == torch.float16 and torch.allclose(y.float(), x, atol=1e-2)
    y.float().sum().backward()
    assert x.grad is not None and torch.allclose(x.grad, torch.ones_like(x), atol=1e-2)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.fft.rfft(x),
        lambda x: torch.fft.rfft2(x),
        lambda x: torch.fft.irfft(x.to(torch.complex32)),  # 48 bins stand for a length of 94
        lambda x: torch.stft(x[0], 40, return_complex=True),
    ],
)
def test_other_lengths_are_refused(call: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with CudaFourier(), pytest.raises(RuntimeError, match="powers of two"):
        call(torch.randn(3, 48).half())


def test_bfloat16_is_refused_and_float32_left_alone() -> None:
    with CudaFourier():
        with pytest.raises(RuntimeError, match="Unsupported dtype BFloat16"):
            torch.fft.fft(torch.randn(8).bfloat16())
        assert torch.fft.fft(torch.randn(7)).dtype == torch.complex64
