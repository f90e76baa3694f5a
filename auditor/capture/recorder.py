"""Record an eager run, forward and backward, op by op."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry
from torch.utils.weak import WeakTensorKeyDictionary

from auditor.capture.arguments import map_leaves, tensors_in
from auditor.capture.families import OpFamilies
from auditor.capture.site import ModuleStack, autograd_sequence, forward_sequence, user_line
from auditor.capture.storages import StorageMap
from auditor.capture.trace import Op, TensorMeta, Trace

Place = tuple[str, int] | None  # the user's (file, line)
# (func, args, kwargs, place, id of the forward op whose gradient this computes)
Execute = Callable[[torch._ops.OpOverload, tuple[Any, ...], dict[str, Any], Place, int | None], Any]
Observe = Callable[[Op, tuple[Any, ...], dict[str, Any], Any], None]


def run_plainly(
    func: torch._ops.OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    _place: Place,
    _forward: int | None,
) -> Any:
    return func(*args, **kwargs)


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Executes every op through `execute` and writes it down; `observe` then sees it with its tensors.

    With `graph=True` the run is also kept as a torch.fx.Graph whose call nodes carry their Op in
    meta["op"]. No tensor is kept alive: an op's producers are found by the storages it reads.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: dict[str, torch.Tensor],
        families: OpFamilies,
        *,
        execute: Execute = run_plainly,
        observe: Observe | None = None,
        graph: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: list[Op] = []
        self.modules = ModuleStack.of(model)
        self._families = families
        self._execute = execute
        self._observe = observe
        self._graph = _GraphWriter() if graph else None
        self._forward_of: dict[int, Op] = {}
        self._writer: StorageMap[int] = StorageMap()
        self._origin: StorageMap[str] = StorageMap()
        self._model = model
        self.name_inputs(inputs)

    def name_inputs(self, inputs: dict[str, torch.Tensor]) -> None:
        """Tell the storages of inputs and buffers as they are now; those of parameters follow their data."""
        self._name("param", dict(self._model.named_parameters()))
        self._name("buffer", dict(self._model.named_buffers()))
        self._name("input", inputs)

    def _name(self, kind: str, tensors: dict[str, torch.Tensor]) -> None:
        for name, tensor in tensors.items():
            self._origin.put(tensor, f"{kind}:{name}")

    def trace(self) -> Trace:
        return Trace(self._graph.graph if self._graph else fx.Graph(), tuple(self.ops))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        inputs = tensors_in(args, kwargs)
        described = tuple(TensorMeta(tuple(t.shape), str(t.dtype)[6:]) for t in inputs)
        producers = tuple(self._writer.get(t) for t in inputs)
        origins = tuple(self._origin.get(t) for t in inputs)
        node_args = self._graph.arguments(args, kwargs, origins) if self._graph else None
        phase, sequence = self._phase()
        line = user_line()
        module = self.modules.current
        forward = self._forward_of.get(sequence) if phase == "backward" else None
        if forward is not None:
            module = (forward.module, forward.module_type)
            line = (forward.file, forward.line) if forward.file and forward.line else line
        out = self._execute(func, args, kwargs, line, forward.id if forward else None)
        outputs = tensors_in(out)
        name = func._schema.name.replace("::", ".")
        free = name in self._families.free
        op = Op(
            id=len(self.ops),
            target=str(func),
            family=self._families.family_of(name),
            phase=phase,
            module=module[0],
            module_type=module[1],
            file=line[0] if line else None,
            line=line[1] if line else None,
            inputs=described,
            outputs=tuple(TensorMeta(tuple(t.shape), str(t.dtype)[6:]) for t in outputs),
            producers=producers,
            origins=origins,
            constants=_constants(func, args, kwargs),
            flops=_flops(func, args, kwargs, out),
            bytes_read=0 if free else sum(map(_bytes, inputs)),
            bytes_written=0 if free else sum(map(_bytes, outputs)),
            forward_id=forward.id if forward else None,
        )
        self.ops.append(op)
        if phase == "forward":
            self._forward_of.setdefault(sequence, op)
        if not free:
            for t in outputs:
                self._writer.put(t, op.id)
        if self._graph and node_args is not None:
            self._graph.call(func, node_args, out, op)
        if self._observe is not None:
            self._observe(op, args, kwargs, out)
        return out

    def _phase(self) -> tuple[Any, int]:
        sequence, in_backward = autograd_sequence()
        # A module whose forward runs inside backward is activation checkpointing recomputing it.
        if in_backward and not self.modules.running:
            return "backward", sequence
        return "forward", forward_sequence() if in_backward else sequence


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _constants(func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The scalar arguments by their schema names, defaults included only where they were passed."""
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    return {k: v for k, v in given.items() if isinstance(v, (bool, int, float))}


def _flops(func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
    formula = flop_registry.get(func._overloadpacket)
    return 0 if formula is None else int(formula(*args, **kwargs, out_val=out))


class _GraphWriter:
    """Builds the fx.Graph. Nodes are found by tensor identity, weakly."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self._node_of: Any = WeakTensorKeyDictionary()

    def arguments(self, args: Any, kwargs: Any, origins: tuple[str | None, ...]) -> tuple[Any, Any]:
        names = iter(origins)
        return map_leaves(torch.Tensor, lambda t: self._node(t, next(names)), (args, kwargs))  # type: ignore[no-any-return]

    def _node(self, tensor: torch.Tensor, origin: str | None) -> fx.Node:
        node = self._node_of.get(tensor)
        if node is None:
            node = self._node_of[tensor] = self.graph.placeholder(_identifier(origin or "saved"))
            node.meta["origin"] = origin
        return node  # type: ignore[no-any-return]

    def call(self, func: Any, node_args: tuple[Any, Any], out: Any, op: Op) -> None:
        args, kwargs = node_args
        plain = {k: v for k, v in kwargs.items() if not isinstance(v, torch.Generator)}
        node = self.graph.call_function(func, tuple(args), plain)
        node.meta["op"] = op
        if isinstance(out, torch.Tensor):
            self._node_of[out] = node
        elif isinstance(out, (tuple, list)):
            for index, item in enumerate(out):
                if isinstance(item, torch.Tensor):
                    self._node_of[item] = self.graph.call_function(operator.getitem, (node, index))


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
