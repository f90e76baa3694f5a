"""The ways through one iteration of a training loop, as sequences of what is done to the gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from auditor.lint.script import (
    Function,
    Script,
    arguments,
    called,
    collection,
    is_false,
    key,
    keyword,
    method,
    receiver,
)

_MOST = 128  # paths of one loop; more are left out, and nothing is concluded from their absence
_DEPTH = 4  # calls followed into the file's own functions
_CLIPS = ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_grads_with_norm_")


@dataclass(frozen=True)
class Event:
    """`kind`: scaled, backward, unscale, clip, write, step, plain_step, update, use, zero, leave."""

    kind: str
    node: ast.AST
    who: str = ""
    what: str = ""
    many: bool = False

    @property
    def line(self) -> int:
        return self.node.lineno  # type: ignore[attr-defined, no-any-return]


@dataclass(frozen=True)
class Path:
    events: tuple[Event, ...] = ()
    assumed: tuple[tuple[str, bool], ...] = ()
    ended: str = ""  # continue, break, return or raise


class Walker:
    """Follows the statements of one function; `names` maps parameters to what the callers pass."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.scaled: set[str] = {
            name for name, values in script.values.items() for value in values if self._scale_call(value)
        }

    def _scale_call(self, node: ast.AST) -> str:
        """The scaler whose scale() this expression is."""
        if isinstance(node, ast.Call) and method(node) == "scale":
            who = key(receiver(node))
            return who if who in self.script.scalers else ""
        return ""

    def iterations(self, body: list[ast.stmt]) -> list[Path]:
        return self._block(body, [Path()], {}, 0)

    def _named(self, node: ast.AST | None, names: dict[str, str]) -> str:
        name = key(node)
        return names.get(name, name)

    def _block(
        self, body: list[ast.stmt], paths: list[Path], names: dict[str, str], depth: int
    ) -> list[Path]:
        for statement in body:
            live = [p for p in paths if not p.ended]
            done = [p for p in paths if p.ended]
            if not live:
                break
            paths = (done + self._statement(statement, live, names, depth))[:_MOST]
        return paths

    def _statement(self, node: ast.stmt, paths: list[Path], names: dict[str, str], depth: int) -> list[Path]:
        if isinstance(node, ast.If):
            return self._branch(node, self._expressions(node.test, paths, names, depth), names, depth)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            return self._nested(node, paths, names, depth)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                paths = self._expressions(item.context_expr, paths, names, depth)
            return self._block(node.body, paths, names, depth)
        if isinstance(node, ast.Try):
            return self._block([*node.body, *node.orelse, *node.finalbody], paths, names, depth)
        if isinstance(node, (ast.Continue, ast.Break, ast.Return, ast.Raise)):
            ended = type(node).__name__.lower()
            if isinstance(node, ast.Return) and node.value is not None:
                paths = self._expressions(node.value, paths, names, depth)
            return [
                p
                if p.ended
                else replace(p, events=(*p.events, Event("leave", node, what=ended)), ended=ended)
                for p in paths
            ]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return paths
        return self._expressions(node, paths, names, depth)

    def _branch(self, node: ast.If, paths: list[Path], names: dict[str, str], depth: int) -> list[Path]:
        if not any(self._matters(s, depth) for s in (*node.body, *node.orelse)):
            return paths
        text, turned = _condition(node.test)
        out: list[Path] = []
        for path in paths:
            known = dict(path.assumed).get(text)
            for truth in (True, False):
                if known is not None and known != truth:
                    continue
                taken = replace(path, assumed=(*path.assumed, (text, truth)))
                out += self._block(node.body if truth != turned else node.orelse, [taken], names, depth)
        return out

    def _matters(self, node: ast.AST, depth: int) -> bool:
        for n in ast.walk(node):
            if isinstance(n, (ast.Continue, ast.Break, ast.Return)):
                return True
            if isinstance(n, ast.Call):
                if any(True for _ in self._events(n, {})):
                    return True
                function = called(self.script, n)
                if function and depth < _DEPTH and any(self._matters(s, depth + 1) for s in function.body):
                    return True
            if isinstance(n, (ast.Name, ast.Attribute)) and key(n) in self.script.models:
                return True
        return False

    def _nested(
        self, node: ast.For | ast.AsyncFor | ast.While, paths: list[Path], names: dict[str, str], depth: int
    ) -> list[Path]:
        """An inner loop runs once: over optimizers, or over micro-batches. One that updates the scaler is an
        iteration of its own, looked at by itself."""
        head = node.test if isinstance(node, ast.While) else node.iter
        paths = self._expressions(head, paths, names, depth)
        target = "" if isinstance(node, ast.While) else key(node.target)
        over = "" if isinstance(node, ast.While) else collection(node.iter)
        optimizers = bool(over and over in self.script.owners)
        inner = {**names, target: over} if optimizers else names
        if not optimizers and any(
            isinstance(n, ast.Call) and method(n) == "update" and key(receiver(n)) in self.script.scalers
            for n in ast.walk(node)
        ):
            return [replace(p, events=(*p.events, Event("opaque", node))) for p in paths]
        ran = self._block(node.body, paths, inner, depth)
        return [
            replace(p, ended="", events=tuple(e for e in p.events if e.kind != "leave" or e.what == "raise"))
            if p.ended in ("continue", "break")
            else p
            for p in ran
        ]

    def _expressions(self, node: ast.AST, paths: list[Path], names: dict[str, str], depth: int) -> list[Path]:
        """Events of the calls of a statement, in the order they are evaluated."""
        for n in _inside_out(node):
            if isinstance(n, ast.Call) and depth < _DEPTH:
                function = called(self.script, n)
                if function is not None and not _is_generator(function) and self._worth(function, depth):
                    passed = {p: self._named(v, names) for p, v in arguments(self.script, n) if key(v)}
                    live = [p for p in paths if not p.ended]
                    ran = self._block(function.body, live, passed, depth + 1)
                    paths = [p for p in paths if p.ended] + [
                        replace(
                            p,
                            ended="",
                            events=tuple(e for e in p.events if e.kind != "leave" or e.what == "raise"),
                        )
                        if p.ended == "return"
                        else p
                        for p in ran
                    ]
                    paths = paths[:_MOST]
                    continue
            found = tuple(self._events(n, names))
            if found:
                paths = [p if p.ended else replace(p, events=(*p.events, *found)) for p in paths]
        return paths

    def _worth(self, function: Function, depth: int) -> bool:
        return any(self._matters(s, depth + 1) for s in function.body)

    def _events(self, node: ast.AST, names: dict[str, str]) -> Iterator[Event]:
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(t, ast.Attribute) and t.attr == "grad" for t in targets):
                none = isinstance(node.value, ast.Constant) and node.value.value is None
                if not none:
                    yield Event("write", node)
            return
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            name = self._named(node, names)
            parent = self.script.parents.get(node)
            managed = isinstance(parent, ast.Attribute) and parent.attr in _NO_FORWARD
            if name in self.script.models and not managed:
                yield Event("use", node, name)
            return
        if not isinstance(node, ast.Call):
            return
        called_as, owner = method(node), receiver(node)
        who = self._named(owner, names)
        scalers = self.script.scalers
        first = node.args[0] if node.args else None
        if called_as in ("backward", "manual_backward"):
            loss = (
                owner
                if called_as == "backward" and not self.script.dotted(owner).startswith("torch.")
                else first
            )
            scaler = self._scaler_of(loss, names)
            yield Event("scaled", node, scaler) if scaler else Event("backward", node)
        elif who in scalers and called_as == "unscale_":
            yield Event("unscale", node, who, self._named(first, names))
        elif who in scalers and called_as == "step":
            yield Event("step", node, who, self._named(first, names))
        elif who in scalers and called_as == "update":
            yield Event("update", node, who)
        elif called_as == "step" and who in self.script.owners and not node.args:
            yield Event("plain_step", node, who)
        elif called_as == "zero_grad" and is_false(keyword(node, "set_to_none")):
            yield Event("zero_kept", node, who)
        elif called_as in _CLIPS or (
            isinstance(node.func, ast.Name) and self.script.dotted(node.func).rpartition(".")[2] in _CLIPS
        ):
            torch_clip = self.script.dotted(node.func).startswith("torch.") or who in self.script.models
            if torch_clip:
                of = first if not (who in self.script.models and called_as == "clip_grad_norm_") else owner
                inner = receiver(of) if isinstance(of, ast.Call) else None
                yield Event("clip", node, self._named(inner, names) if inner is not None else who)
        elif called_as in ("clamp_", "clip_") and _is_grad(owner):
            yield Event("clip", node)
        elif _writes_gradients(node, called_as, owner):
            yield Event("write", node)

    def _scaler_of(self, loss: ast.AST | None, names: dict[str, str]) -> str:
        if loss is None:
            return ""
        direct = self._scale_call(loss)
        if direct:
            return names.get(direct, direct)
        name = key(loss)
        if name in self.scaled:
            for value in self.script.values[name]:
                if scaler := self._scale_call(value):
                    return names.get(scaler, scaler)
        return ""


