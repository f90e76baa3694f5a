"""CUDA's autocast policy on any machine.

`torch.autocast("cpu")` casts by the CPU's own lists, which differ from CUDA's (softmax, exp, sum and the
norms stay in half there). The lists CUDA registers are macros of a header that ships inside torch; they
are read from the installed version and registered under the AutocastCPU dispatch key, for the lifetime of
the process: call `install_cuda_policy` only in a process that does nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch

from auditor.capture.arguments import map_leaves, tensors_in

_KEYSET = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
_registrations: list[torch.library.Library] = []
_refusals: list[Callable[[str, str], None]] = []
_cast_weights: dict[tuple[int, torch.dtype], tuple[torch.Tensor, torch.Tensor]] = {}

# CUDA registers this op separately (aten/src/ATen/autocast_mode.cpp), with this advice in its error.
_REFUSED = "binary_cross_entropy"
_REFUSED_WHY = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: "
    "use binary_cross_entropy_with_logits or BCEWithLogitsLoss"
)


class PolicyUnreadable(RuntimeError):
    """The installed torch has no autocast header in the form known from torch 2.6 to 2.13."""


@cache
def read_policy() -> dict[str, tuple[str, ...]]:
    """CUDA's lists, "op" or "op.overload" each: lower, fp32, fp32_output, fp32_norm, promote."""
    header = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
    try:
        text = header.read_text()
    except OSError as error:
        raise PolicyUnreadable(f"{header}: {error.strerror}") from None
    macros = {
        "lower": "AT_FORALL_LOWER_PRECISION_FP",
        "fp32": "AT_FORALL_FP32",
        "fp32_output": "AT_FORALL_FP32_SET_OPT_DTYPE",
        "promote": "AT_FORALL_PROMOTE",
    }
    policy = {}
    for kind, macro in macros.items():
        body = re.search(rf"#define {macro}\(_\)(.*?)(?:\n\n|\n#|\Z)", text, re.S)
        if body is None:
            raise PolicyUnreadable(f"{header} defines no {macro}")
        entries = re.findall(r"_\(\s*(\w+)\s*(?:,\s*(\w+)\s*)?\)", body.group(1))
        policy[kind] = tuple(op + (f".{overload}" if overload else "") for op, overload in entries)
    different = re.search(r"AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE\(_\)(.*?)(?:\n\n|\Z)", text, re.S)
    policy["fp32_norm"] = tuple(re.findall(r'"(norm\.\w+)"', different.group(1))) if different else ()
    return policy


def _cast(value: Any, dtype: torch.dtype) -> Any:
    def one(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or tensor.dtype in (torch.float64, dtype):
            return tensor
        # at::autocast::cached_cast: a leaf parameter is cast once and shared by all its uses, so that
        # gradients of a weight used twice meet in 16 bit, as on CUDA.
        shared = tensor.requires_grad and tensor.is_leaf and not tensor._is_view() and torch.is_grad_enabled()
        if not (shared and torch.is_autocast_cache_enabled() and dtype != torch.float32):
            return tensor.to(dtype)
        found = _cast_weights.get((id(tensor), dtype))
        if found is None:
            found = _cast_weights[(id(tensor), dtype)] = (tensor, tensor.to(dtype))
        return found[1]

    return map_leaves(torch.Tensor, one, value)


def _run_lower(op: Any, args: Any, kwargs: Any) -> Any:
    dtype = torch.get_autocast_dtype("cpu")
    return op(*_cast(args, dtype), **_cast(kwargs, dtype))


def _run_fp32(op: Any, args: Any, kwargs: Any) -> Any:
    return op(*_cast(args, torch.float32), **_cast(kwargs, torch.float32))


def _run_fp32_output(op: Any, args: Any, kwargs: Any) -> Any:
    asked = kwargs.get("dtype") is not None or any(isinstance(a, torch.dtype) for a in args)
    if not asked and args[0].is_floating_point() and args[0].dtype != torch.float64:
        kwargs = {**kwargs, "dtype": torch.float32}
    return op(*args, **kwargs)


def _run_promote(op: Any, args: Any, kwargs: Any) -> Any:
    tensors = tensors_in(args, kwargs)
    wide = any(t.dtype == torch.float32 for t in tensors)
    dtype = torch.float32 if wide else torch.get_autocast_dtype("cpu")
    return op(*_cast(args, dtype), **_cast(kwargs, dtype))


def _run_fp32_norm(op: Any, args: Any, kwargs: Any) -> Any:
    return _run_fp32(op, args, kwargs)


def _run_refused(op: Any, args: Any, kwargs: Any) -> Any:
    if not _refusals:
        raise RuntimeError(_REFUSED_WHY)
    for listener in _refusals:
        listener(f"aten.{_REFUSED}", _REFUSED_WHY)
    return _run_fp32(op, args, kwargs)


_RUNS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "lower": _run_lower,
    "fp32": _run_fp32,
    "fp32_output": _run_fp32_output,
    "fp32_norm": _run_fp32_norm,
    "promote": _run_promote,
    "refused": _run_refused,
}


