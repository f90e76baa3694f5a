"""The GradScaler protocol as a state machine: scale, backward, unscale_, clip, step, update."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from auditor.lint.paths import Event, Path, Walker
from auditor.lint.script import Script, called, collection, is_false, key, keyword, method, receiver


@dataclass(frozen=True)
class Fault:
    """`kind` is the rule's name. `what` and `other` are names from the source for its message."""

    kind: str
    line: int
    what: str = ""
    other: str = ""
    proven: bool = True


def protocol_faults(script: Script) -> Iterator[Fault]:
    """Faults in the order of the calls, in every loop and every function that nothing in the file calls."""
    live = {n for n, c in script.scalers.items() if c is None or not is_false(keyword(c, "enabled"))}
    if not live:
        return
    walker = Walker(script)
    reached = {id(called(script, c)) for c in script.calls}
    for node in ast.walk(script.tree):
        loop = isinstance(node, (ast.For, ast.AsyncFor, ast.While))
        alone = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and id(node) not in reached
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While, ast.Module)) or alone:
            paths = walker.iterations(node.body)  # type: ignore[attr-defined]
            if any(e.kind in ("scaled", "step") for p in paths for e in p.events):
                yield from _of_iteration(script, node, paths, live, loop)
    yield from _never_updated(script, live)
    yield from _update_in_optimizer_loop(script, live)


def _of_iteration(
    script: Script, node: ast.AST, paths: list[Path], live: set[str], loop: bool
) -> Iterator[Fault]:
    everything = [e for p in paths for e in p.events]
    base = script.guards(node.body[0])  # type: ignore[attr-defined]

    def free(e: Event) -> bool:
        return script.guards(e.node) <= base

    unscaled_before = {
        id(e.node) for p in paths for i, e in enumerate(p.events) if e.kind == "clip"
        and any(b.kind == "unscale" and _same_parameters(script, b.what, e.who) for b in p.events[:i])
    }  # fmt: skip
    by_scaler = {e.what for e in everything if e.kind == "step"} | {
        key(c.args[0]) for c in script.calls if method(c) == "step" and key(receiver(c)) in live and c.args
    }
    scaled_somewhere = any(e.kind == "scaled" for e in everything)
    for path in paths:
        scaled, plain, written = "", None, False
        unscaled: dict[str, Event] = {}
        stepped: dict[str, Event] = {}
        updates: list[tuple[Event, frozenset[str]]] = []
        for i, e in enumerate(path.events):
            if e.kind == "opaque":
                scaled, plain, written = "", None, False
                unscaled, stepped, updates = {}, {}, []
            elif e.kind == "scaled":
                scaled, plain, written = e.who, None, False
            elif e.kind == "backward":
                plain = e
            elif e.kind == "write":
                written = True
            elif e.kind == "clip" and scaled in live and not written and id(e.node) not in unscaled_before:
                if any(s.kind in ("step", "plain_step") for s in path.events[i:]):
                    yield Fault("clip-of-scaled-gradients", e.line, scaled, _optimizer_at(path, i))
            elif e.kind == "unscale" and e.who in live:
                again = e.what in unscaled and unscaled[e.what].node is not e.node
                if e.what in stepped or again:
                    yield Fault("unscale-out-of-turn", e.line, e.who, e.what)
                unscaled[e.what] = e
            elif e.kind == "plain_step" and scaled in live and plain is None and not written:
                if e.who not in by_scaler:
                    seen = e.who in unscaled
                    yield Fault("optimizer-step-bypasses-scaler", e.line, e.who, scaled, proven=not seen)
            elif e.kind == "step" and e.who in live:
                if plain is not None and not scaled and (not scaled_somewhere or (free(plain) and free(e))):
                    yield Fault("backward-without-scale", plain.line, e.who, e.what)
                if e.what in stepped and stepped[e.what].node is not e.node:
                    yield Fault("scaler-update-missing", stepped[e.what].line, e.who, e.what)
                stepped[e.what] = e
                yield from _without_gradients(script, paths, path, i, e)
            elif e.kind == "update" and e.who in live:
                for earlier, of in updates:
                    if earlier.who == e.who and not (of & stepped.keys()) and earlier.node is not e.node:
                        yield Fault("scaler-updated-twice", earlier.line, e.who, str(e.line))
                updates.append((e, frozenset(stepped)))
                unscaled, stepped, scaled, plain = {}, {}, "", None
            elif e.kind == "leave" and e.what in ("continue", "return") and (unscaled or stepped):
                held = next(iter([*unscaled.values(), *stepped.values()]))
                if (
                    (loop or e.what == "return")
                    and _updates(everything, held.who)
                    and i == len(path.events) - 1
                ):
                    yield Fault("scaler-update-missing", e.line, held.who, held.what)
                unscaled, stepped = {}, {}
        if path.ended or not loop:
            continue
        for held in unscaled.values():
            later = [s for s in everything if s.kind in ("step", "update") and s.who == held.who]
            if not later or held.what in stepped:
                continue
            window = set().union(*(script.guards(s.node) - base for s in later))
            # Two conditions the source does not tie together may well be one at run time.
            if not window or not script.guards(held.node) - base < window:
                continue
            if _looks_like_a_window(window):
                yield Fault("unscale-out-of-turn", held.line, held.who, held.what)
            else:
                yield Fault("scaler-update-missing", later[-1].line, held.who, held.what)
        for step in stepped.values():
            if _updates(everything, step.who) and free(step):
                yield Fault("scaler-update-missing", step.line, step.who, step.what)


