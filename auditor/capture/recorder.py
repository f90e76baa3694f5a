"""Record an eager run, forward and backward, op by op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from auditor.capture.arguments import Call, Place, map_leaves, overload_of, tensors_in
from auditor.capture.families import OpFamilies
from auditor.capture.graph import CallLog
from auditor.capture.site import ModuleStack, autograd_sequence, forward_sequence, user_line
from auditor.capture.storages import StorageMap
from auditor.capture.trace import Op, TensorMeta, Trace

Execute = Callable[[Call], Any]
Observe = Callable[[Op, tuple[Any, ...], dict[str, Any], Any], None]


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Executes every op through `execute` and writes it down; `observe` then sees it with its tensors.

    With `graph=True` the calls are noted too, for the torch.fx.Graph of the trace. No tensor is kept
    alive: an op's producers are found by the storages it reads.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: dict[str, torch.Tensor],
        families: OpFamilies,
        *,
        execute: Execute = Call.run,
        observe: Observe | None = None,
        graph: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: list[Op] = []
        self.modules = ModuleStack.of(model)
        self._families = families
        self._execute = execute
        self._observe = observe
        self._log = CallLog() if graph else None
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
        return Trace(tuple(self.ops), tuple(self._log.calls) if self._log else ())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        inputs = tensors_in(args, kwargs)
        overload = overload_of(func)
        described = _described(inputs)
        producers = tuple([self._writer.get(t) for t in inputs])
        origins = tuple([self._origin.get(t) for t in inputs])
        noted = self._log.arguments(args, kwargs, origins) if self._log else None
        phase, sequence = self._phase()
        forward = self._forward_of.get(sequence) if phase == "backward" else None
        if forward is not None and forward.file is not None and forward.line is not None:
            line: Place = (forward.file, forward.line)
        else:
            line = user_line()
        module = self.modules.current if forward is None else (forward.module, forward.module_type)
        call = Call(func, args, kwargs, overload, inputs, line, forward.id if forward else None)
        out = self._execute(call)
        outputs = tensors_in(out)
        free = overload.name in self._families.free
        op = Op(
            id=len(self.ops),
            target=overload.target,
            family=self._families.family_of(overload.name),
            phase=phase,
            module=module[0],
            module_type=module[1],
            file=line[0] if line else None,
            line=line[1] if line else None,
            inputs=described,
            outputs=_described(outputs),
            producers=producers,
            origins=origins,
            constants=_constants(call),
            flops=_flops(call, out),
            bytes_read=0 if free else sum([t.numel() * t.itemsize for t in inputs]),
            bytes_written=0 if free else sum([t.numel() * t.itemsize for t in outputs]),
            forward_id=call.forward,
        )
        self.ops.append(op)
        if phase == "forward":
            self._forward_of.setdefault(sequence, op)
        if not free:
            for t in outputs:
                self._writer.put(t, op.id)
        if self._log is not None:
            self._log.note(func, noted, out)
        if self._observe is not None:
            self._observe(op, args, kwargs, out)
        return out

    def _phase(self) -> tuple[Any, int]:
        sequence, in_backward = autograd_sequence()
        # A module whose forward runs inside backward is activation checkpointing recomputing it.
        if in_backward and not self.modules.running:
            return "backward", sequence
        return "forward", forward_sequence() if in_backward else sequence


_dtype_names: dict[torch.dtype, str] = {}


def _described(tensors: list[torch.Tensor]) -> tuple[TensorMeta, ...]:
    return tuple([TensorMeta(tuple(t.shape), _dtype_name(t.dtype)) for t in tensors])


def _dtype_name(dtype: torch.dtype) -> str:
    known = _dtype_names.get(dtype)
    if known is None:
        known = _dtype_names[dtype] = str(dtype).removeprefix("torch.")
    return known


def _flops(call: Call, out: Any) -> int:
    formula = call.overload.flops
    if formula is None:
        return 0
    by_shape = getattr(formula, "__wrapped__", None)
    if by_shape is None:
        return int(formula(*call.args, **call.kwargs, out_val=out))
    # What torch's own wrapper does with pytree, at 90 us an op.
    args, kwargs, shape = map_leaves(torch.Tensor, lambda t: t.shape, (call.args, call.kwargs, out))
    return int(by_shape(*args, **kwargs, out_shape=shape))


def _constants(call: Call) -> dict[str, Any]:
    """The scalar arguments by their schema names, defaults included only where they were passed."""
    given = {**dict(zip(call.overload.arguments, call.args, strict=False)), **call.kwargs}
    return {k: v for k, v in given.items() if isinstance(v, (bool, int, float))}