_NO_FORWARD = (
    *("parameters", "named_parameters", "train", "eval", "zero_grad", "state_dict", "load_state_dict"),
    *("to", "cuda", "modules", "requires_grad_", "no_sync"),
)


def _is_grad(node: ast.AST | None) -> bool:
    while isinstance(node, ast.Attribute) and node.attr == "data":
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def _writes_gradients(call: ast.Call, called_as: str, owner: ast.AST | None) -> bool:
    in_place = called_as in ("div_", "mul_", "copy_") and _is_grad(owner)
    return in_place or (isinstance(call.func, ast.Attribute) and "_foreach_" in call.func.attr)


def _condition(test: ast.expr) -> tuple[str, bool]:
    """The text of a condition and whether it is turned round: `not x` is x turned."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        text, turned = _condition(test.operand)
        return text, not turned
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        swapped = {ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}.get(
            type(test.ops[0])
        )
        if isinstance(test.ops[0], (ast.IsNot, ast.NotEq)) and swapped:
            return ast.unparse(ast.Compare(test.left, [swapped()], test.comparators)), True
    return ast.unparse(test), False


def _inside_out(node: ast.AST) -> Iterator[ast.AST]:
    """Evaluation order; the bodies of lambdas and nested functions are not evaluated here."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.Lambda, ast.FunctionDef)):
            yield from _inside_out(child)
    yield node


def _is_generator(function: Function) -> bool:
    return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(function))