def _updates(events: list[Event], scaler: str) -> bool:
    return any(e.kind == "update" and e.who == scaler for e in events)


def _optimizer_at(path: Path, i: int) -> str:
    return next((e.what or e.who for e in path.events[i:] if e.kind in ("step", "plain_step")), "optimizer")


def _same_parameters(script: Script, optimizer: str, model: str) -> bool:
    """Whether unscaling an optimizer reaches the parameters clipped; no only where the source shows it."""
    owned = script.owners.get(optimizer, set())
    elsewhere = any(model in o for n, o in script.owners.items() if n != optimizer)
    return not (owned and model and model not in owned and elsewhere)


def _looks_like_a_window(guards: set[str]) -> bool:
    parts = {type(n) for g in guards for n in ast.walk(ast.parse(g, mode="eval"))}
    numeric = {ast.Gt, ast.Lt, ast.GtE, ast.LtE, ast.Call}
    return ast.Mod in parts or not parts & numeric


def _without_gradients(script: Script, paths: list[Path], path: Path, i: int, step: Event) -> Iterator[Fault]:
    before = path.events[:i]
    if not any(e.kind == "scaled" for e in before) or any(e.kind in ("opaque", "zero_kept") for e in before):
        return
    if any("grad" in g for g in script.guards(step.node)):
        return
    used = {e.who for e in before if e.kind == "use"}
    for owned in script.members.get(step.what, ()):
        if owned and not any(u == m or u.startswith(f"{m}.") for u in used for m in owned):
            elsewhere = any(e.kind == "use" and e.who in owned for p in paths for e in p.events)
            if elsewhere:
                yield Fault("scaler-step-without-gradients", step.line, step.what, ", ".join(sorted(owned)))


def _never_updated(script: Script, live: set[str]) -> Iterator[Fault]:
    """step() of a scaler made in this file, with no update() in it and handed to nobody outside."""
    for call in script.calls:
        if method(call) == "update" and key(receiver(call)) in live:
            return
    outside = [c for c in script.calls if called(script, c) is None]
    handed = {key(a) for c in outside for a in (*c.args, *(k.value for k in c.keywords))}
    for call in script.calls:
        who = key(receiver(call))
        if method(call) == "step" and who in live and call.args:
            own = script.scalers[who] is not None and who not in handed
            yield Fault("scaler-update-missing", call.lineno, who, key(call.args[0]), proven=own)


def _update_in_optimizer_loop(script: Script, live: set[str]) -> Iterator[Fault]:
    for call in script.calls:
        who = key(receiver(call))
        if method(call) != "update" or who not in live:
            continue
        for parent in script.ancestors(call):
            if isinstance(parent, (ast.For, ast.AsyncFor)):
                several = len(script.members.get(collection(parent.iter), ())) > 1
                steps = any(
                    isinstance(n, ast.Call)
                    and method(n) == "step"
                    and n.args
                    and key(n.args[0]) == key(parent.target)
                    for n in ast.walk(parent)
                )
                if several and steps:
                    yield Fault("scaler-updated-twice", call.lineno, who, str(call.lineno))
                break
