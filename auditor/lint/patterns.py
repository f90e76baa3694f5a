"""Faults that one place of a script shows: what is cast, saved, differentiated or replaced there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

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

_PRODUCTS = (
    *("mm", "matmul", "bmm", "addmm", "baddbmm", "addmv", "mv", "linear", "einsum"),
    *("conv1d", "conv2d", "conv3d"),
)


def pattern_faults(script: Script) -> Iterator[Fault]:
    """Every fault of this room that needs no order of calls."""
    for check in (
        _deprecated, _bf16_with_scaler, _half_weights, _gradient_norm, _penalty, _custom_function,
        _loss_outside, _no_grad_in_region, _replaced, _checkpoint, _half_inputs,
    ):  # fmt: skip
        yield from check(script)


def _used(script: Script) -> set[str]:
    """Scalers that scale a loss here and are not switched off."""
    scaling = {key(receiver(c)) for c in script.calls if method(c) == "scale"}
    return {
        s
        for s, c in script.scalers.items()
        if s in scaling and (c is None or not is_false(keyword(c, "enabled")))
    }


def _deprecated(script: Script) -> Iterator[Fault]:
    """torch.cuda.amp and torch.cpu.amp names, deprecated since PyTorch 2.4."""
    seen = set()
    for call in script.calls:
        name = script.dotted(call.func)
        module, _, last = name.rpartition(".")
        old = (
            "torch.cuda.amp",
            "torch.cpu.amp",
            "torch.cuda.amp.autocast_mode",
            "torch.cuda.amp.grad_scaler",
        )
        if module in old and last in ("autocast", "GradScaler") and call.lineno not in seen:
            seen.add(call.lineno)
            new = "torch.autocast" if last == "autocast" else "torch.amp.GradScaler"
            yield Fault("deprecated-amp-api", call.lineno, name, f'{new}("{module.split(".")[1]}")')
    for node in script.functions.values():
        for d in node.decorator_list:
            name = script.dotted(d.func if isinstance(d, ast.Call) else d)
            if name in ("torch.cuda.amp.custom_fwd", "torch.cuda.amp.custom_bwd"):
                yield Fault("deprecated-amp-api", d.lineno, name, f"torch.amp.{name.rpartition('.')[2]}")


def _bf16_with_scaler(script: Script) -> Iterator[Fault]:
    """All regions of the file run in bfloat16, and a scaler that nothing switches off scales the loss."""
    dtypes = {script.autocast_dtype(c) for c in script.calls if script.autocast(c)} - {"off"}
    if dtypes != {"bfloat16"}:
        return
    for name in sorted(_used(script)):
        made = script.scalers[name]
        if made is not None and keyword(made, "enabled") is None and script.value(name) is made:
            yield Fault("scaler-with-bf16", made.lineno, name)


def _half_casts(script: Script) -> Iterator[tuple[ast.Call, str]]:
    """(call, model) of every x.half() or x.to(torch.float16) on a model whose parameters are used here."""
    for call in script.calls:
        if not _casts_to_half(script, call):
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


def _casts_to_half(script: Script, call: ast.Call) -> bool:
    if method(call) == "half" and not call.args:
        return True
    given = [*call.args, *(k.value for k in call.keywords if k.arg == "dtype")]
    return method(call) == "to" and any(script.dtype(a) == "float16" for a in given)


def _half_weights(script: Script) -> Iterator[Fault]:
    used = _used(script)
    steps = {
        key(c.args[0]) for c in script.calls if method(c) == "step" and key(receiver(c)) in used and c.args
    }
    trained = set().union(*(script.owners.get(s, set()) for s in steps)) if steps else set()
    first = min((c.lineno for c in script.calls if method(c) == "step"), default=0)
    for call, model in _half_casts(script):
        undone = any(method(c) == "float" and key(receiver(c)) == model for c in script.calls)
        if model in trained and not undone and not script.guards(call):
            scope = script.function_of(call)
            stepping = {
                script.function_of(c)
                for c in script.calls
                if method(c) == "step" and key(receiver(c)) in used
            }
            if scope not in stepping or call.lineno < first:
                yield Fault("half-weights-with-scaler", call.lineno, model, sorted(used)[0])


def _gradient_norm(script: Script) -> Iterator[Fault]:
    """A square of .grad without a cast before it, where the parameters are those of a model made half."""
    half = {m for c, m in _half_casts(script) if not script.guards(c)}
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


def _penalty(script: Script) -> Iterator[Fault]:
    """autograd.grad(..., create_graph=True) of an output computed under FP16 autocast and not scaled."""
    if not _used(script):
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
        values = [outputs, *_local(script, call, outputs)]
        if any(isinstance(n, ast.Call) and method(n) == "scale" for v in values for n in ast.walk(v)):
            continue
        made = values[-1] if len(values) > 1 else call
        region = script.region(made)
        regions = (
            [region] if region is not None else [r for r in _callers_regions(script, made) if r is not None]
        )
        if any(script.autocast_dtype(r) == "float16" for r in regions):
            yield Fault(
                "gradient-penalty-unscaled",
                call.lineno,
                key(outputs) or "the output",
                sorted(_used(script))[0],
            )


def _callers_regions(script: Script, node: ast.AST) -> list[ast.Call | None]:
    scope = script.function_of(node)
    return [script.region(c) for c in script.calls if called(script, c) is scope]


def _local(script: Script, at: ast.AST, node: ast.AST) -> list[ast.expr]:
    """The values the function gives a name before this line, the last one last."""
    scope = script.function_of(at)
    found = [
        v
        for v in script.values.get(key(node), [])
        if script.function_of(v) is scope and v.lineno <= line_of(at)
    ]
    return sorted(found, key=lambda v: v.lineno)


def _custom_function(script: Script) -> Iterator[Fault]:
    """An autograd.Function whose backward multiplies, without custom_fwd, beside autocast regions."""
    regions = [c for c in script.calls if script.autocast(c) and script.autocast_dtype(c) != "off"]
    if not regions:
        return
    for node in ast.walk(script.tree):
        if not isinstance(node, ast.ClassDef) or not any(
            script.dotted(b).endswith("autograd.Function") for b in node.bases
        ):
            continue
        methods = {f.name: f for f in node.body if isinstance(f, ast.FunctionDef)}
        forward, backward = methods.get("forward"), methods.get("backward")
        applied = [c for c in script.calls if method(c) == "apply" and key(receiver(c)) == node.name]
        applied += [c for c in script.calls if key(script.value(key(c.func))) == f"{node.name}.apply"]
        if forward is None or backward is None or not applied:
            continue
        if all((r := script.region(c)) is not None and script.autocast_dtype(r) == "off" for c in applied):
            continue
        decorated = any(
            "custom_" in ast.unparse(d) or script.autocast(d)
            for f in (forward, backward)
            for d in f.decorator_list
        )
        inside = any(
            isinstance(n, ast.Call) and script.autocast(n) for f in (forward, backward) for n in ast.walk(f)
        )
        if decorated or inside or not _multiplies(script, backward):
            continue
        saves = any(isinstance(n, ast.Attribute) and n.attr == "saved_tensors" for n in ast.walk(backward))
        first = forward.decorator_list[0] if forward.decorator_list else forward
        yield Fault(
            "custom-function-without-custom-fwd",
            first.lineno,
            node.name,
            proven=saves and _multiplies(script, forward),
        )


def _multiplies(script: Script, function: ast.AST) -> bool:
    return any(
        (isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult))
        or (isinstance(n, ast.Call) and (method(n) or script.dotted(n.func).rpartition(".")[2]) in _PRODUCTS)
        for n in ast.walk(function)
    )


def _loss_outside(script: Script) -> Iterator[Fault]:
    """Half outputs of an FP16 region, squared or summed after it beside what was cast to their dtype."""
    for node in ast.walk(script.tree):
        if not isinstance(node, ast.With):
            continue
        calls = [c for item in node.items if (c := script.autocast(item.context_expr))]
        if not calls or script.autocast_dtype(calls[-1]) != "float16":
            continue
        runs = [
            s
            for s in ast.walk(node)
            if isinstance(s, ast.Assign)
            and isinstance(s.value, ast.Call)
            and key(s.value.func) in script.models
        ]
        outputs = {key(t) for s in runs for t in s.targets} - {""}
        scope = script.function_of(node)
        end = node.end_lineno or node.lineno
        half = set(outputs)
        later = [
            s
            for s in ast.walk(scope)
            if isinstance(s, ast.Assign) and s.lineno > end and script.region(s) is None
        ]
        for s in sorted(later, key=lambda s: s.lineno):
            names = {key(n) for n in ast.walk(s.value) if isinstance(n, ast.Name)} & half
            target = key(s.targets[0])
            if not names:
                half.discard(target)
            elif _all_half(s.value, half) and _squares_and_sums(s.value):
                yield Fault("loss-from-half-outputs", s.lineno, sorted(names)[0])
            elif _known_half(s.value, half):
                half.add(target)
            else:
                half.discard(target)


def _to_their_dtype(node: ast.AST, outputs: set[str]) -> bool:
    if not isinstance(node, ast.Call) or method(node) not in ("to", "type", "type_as"):
        return False
    return any(
        (isinstance(n, ast.Attribute) and n.attr == "dtype" and key(n.value) in outputs) or key(n) in outputs
        for a in (*node.args, *(k.value for k in node.keywords)) for n in [a]
    )  # fmt: skip


def _all_half(node: ast.AST, half: set[str]) -> bool:
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
    return all(_known_half(side, half) for side in sides)


def _reduced(node: ast.AST) -> bool:
    """A sum or mean: what a scalar is divided by afterwards no longer matters."""
    return any(isinstance(n, ast.Call) and method(n) in ("sum", "mean") for n in ast.walk(node))


def _known_half(node: ast.AST | None, half: set[str]) -> bool:
    if isinstance(node, ast.Constant) or key(node) in half:
        return True
    if isinstance(node, ast.UnaryOp):
        return _known_half(node.operand, half)
    if isinstance(node, ast.BinOp):
        return _known_half(node.left, half) and _known_half(node.right, half)
    if isinstance(node, ast.Call):
        return method(node) == "half" or _to_their_dtype(node, half) or _known_half(receiver(node), half)
    return False


def _squares_and_sums(node: ast.AST) -> bool:
    squares = any(
        (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow))
        or (isinstance(n, ast.Call) and (method(n) in ("pow", "square", "exp")))
        for n in ast.walk(node)
    )
    return squares and any(
        isinstance(n, ast.Call) and method(n) in ("sum", "mean", "norm") for n in ast.walk(node)
    )


def _no_grad_block(script: Script, node: ast.AST) -> bool:
    return isinstance(node, ast.With) and any(
        script.dotted(i.context_expr.func if isinstance(i.context_expr, ast.Call) else i.context_expr)
        in ("torch.no_grad", "torch.inference_mode")
        for i in node.items
    )


def _no_grad_in_region(script: Script) -> Iterator[Fault]:
    """The same model runs under no_grad and then with gradients in one region: the second run meets the
    weight casts the first has cached without history."""
    for region in ast.walk(script.tree):
        if not isinstance(region, ast.With):
            continue
        calls = [c for item in region.items if (c := script.autocast(item.context_expr))]
        if (
            not calls
            or is_false(keyword(calls[-1], "cache_enabled"))
            or script.autocast_dtype(calls[-1]) == "off"
        ):
            continue
        if _no_grad_block(script, region):
            continue
        inner = {
            id(n)
            for b in ast.walk(region)
            if isinstance(b, ast.With)
            and b is not region
            and any(script.autocast(i.context_expr) for i in b.items)
            for n in ast.walk(b)
        }
        clears = any(
            isinstance(n, ast.Call) and method(n) == "clear_autocast_cache" for n in ast.walk(region)
        )
        if clears:
            continue
        quiet: list[tuple[str, ast.AST, set[int]]] = []
        for block in ast.walk(region):
            if _no_grad_block(script, block) and id(block) not in inner:
                inside = {id(n) for n in ast.walk(block)}
                quiet += [(m, block, inside) for m in _runs(script, block)]
            elif isinstance(block, ast.Call) and id(block) not in inner:
                function = called(script, block)
                if function and any(
                    "no_grad" in ast.unparse(d) or "inference_mode" in ast.unparse(d)
                    for d in function.decorator_list
                ):
                    passed = {p: key(v) for p, v in arguments(script, block)}
                    quiet += [(passed.get(m, m), block, {id(block)}) for m in _runs(script, function)]
        told = set()
        for model, block, inside in quiet:
            if id(block) in told:
                continue
            after = [
                c
                for c in ast.walk(region)
                if isinstance(c, ast.Call)
                and key(c.func) == model
                and id(c) not in inside | inner
                and c.lineno >= line_of(block)
                and not any(_no_grad_block(script, a) for a in script.ancestors(c))
            ]
            if after:
                told.add(id(block))
                yield Fault("no-grad-pass-in-same-autocast", line_of(block), model)


def _runs(script: Script, node: ast.AST) -> set[str]:
    return {key(n.func) for n in ast.walk(node) if isinstance(n, ast.Call) and key(n.func) in script.models}


def _replaced(script: Script) -> Iterator[Fault]:
    """Non-finite gradients overwritten in a file that trains in FP16."""
    if not (script.half_regions() or _used(script)):
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


def _checkpoint(script: Script) -> Iterator[Fault]:
    """A checkpoint with the optimizer's state and without the scaler's."""
    used = {s for s in _used(script) if script.scalers[s] is not None}
    if not used:
        return
    saves = {key(receiver(c)) for c in script.calls if method(c) == "state_dict"}
    loads = {key(receiver(c)) for c in script.calls if method(c) == "load_state_dict"}
    resumes = [
        c for c in script.calls if method(c) == "load_state_dict" and key(receiver(c)) in script.owners
    ]
    for call in script.calls:
        if script.dotted(call.func) not in ("torch.save",) or not call.args:
            continue
        held = [call.args[0], *script.values.get(key(call.args[0]), [])]
        states = {
            key(receiver(n))
            for h in held
            for n in ast.walk(h)
            if isinstance(n, ast.Call) and method(n) == "state_dict"
        }
        if states & script.owners.keys() and not saves & used:
            yield Fault(
                "scaler-not-in-checkpoint", call.lineno, sorted(used)[0], "save", proven=bool(resumes)
            )
    if resumes and saves & used and not loads & used:
        yield Fault("scaler-not-in-checkpoint", resumes[-1].lineno, sorted(used)[0], "load")


def _half_inputs(script: Script) -> Iterator[Fault]:
    """A model with FP32 weights called on inputs cast to half, outside any autocast region."""
    if not (script.half_regions() and script.models):
        return
    casts = [c for c in script.calls if _casts_to_half(script, c)]
    halved = {m for _, m in _half_casts(script)}
    trained = set().union(*script.owners.values()) if script.owners else set()
    same = set(trained)
    for call in script.calls:
        same |= {p for p, v in arguments(script, call) if key(v) in trained}
        halved |= {
            p
            for p, v in arguments(script, call)
            if key(v) in halved or (isinstance(v, ast.Call) and v in casts)
        }
    for call in script.calls:
        model = key(call.func)
        if model not in same or halved or script.region(call) is not None:
            continue
        if any(r is not None for r in _callers_regions(script, call)):
            continue
        for value in (*call.args, *(k.value for k in call.keywords)):
            sources = [value, *_local(script, call, value)[-1:]]
            if any(s in casts for s in sources):
                yield Fault("half-inputs-outside-autocast", call.lineno, model)
                break