def _kernel(run: Callable[[Any, Any, Any], Any], op: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_KEYSET):
            return run(op, args, kwargs)

    return kernel


def install_cuda_policy() -> None:
    """Make `torch.autocast("cpu")` decide dtypes as CUDA's does, in this process, once."""
    if _registrations:
        return
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    _registrations.append(library)
    registered = set()
    for kind, entries in {**read_policy(), "refused": (_REFUSED,)}.items():
        for entry in entries:
            base, _, overload = entry.partition(".")
            packet = getattr(torch.ops.aten, base, None)
            if packet is None or (overload or "default") not in packet.overloads():
                continue
            library.impl(entry, _kernel(_RUNS[kind], getattr(packet, overload or "default")), "AutocastCPU")
            registered.add(f"aten::{entry}")
    for name in torch._C._dispatch_get_all_op_names():
        only_cpu = name.startswith("aten::") and name not in registered
        if only_cpu and torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutocastCPU"):
            library.impl(name.removeprefix("aten::"), torch.library.fallthrough_kernel, "AutocastCPU")


def remove_cuda_policy() -> None:
    """Give `torch.autocast("cpu")` its own lists back, in a process that goes on to train."""
    while _registrations:
        _registrations.pop()._destroy()  # type: ignore[no-untyped-call]


@contextmanager
def cuda_autocast(dtype: torch.dtype, refused: Callable[[str, str], None]) -> Iterator[None]:
    """A forward pass under CUDA's autocast policy; `refused(op, why)` hears of ops autocast refuses,
    which then run in float32 so that the rest of the model is still seen.

    The user's own `torch.autocast("cuda", ...)` regions act on this policy, as they would on the GPU.
    """
    install_cuda_policy()
    _refusals.append(refused)
    try:
        with _cuda_regions_as_cpu(), torch.autocast("cpu", dtype=dtype):
            yield
    finally:
        _refusals.pop()
        _cast_weights.clear()


@contextmanager
def _cuda_regions_as_cpu() -> Iterator[None]:
    original_init = torch.autocast.__init__
    original_enabled = torch.is_autocast_enabled
    original_dtype = torch.get_autocast_dtype

    def init(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        original_init(self, "cpu" if device_type == "cuda" else device_type, *args, **kwargs)

    def enabled(device_type: str = "cuda") -> bool:
        return original_enabled("cpu" if device_type == "cuda" else device_type)

    def dtype_of(device_type: str) -> torch.dtype:
        return original_dtype("cpu" if device_type == "cuda" else device_type)

    torch.autocast.__init__ = init  # type: ignore[method-assign]
    torch.is_autocast_enabled = enabled
    torch.get_autocast_dtype = dtype_of
    try:
        yield
    finally:
        torch.autocast.__init__ = original_init  # type: ignore[method-assign]
        torch.is_autocast_enabled = original_enabled
        torch.get_autocast_dtype = original_dtype
