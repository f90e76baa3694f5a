"""Faults that one place of a script shows, whatever the order of calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from auditor.lint.dtypes import (
    bf16_with_scaler,
    custom_function,
    deprecated,
    half_inputs,
    half_weights,
    loss_outside,
)
from auditor.lint.facts import scalers_in_use
from auditor.lint.gradients import gradient_norm, penalty, replaced
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


def pattern_faults(script: Script) -> Iterator[Fault]:
    """Every fault of this room that needs no order of calls."""
    for check in (
        deprecated, bf16_with_scaler, half_weights, gradient_norm, penalty, custom_function,
        loss_outside, _no_grad_in_region, replaced, _checkpoint, half_inputs,
    ):  # fmt: skip
        yield from check(script)


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


def _checkpoint(script: Script) -> Iterator[Fault]:
    """A checkpoint with the optimizer's state and without the scaler's."""
    used = {s for s in scalers_in_use(script) if script.scalers[s] is not None}
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
