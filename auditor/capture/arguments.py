"""One op about to run, and walking its arguments: values, tuples, lists and dicts of them.

torch.utils._pytree walks any registered container at five times the cost; at ten walks an op and thousands
of ops that was a third of an audit of a small model. For the same reason what follows from the schema alone
is looked up once an overload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

Place = tuple[str, int] | None  # the user's (file, line)


def tensors_in(*values: Any) -> list[torch.Tensor]:
    """The tensors at the leaves, in order; dicts give their values."""
    return leaves_of(torch.Tensor, values)


def leaves_of(kind: type, value: Any) -> list[Any]:
    """The leaves of that type, in order; dicts give their values."""
    found: list[Any] = []
    _collect(kind, value, found)
    return found


def _collect(kind: type, value: Any, found: list[Any]) -> None:
    if isinstance(value, kind):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _collect(kind, item, found)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(kind, item, found)


def map_leaves(kind: type, function: Callable[[Any], Any], value: Any) -> Any:
    """`value` with `function` applied to every leaf of the given type."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, tuple):
        mapped = [map_leaves(kind, function, v) for v in value]
        return type(value)(*mapped) if hasattr(value, "_fields") else tuple(mapped)
    if isinstance(value, list):
        return [map_leaves(kind, function, v) for v in value]
    if isinstance(value, dict):
        return {k: map_leaves(kind, function, v) for k, v in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class Overload:
    """What an op's schema says. `name` is the packet ("aten.addmm"), `target` the overload.

    `written`: (position, name) of the arguments the op writes to. `takes_dtype`: one of them is a dtype.
    `is_view`: no value is computed or moved, only shape and strides, the tensor's own too (transpose_).
    """

    name: str
    target: str
    arguments: tuple[str, ...]
    written: tuple[tuple[int, str], ...]
    takes_dtype: bool
    is_view: bool
    random: bool
    flops: Callable[..., int] | None


@cache
def overload_of(func: torch._ops.OpOverload) -> Overload:
    arguments = func._schema.arguments
    return Overload(
        name=func._schema.name.replace("::", "."),
        target=str(func),
        arguments=tuple(argument.name for argument in arguments),
        written=tuple(
            (position, argument.name)
            for position, argument in enumerate(arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ),
        takes_dtype=any("ScalarType" in str(argument.real_type) for argument in arguments),
        is_view=func.is_view or _turns_in_place(func),
        random=torch.Tag.nondeterministic_seeded in func.tags,
        flops=_flop_formula(func),
    )


def _turns_in_place(func: torch._ops.OpOverload) -> bool:
    """Whether the op changes a tensor's own shape and strides over the same storage."""
    grows = func._schema.name in ("aten::resize_", "aten::resize_as_", "aten::set_")
    return torch.Tag.inplace_view in func.tags and not grows


def _flop_formula(func: torch._ops.OpOverload) -> Callable[..., int] | None:
    """torch's formula for the op; the CPU's attention kernels take their arguments as the GPU's do."""
    formula = flop_registry.get(func._overloadpacket)
    name = func._schema.name.removeprefix("aten::")
    if formula is None and "_for_cpu" in name:
        formula = flop_registry.get(getattr(torch.ops.aten, name.replace("_for_cpu", ""), None))
    return formula


@dataclass(frozen=True, slots=True)
class Call:
    """One op about to run: its tensors in order, the user's line, and the id of the forward op whose
    gradient it computes."""

    func: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    overload: Overload
    inputs: list[torch.Tensor]
    place: Place = None
    forward: int | None = None

    @classmethod
    def of(cls, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        return cls(func, args, kwargs, overload_of(func), tensors_in(args, kwargs))

    def run(self) -> Any:
        return self.func(*self.args, **self.kwargs)

    def written(self) -> list[torch.Tensor]:
        """The tensors among the arguments that the op writes to."""
        found: list[torch.Tensor] = []
        for position, name in self.overload.written:
            value = self.args[position] if position < len(self.args) else self.kwargs.get(name)
            _collect(torch.Tensor, value, found)
        return found

    def dtypes(self) -> list[torch.dtype]:
        """The dtypes asked for among the arguments."""
        return leaves_of(torch.dtype, (self.args, self.kwargs)) if self.overload.takes_dtype else []
