"""Capture without inputs: torch.fx.symbolic_trace, for what a model's source alone can tell."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch import fx, nn

from auditor.capture.site import is_user_file

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True, slots=True)
class StaticOp:
    """A call seen by symbolic tracing: no shapes, no values, only constants and where it stands."""

    name: str
    module: str
    module_type: str
    file: str | None
    line: int | None
    constants: dict[str, float]


class _Tracer(fx.Tracer):
    record_stack_traces = True


def trace_symbolically(model: nn.Module) -> tuple[StaticOp, ...]:
    """The calls of `model` in order. Whatever torch.fx raises on control flow or shapes passes on."""
    graph = _Tracer().trace(model)
    modules = dict(model.named_modules())
    return tuple(
        _static(node, modules)
        for node in graph.nodes
        if node.op in ("call_function", "call_method", "call_module")
    )


def _static(node: fx.Node, modules: dict[str, nn.Module]) -> StaticOp:
    stack = node.meta.get("nn_module_stack") or {}
    path = str(node.target) if node.op == "call_module" else (list(stack.values())[-1][0] if stack else "")
    frames = _FRAME.findall(node.meta.get("stack_trace") or node.stack_trace or "")
    own = [(file, int(line)) for file, line in frames if is_user_file(file)]
    file, line = own[-1] if own else (None, None)
    constants = {
        str(key): float(value)
        for key, value in [*enumerate(node.args), *node.kwargs.items()]
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    if node.op == "call_module":
        eps = getattr(modules[str(node.target)], "eps", None)
        constants = {"eps": float(eps)} if isinstance(eps, (int, float)) else {}
    target = (
        node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    )
    owner = modules.get(path)
    return StaticOp(
        str(target), path, type(owner).__name__ if owner is not None else "", file, line, constants
    )
