"""Faults of gradients: norms in half, penalties that are not scaled, non-finite ones replaced."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from auditor.lint.facts import callers_regions, half_casts, local, scalers_in_use
from auditor.lint.protocol import Fault
from auditor.lint.script import (
    Script,
    arguments,
    called,
    is_false,
    key,
    keyword,
    line_of,
    method,
    receiver,
)


def gradient_norm(script: Script) -> Iterator[Fault]:
    """A square of .grad without a cast before it, where the parameters are those of a model made half."""
    half = {m for c, m in half_casts(script) if not script.guards(c)}
    if not half:
        return
    for node in ast.walk(script.tree):
        squared: ast.AST | None = None
        times = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        if isinstance(node, ast.Call) and method(node) in ("pow", "square"):
            squared = (
                node.args[0] if script.dotted(receiver(node)) == "torch" and node.args else receiver(node)
            )
        elif isinstance(node, ast.BinOp) and (
            isinstance(node.op, ast.Pow) or (times and ast.unparse(node.left) == ast.unparse(node.right))
        ):
            squared = node.left
        of = _gradient_of(squared)
        if of and _comes_from(script, node, of, half, 3):
            yield Fault("gradient-norm-in-half", line_of(node), of)


def _gradient_of(node: ast.AST | None) -> str:
    """`p` of p.grad, p.grad.data or p.grad.detach(); "" for anything cast in between."""
    while node is not None:
        if isinstance(node, ast.Attribute) and node.attr == "grad":
            return key(node.value)
        if isinstance(node, ast.Attribute) and node.attr == "data":
            node = node.value
        elif isinstance(node, ast.Call) and method(node) in ("detach", "clone", "flatten", "view", "abs"):
            node = receiver(node)
        else:
            return ""
    return ""


def _comes_from(script: Script, at: ast.AST, name: str, models: set[str], depth: int) -> bool:
    """Whether `name` runs over the parameters of one of `models`."""
    if depth == 0:
        return False
    for scope in script.ancestors(at):
        loops: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(scope, ast.For):
            loops = [(scope.target, scope.iter)]
        elif isinstance(scope, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            loops = [(g.target, g.iter) for g in scope.generators]
        for target, source in loops:
            if name in {key(n) for n in ast.walk(target)}:
                return _parameters_of(script, at, source, models, depth)
    return False


def _parameters_of(script: Script, at: ast.AST, source: ast.expr, models: set[str], depth: int) -> bool:
    if any(
        isinstance(n, ast.Call)
        and method(n) in ("parameters", "named_parameters")
        and key(receiver(n)) in models
        for n in ast.walk(source)
    ):
        return True
    name = key(source)
    scope = script.function_of(at)
    if not name or depth == 0:
        return False
    for call in script.calls:
        if called(script, call) is scope:
            for parameter, value in arguments(script, call):
                if parameter == name and _parameters_of(script, call, value, models, depth - 1):
                    return True
    return any(
        not (isinstance(v, ast.ListComp) and key(v.generators[0].iter) == name)
        and _parameters_of(script, at, v, models, depth - 1)
        for v in script.values.get(name, [])
        if script.function_of(v) is scope
    )


def penalty(script: Script) -> Iterator[Fault]:
    """autograd.grad(..., create_graph=True) of an output computed under FP16 autocast and not scaled."""
    if not scalers_in_use(script):
        return
    for call in script.calls:
        graph = keyword(call, "create_graph")
        if not script.dotted(call.func).endswith("autograd.grad") or graph is None or is_false(graph):
            continue
        outputs = keyword(call, "outputs") or (call.args[0] if call.args else None)
        if outputs is None or any(
            isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult) for n in ast.walk(outputs)
        ):
            continue
        values = [outputs, *local(script, call, outputs)]
        if any(isinstance(n, ast.Call) and method(n) == "scale" for v in values for n in ast.walk(v)):
            continue
        made = values[-1] if len(values) > 1 else call
        region = script.region(made)
        regions = (
            [region] if region is not None else [r for r in callers_regions(script, made) if r is not None]
        )
        if any(script.autocast_dtype(r) == "float16" for r in regions):
            yield Fault(
                "gradient-penalty-unscaled",
                call.lineno,
                key(outputs) or "the output",
                sorted(scalers_in_use(script))[0],
            )


def replaced(script: Script) -> Iterator[Fault]:
    """Non-finite gradients overwritten in a file that trains in FP16."""
    if not (script.half_regions() or scalers_in_use(script)):
        return
    for node in ast.walk(script.tree):
        hit = False
        if isinstance(node, ast.Call) and method(node) in ("nan_to_num", "nan_to_num_"):
            over = node.args[0] if script.dotted(receiver(node)) == "torch" and node.args else receiver(node)
            parent = script.parents.get(node)
            stored = isinstance(parent, ast.Assign) and any(
                isinstance(t, ast.Attribute) and _is_gradient(t) for t in parent.targets
            )
            copied = (
                isinstance(parent, ast.Call) and method(parent) == "copy_" and _is_gradient(receiver(parent))
            )
            in_place = method(node).endswith("_") and _is_gradient(over)
            hit = stored or copied or in_place or _is_gradient(keyword(node, "out"))
        elif isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Subscript) and _is_gradient(t.value) and _asks_finite(t.slice)
            for t in node.targets
        ):
            hit = True
        elif isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Attribute) and _is_gradient(t) for t in node.targets
        ):
            hit = (
                isinstance(node.value, ast.Call)
                and method(node.value) in ("where", "masked_fill")
                and _asks_finite(node.value)
            )
        elif isinstance(node, ast.Call) and method(node) == "masked_fill_" and _is_gradient(receiver(node)):
            hit = any(_asks_finite(a) for a in node.args)
        if hit:
            scope = script.function_of(node)
            unscaled = any(
                method(c) == "unscale_" and c.lineno < line_of(node) and script.function_of(c) is scope
                for c in script.calls
            )
            yield Fault("nonfinite-gradients-replaced", line_of(node), proven=not unscaled)


def _is_gradient(node: ast.AST | None) -> bool:
    while isinstance(node, ast.Attribute) and node.attr == "data":
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def _asks_finite(node: ast.AST) -> bool:
    return any(
        isinstance(n, ast.Call) and method(n) in ("isnan", "isinf", "isfinite") for n in ast.walk(node)
    )
