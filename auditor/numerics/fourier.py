"""torch.fft in half as CUDA has it, on any machine.

The CPU refuses every half transform before an op is dispatched. CUDA takes float16 where each transformed
length is a power of two, computes in float32 and holds the result in float16 or complex32 (cuFFT; see
aten/src/ATen/native/SpectralOps.cpp for the dtypes and cuda/SpectralOps.cpp for the lengths); it too refuses
bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from auditor.numerics.twins import widened

_LOW = (torch.float16, torch.bfloat16, torch.complex32)
_LINES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_PLANES = ("fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2")
_BOXES = ("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn")
_TO_REAL = ("irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn")


def _line(name: str) -> Callable[..., list[int]]:
    def lengths(
        x: torch.Tensor, n: int | None = None, dim: int = -1, norm: Any = None, out: Any = None
    ) -> list[int]:
        return [n if n is not None else _default(name, x, dim)]

    return lengths


def _box(name: str) -> Callable[..., list[int]]:
    plane = (-2, -1) if name in _PLANES else None

    def lengths(
        x: torch.Tensor, s: Any = None, dim: Any = plane, norm: Any = None, out: Any = None
    ) -> list[int]:
        if s is not None:
            return [int(v) for v in s]
        dims = list(range(x.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
        return [*(x.size(d) for d in dims[:-1]), _default(name, x, dims[-1])]

    return lengths


def _default(name: str, x: torch.Tensor, dim: int) -> int:
    """The length along the last dimension: a half-complex input stands for twice its size."""
    return 2 * (x.size(dim) - 1) if name in _TO_REAL else x.size(dim)


_LENGTHS: dict[Any, Callable[..., list[int]]] = {
    **{getattr(torch.fft, name): _line(name) for name in _LINES},
    **{getattr(torch.fft, name): _box(name) for name in (*_PLANES, *_BOXES)},
    torch.stft: lambda x, n_fft, *_, **__: [n_fft],
    torch.Tensor.stft: lambda x, n_fft, *_, **__: [n_fft],
}


class CudaFourier(TorchFunctionMode):
    """While active, Fourier transforms of 16-bit tensors do and refuse what CUDA's do and refuse."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        lengths = _LENGTHS.get(func)
        given = args[0] if args else kwargs.get("input", kwargs.get("self"))
        if lengths is None or not isinstance(given, torch.Tensor) or given.dtype not in _LOW:
            return func(*args, **kwargs)
        if given.dtype == torch.bfloat16:
            raise RuntimeError("Unsupported dtype BFloat16")
        rest = {k: v for k, v in kwargs.items() if k not in ("input", "self")}
        sizes = lengths(given, *args[1:], **rest)
        if any(size & (size - 1) for size in sizes):
            raise RuntimeError(
                "cuFFT only supports dimensions whose sizes are powers of two when computing in half "
                f"precision, but got a signal size of {sizes}"
            )
        out = func(widened(given), *map(_wide, args[1:]), **{k: _wide(v) for k, v in rest.items()})
        return out.to(torch.complex32 if out.is_complex() else torch.float16)


def _wide(value: Any) -> Any:
    return widened(value) if isinstance(value, torch.Tensor) else value
