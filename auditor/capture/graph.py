"""A recorded run as a torch.fx.Graph.

Making fx nodes costs as much as all the rest of recording, so a run only notes its calls, with a Use in
place of every tensor; the graph is built from them when somebody asks for it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from auditor.capture.arguments import map_leaves
from auditor.capture.storages import StorageMap
from auditor.capture.trace import Op


@dataclass(frozen=True, slots=True)
class Use:
    """A tensor by where it came from: output number `output` of call number `call` (None: the call's only
    output), or, with no call, the placeholder number `output` for what the run did not make itself."""

    call: int | None
    output: int | None
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class NotedCall:
    func: torch._ops.OpOverload
    args: Any
    kwargs: Any


class CallLog:
    """Notes the calls of a run. Tensors are told apart by storage and layout, and none is kept alive."""

    def __init__(self) -> None:
        self.calls: list[NotedCall] = []
        self._uses: StorageMap[dict[Any, Use]] = StorageMap()
        self._placeholders = 0

    def arguments(self, args: Any, kwargs: Any, origins: Sequence[str | None]) -> Any:
        """(args, kwargs) as they are before the call, which may overwrite them; `origins` of each tensor."""
        names = iter(origins)
        return map_leaves(torch.Tensor, lambda t: self._use(t, next(names)), (args, kwargs))

    def note(self, func: Any, arguments: Any, out: Any) -> None:
        args, kwargs = arguments
        number = len(self.calls)
        self.calls.append(NotedCall(func, args, kwargs))
        if isinstance(out, torch.Tensor):
            self._put(out, Use(number, None))
        elif isinstance(out, (tuple, list)):
            for index, item in enumerate(out):
                if isinstance(item, torch.Tensor):
                    self._put(item, Use(number, index))

    def _use(self, tensor: torch.Tensor, origin: str | None) -> Use:
        found = (self._uses.get(tensor) or {}).get(_layout(tensor))
        if found is None:
            found = Use(None, self._placeholders, origin)
            self._placeholders += 1
            self._put(tensor, found)
        return found

    def _put(self, tensor: torch.Tensor, use: Use) -> None:
        layouts = self._uses.get(tensor)
        if layouts is None:
            self._uses.put(tensor, {_layout(tensor): use})
        else:
            layouts[_layout(tensor)] = use


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    if tensor.layout != torch.strided:
        return ()
    return tensor.dtype, tensor.storage_offset(), tensor.shape, tensor.stride()


def graph_of(calls: Sequence[NotedCall], ops: Sequence[Op]) -> fx.Graph:
    """The calls as a graph whose call nodes carry their Op in meta["op"], placeholders meta["origin"]."""
    graph = fx.Graph()
    made: dict[Use, fx.Node] = {}

    def node_of(use: Use) -> fx.Node:
        if use not in made:
            if use.call is None:
                made[use] = graph.placeholder(_identifier(use.origin or "saved"))
                made[use].meta["origin"] = use.origin
            else:
                whole = node_of(Use(use.call, None))
                made[use] = graph.call_function(operator.getitem, (whole, use.output))
        return made[use]

    for number, (call, op) in enumerate(zip(calls, ops, strict=True)):
        args, kwargs = map_leaves(Use, node_of, (call.args, call.kwargs))
        plain = {k: v for k, v in kwargs.items() if not isinstance(v, torch.Generator)}
        node = graph.call_function(call.func, tuple(args), plain)
        node.meta["op"] = op
        made[Use(number, None)] = node
    return graph


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
