"""What the patterns ask of a script: what is half there, what is local, which scalers are in use."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from auditor.lint.script import (
    Script,
    called,
    is_false,
    key,
    keyword,
    line_of,
    method,
    receiver,
)

_PRODUCTS = (
    *("mm", "matmul", "bmm", "addmm", "baddbmm", "addmv", "mv", "linear", "einsum"),
    *("conv1d", "conv2d", "conv3d"),
)


def scalers_in_use(script: Script) -> set[str]:
    """Scalers that scale a loss here and are not switched off."""
    scaling = {key(receiver(c)) for c in script.calls if method(c) == "scale"}
    return {
        s
        for s, c in script.scalers.items()
        if s in scaling and (c is None or not is_false(keyword(c, "enabled")))
    }


def half_casts(script: Script) -> Iterator[tuple[ast.Call, str]]:
    """(call, model) of every x.half() or x.to(torch.float16) on a model whose parameters are used here."""
    for call in script.calls:
        if not casts_to_half(script, call):
            continue
        who = key(receiver(call))
        parent: ast.AST = call
        while isinstance(script.parents.get(parent), (ast.Attribute, ast.Call)):
            parent = script.parents[parent]
        holder = script.parents.get(parent)
        names = [who] if who else []
        if isinstance(holder, (ast.Assign, ast.AnnAssign)):
            targets = holder.targets if isinstance(holder, ast.Assign) else [holder.target]
            names += [n for t in targets for n in _targets(t, holder.value, parent)]
        for name in names:
            if name in script.models:
                yield call, name
                break


def _targets(target: ast.expr, value: ast.expr | None, of: ast.AST) -> list[str]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return [key(t) for t, v in zip(target.elts, value.elts, strict=False) if v is of]
    return [key(target)] if value is of else []


def casts_to_half(script: Script, call: ast.Call) -> bool:
    if method(call) == "half" and not call.args:
        return True
    given = [*call.args, *(k.value for k in call.keywords if k.arg == "dtype")]
    return method(call) == "to" and any(script.dtype(a) == "float16" for a in given)


def callers_regions(script: Script, node: ast.AST) -> list[ast.Call | None]:
    scope = script.function_of(node)
    return [script.region(c) for c in script.calls if called(script, c) is scope]


def local(script: Script, at: ast.AST, node: ast.AST) -> list[ast.expr]:
    """The values the function gives a name before this line, the last one last."""
    scope = script.function_of(at)
    found = [
        v
        for v in script.values.get(key(node), [])
        if script.function_of(v) is scope and v.lineno <= line_of(at)
    ]
    return sorted(found, key=lambda v: v.lineno)


def multiplies(script: Script, function: ast.AST) -> bool:
    return any(
        (isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult))
        or (isinstance(n, ast.Call) and (method(n) or script.dotted(n.func).rpartition(".")[2]) in _PRODUCTS)
        for n in ast.walk(function)
    )


def _to_their_dtype(node: ast.AST, outputs: set[str]) -> bool:
    if not isinstance(node, ast.Call) or method(node) not in ("to", "type", "type_as"):
        return False
    return any(
        (isinstance(n, ast.Attribute) and n.attr == "dtype" and key(n.value) in outputs) or key(n) in outputs
        for a in (*node.args, *(k.value for k in node.keywords)) for n in [a]
    )  # fmt: skip


def all_half(node: ast.AST, half: set[str]) -> bool:
    """Whether every operand is known to be half: one float32 tensor beside it would promote the result."""
    if any(isinstance(n, ast.Call) and method(n) in ("float", "double", "item") for n in ast.walk(node)):
        return False
    sides = [
        side
        for n in ast.walk(node)
        if isinstance(n, ast.BinOp)
        and isinstance(n.op, (ast.Sub, ast.Add, ast.Mult, ast.Div))
        and not _reduced(n.left)
        for side in (n.left, n.right)
    ]
    return all(known_half(side, half) for side in sides)


def _reduced(node: ast.AST) -> bool:
    """A sum or mean: what a scalar is divided by afterwards no longer matters."""
    return any(isinstance(n, ast.Call) and method(n) in ("sum", "mean") for n in ast.walk(node))


def known_half(node: ast.AST | None, half: set[str]) -> bool:
    if isinstance(node, ast.Constant) or key(node) in half:
        return True
    if isinstance(node, ast.UnaryOp):
        return known_half(node.operand, half)
    if isinstance(node, ast.BinOp):
        return known_half(node.left, half) and known_half(node.right, half)
    if isinstance(node, ast.Call):
        return method(node) == "half" or _to_their_dtype(node, half) or known_half(receiver(node), half)
    return False


def squares_and_sums(node: ast.AST) -> bool:
    squares = any(
        (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow))
        or (isinstance(n, ast.Call) and (method(n) in ("pow", "square", "exp")))
        for n in ast.walk(node)
    )
    return squares and any(
        isinstance(n, ast.Call) and method(n) in ("sum", "mean", "norm") for n in ast.walk(node)
    )
