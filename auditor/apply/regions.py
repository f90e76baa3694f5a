"""Autocast regions per module: a plan's precisions on a real model, by forward hooks.

Imports only torch, so that a training script can use it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "tf32": torch.float32}


class Regions:
    """The hooks that were set; `remove()` takes them off. Usable as a context manager."""

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def __enter__(self) -> Regions:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def widen_half(value: Any) -> Any:
    """The value with its float16 and bfloat16 tensors as float32."""

    def one(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor

    return tree_map_only(torch.Tensor, one, value)


def apply_regions(model: nn.Module, precisions: Mapping[str, str], device_type: str) -> Regions:
    """Run each named module (path as in named_modules) in its own autocast precision.

    `precisions` maps module paths to "fp16", "bf16", "tf32" or "fp32". In a 32-bit region autocast is off
    and 16-bit arguments are widened on entry; in a 16-bit region autocast is on with that dtype. Modules
    below a region inherit it unless they have their own. A module shared by several paths has one precision,
    the widest asked for. Raises KeyError listing the paths the model lacks.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    missing = sorted(path for path in precisions if path not in modules)
    if missing:
        raise KeyError(f"the model has no module {', '.join(missing)}")
    handles: list[Any] = []
    # Two pairs of hooks on one module would leave their regions in the order they entered them.
    wanted: dict[nn.Module, torch.dtype] = {}
    for path, precision in precisions.items():
        dtype, known = _DTYPES[precision], wanted.get(modules[path])
        wanted[modules[path]] = dtype if known is None else torch.promote_types(dtype, known)
    for module, dtype in wanted.items():
        entered: list[torch.autocast] = []

        def enter(
            _module: nn.Module,
            args: Any,
            kwargs: Any,
            dtype: torch.dtype = dtype,
            entered: list[torch.autocast] = entered,
        ) -> Any:
            narrow = dtype != torch.float32
            region = torch.autocast(device_type, dtype=dtype if narrow else None, enabled=narrow)
            region.__enter__()  # type: ignore[no-untyped-call]
            entered.append(region)
            return (args, kwargs) if narrow else (widen_half(args), widen_half(kwargs))

        def leave(
            _module: nn.Module, _args: Any, output: Any, entered: list[torch.autocast] = entered
        ) -> Any:
            if not entered:
                return output
            entered.pop().__exit__(None, None, None)
            return output if torch.is_autocast_enabled(device_type) else widen_half(output)

        # A region is a matter between two hooks, which torch.compile cannot trace: it breaks its graph at the
        # borders and compiles what lies between them.
        hidden: Any = torch.compiler.disable
        handles.append(module.register_forward_pre_hook(hidden(enter), with_kwargs=True))
        handles.append(module.register_forward_hook(hidden(leave), always_call=True))
    return Regions(handles)
