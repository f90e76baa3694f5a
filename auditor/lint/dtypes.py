"""Faults of dtypes: half weights and inputs, losses of half outputs, old names, custom functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from auditor.lint.facts import (
    all_half,
    callers_regions,
    casts_to_half,
    half_casts,
    known_half,
    local,
    multiplies,
    scalers_in_use,
    squares_and_sums,
)
from auditor.lint.protocol import Fault
from auditor.lint.script import (
    Script,
    arguments,
    key,
    keyword,
    method,
    receiver,
)


def deprecated(script: Script) -> Iterator[Fault]:
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


def bf16_with_scaler(script: Script) -> Iterator[Fault]:
    """All regions of the file run in bfloat16, and a scaler that nothing switches off scales the loss."""
    dtypes = {script.autocast_dtype(c) for c in script.calls if script.autocast(c)} - {"off"}
    if dtypes != {"bfloat16"}:
        return
    for name in sorted(scalers_in_use(script)):
        made = script.scalers[name]
        if made is not None and keyword(made, "enabled") is None and script.value(name) is made:
            yield Fault("scaler-with-bf16", made.lineno, name)


def half_weights(script: Script) -> Iterator[Fault]:
    used = scalers_in_use(script)
    steps = {
        key(c.args[0]) for c in script.calls if method(c) == "step" and key(receiver(c)) in used and c.args
    }
    trained = set().union(*(script.owners.get(s, set()) for s in steps)) if steps else set()
    first = min((c.lineno for c in script.calls if method(c) == "step"), default=0)
    for call, model in half_casts(script):
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


def custom_function(script: Script) -> Iterator[Fault]:
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
        if decorated or inside or not multiplies(script, backward):
            continue
        saves = any(isinstance(n, ast.Attribute) and n.attr == "saved_tensors" for n in ast.walk(backward))
        first = forward.decorator_list[0] if forward.decorator_list else forward
        yield Fault(
            "custom-function-without-custom-fwd",
            first.lineno,
            node.name,
            proven=saves and multiplies(script, forward),
        )


def loss_outside(script: Script) -> Iterator[Fault]:
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
            elif all_half(s.value, half) and squares_and_sums(s.value):
                yield Fault("loss-from-half-outputs", s.lineno, sorted(names)[0])
            elif known_half(s.value, half):
                half.add(target)
            else:
                half.discard(target)


def half_inputs(script: Script) -> Iterator[Fault]:
    """A model with FP32 weights called on inputs cast to half, outside any autocast region."""
    if not (script.half_regions() and script.models):
        return
    casts = [c for c in script.calls if casts_to_half(script, c)]
    halved = {m for _, m in half_casts(script)}
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
        if any(r is not None for r in callers_regions(script, call)):
            continue
        for value in (*call.args, *(k.value for k in call.keywords)):
            sources = [value, *local(script, call, value)[-1:]]
            if any(s in casts for s in sources):
                yield Fault("half-inputs-outside-autocast", call.lineno, model)
                break
