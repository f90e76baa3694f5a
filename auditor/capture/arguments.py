"""Walking an op's arguments, which are nothing but values, tuples, lists and dicts of them.

torch.utils._pytree does the same for any registered container at five times the cost; at ten walks an op and
thousands of ops that was a third of an audit of a small model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch


def leaves_of(*values: Any) -> Iterator[Any]:
    """The values at the leaves, in order; dicts give their values."""
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from leaves_of(*value)
        elif isinstance(value, dict):
            yield from leaves_of(*value.values())
        else:
            yield value


def tensors_in(*values: Any) -> list[torch.Tensor]:
    """The tensors at the leaves, in order."""
    return [leaf for leaf in leaves_of(*values) if isinstance(leaf, torch.Tensor)]


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
