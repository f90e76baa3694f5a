"""What a training script's source says of its scalers, optimizers, models and autocast regions; never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from auditor.errors import UsageProblem

Function = ast.FunctionDef | ast.AsyncFunctionDef
_OPTIMIZERS = (
    *("SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD"),
    *("LBFGS", "SparseAdam", "Adafactor", "Muon"),
)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def key(node: ast.AST | None) -> str:
    """How an object is called in the source; `self.` is dropped, so that methods of one class agree."""
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        return ""
    return ast.unparse(node).removeprefix("self.")


def collection(node: ast.AST | None) -> str:
    """What a loop runs over, as `key`: `opts` of `opts.values()`."""
    if isinstance(node, ast.Call) and method(node) == "values":
        return key(receiver(node))
    return key(node)


@dataclass
class Script:
    """One parsed file. Keys are names as `key` gives them."""

    path: str
    tree: ast.Module
    imports: dict[str, str] = field(default_factory=dict)
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    values: dict[str, list[ast.expr]] = field(default_factory=dict)
    scalers: dict[str, ast.Call | None] = field(default_factory=dict)
    owners: dict[str, set[str]] = field(default_factory=dict)  # optimizer -> models whose parameters it holds
    members: dict[str, list[set[str]]] = field(default_factory=dict)  # the optimizers of a name, one by one
    models: set[str] = field(default_factory=set)
    calls: list[ast.Call] = field(default_factory=list)

    def dotted(self, node: ast.AST | None) -> str:
        """The imported name behind an expression: `ac` of `from torch.cuda.amp import autocast as ac`."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.imports.get(node.id, node.id), *reversed(parts)])

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function_of(self, node: ast.AST) -> ast.AST:
        return next((a for a in self.ancestors(node) if isinstance(a, _SCOPES)), self.tree)

    def guards(self, node: ast.AST) -> frozenset[str]:
        """The conditions under which a statement runs, as text."""
        found, child = set(), node
        for parent in self.ancestors(node):
            if isinstance(parent, ast.If) and child is not parent.test:
                text = ast.unparse(parent.test)
                found.add(text if child in parent.body else f"not ({text})")
            child = parent
        return frozenset(found)

    def value(self, name: str) -> ast.expr | None:
        """What a name is, where the file gives it one value only."""
        values = self.values.get(name, [])
        return values[0] if len(values) == 1 else None

    def is_scaler_call(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self.dotted(node.func).endswith("GradScaler")

    def autocast(self, node: ast.AST) -> ast.Call | None:
        """The call that makes an autocast region; a name bound to one counts."""
        if isinstance(node, ast.Name):
            bound = self.value(node.id)
            return self.autocast(bound) if isinstance(bound, ast.Call) else None
        if isinstance(node, ast.Call) and self.dotted(node.func).rpartition(".")[2] in (
            "autocast",
            "autocast_mode",
        ):
            name = self.dotted(node.func)
            return node if name.startswith("torch.") else None
        return None

    def region(self, node: ast.AST) -> ast.Call | None:
        """The innermost autocast around a node: a `with` block, or the decorator of its function."""
        child = node
        for parent in self.ancestors(node):
            if isinstance(parent, (ast.With, ast.AsyncWith)) and child in parent.body:
                for item in reversed(parent.items):
                    if found := self.autocast(item.context_expr):
                        return found
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for decorator in parent.decorator_list:
                    if found := self.autocast(decorator):
                        return found
                return None
            child = parent
        return None

    def dtype(self, node: ast.AST | None) -> str | None:
        """float16, bfloat16 or float32 where the source says so; None where it does not."""
        if isinstance(node, ast.Name) and node.id not in self.imports:
            return self.dtype(self.value(node.id))
        name = self.dotted(node)
        if not name.startswith("torch."):
            return None
        last = name.rpartition(".")[2]
        return {"half": "float16", "float": "float32"}.get(last, last) if last in _DTYPES else None

    def autocast_dtype(self, call: ast.Call) -> str | None:
        """The dtype of an autocast region; "off" where it is disabled by a constant."""
        if is_false(keyword(call, "enabled")):
            return "off"
        at = 0 if ".amp.autocast" in self.dotted(call.func) and ".cuda." in self.dotted(call.func) else 1
        given = keyword(call, "dtype") or (call.args[at] if len(call.args) > at else None)
        if given is not None:
            return self.dtype(given)
        device = keyword(call, "device_type") or (call.args[0] if call.args else None)
        if isinstance(device, ast.Constant) and device.value == "cpu":
            return "bfloat16"
        return "float16"

    def half_regions(self) -> list[ast.Call]:
        """The enabled autocast calls of the file that may run in FP16."""
        found = [c for c in self.calls if self.autocast(c)]
        return [c for c in found if self.autocast_dtype(c) in ("float16", None)]


_DTYPES = ("float16", "half", "bfloat16", "float32", "float")


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def is_false(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def line_of(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 1))


def method(node: ast.AST) -> str:
    """The method a call calls, or ""."""
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def receiver(node: ast.Call) -> ast.expr | None:
    return node.func.value if isinstance(node.func, ast.Attribute) else None


def parse(text: str | bytes, path: str) -> Script:
    """Raises UsageProblem with the line of a syntax error."""
    try:
        tree = ast.parse(text, filename=path)
    except SyntaxError as error:
        raise UsageProblem(f"not Python: {error.msg}", where=f"{path}:{error.lineno or 1}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageProblem(f"not Python that can be read: {error}", where=path) from None
    script = Script(path, tree)
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            script.parents[child] = node
        if isinstance(node, ast.Import):
            for a in node.names:
                script.imports[a.asname or a.name.partition(".")[0]] = (
                    a.name if a.asname else a.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for a in node.names:
                script.imports[a.asname or a.name] = f"{node.module}.{a.name}"
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            script.functions.setdefault(node.name, node)
        elif isinstance(node, ast.Call):
            script.calls.append(node)
    for target, value in _assignments(tree):
        script.values.setdefault(target, []).append(value)
    _name_objects(script)
    return script


def _assignments(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            yield key(node.target), node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                many = isinstance(target, (ast.Tuple, ast.List))
                same = many and isinstance(node.value, (ast.Tuple, ast.List))
                if same and len(target.elts) == len(node.value.elts):  # type: ignore[attr-defined]
                    for t, v in zip(target.elts, node.value.elts, strict=True):  # type: ignore[attr-defined]
                        yield key(t), v
                elif many:
                    for t in target.elts:  # type: ignore[attr-defined]
                        yield key(t), node.value
                else:
                    yield key(target), node.value


def _name_objects(script: Script) -> None:
    for name, values in script.values.items():
        for value in values:
            for part in [value, *([value.body, value.orelse] if isinstance(value, ast.IfExp) else [])]:
                if script.is_scaler_call(part) and name:
                    script.scalers[name] = part  # type: ignore[assignment]
                elif _is_optimizer(script, part) and name:
                    script.owners.setdefault(name, set()).update(_owned(part))
                    script.members.setdefault(name, []).append(_owned(part))
    for name, values in script.values.items():
        for value in values:
            if name and isinstance(value, (ast.List, ast.Tuple, ast.Dict)):
                _name_collection(script, name, value.values if isinstance(value, ast.Dict) else value.elts)
    for call in script.calls:
        who = key(receiver(call))
        if who and method(call) in ("parameters", "named_parameters"):
            script.models.add(who)
        # A scaler that comes from elsewhere is known by what is done with it.
        if method(call) == "unscale_" and who:
            script.scalers.setdefault(who, None)
        inner = receiver(call)
        if method(call) == "backward" and isinstance(inner, ast.Call) and method(inner) == "scale":
            script.scalers.setdefault(key(receiver(inner)), None)
        if method(call) in ("step", "unscale_") and who in script.scalers and call.args:
            script.owners.setdefault(key(call.args[0]), set())
    script.scalers.pop("", None)
    script.owners.pop("", None)
    _follow_arguments(script)


def _name_collection(script: Script, name: str, elements: list[ast.expr]) -> None:
    for element in elements:
        held = script.members.get(key(element), [])
        made = [_owned(element)] if _is_optimizer(script, element) else held
        for owned in made:
            script.owners.setdefault(name, set()).update(owned)
            script.members.setdefault(name, []).append(owned)


def _follow_arguments(script: Script) -> None:
    """A function's parameter that is handed a scaler, an optimizer or a model is one."""
    for _ in range(3):
        for call in script.calls:
            for parameter, value in arguments(script, call):
                given = key(value)
                if given in script.scalers:
                    script.scalers.setdefault(parameter, script.scalers[given])
                if given in script.owners:
                    script.owners.setdefault(parameter, set()).update(script.owners[given])
                if given in script.models:
                    script.models.add(parameter)
        for name, values in script.values.items():
            for value in values:
                given = key(value)
                if name and given in script.scalers:
                    script.scalers.setdefault(name, script.scalers[given])


def called(script: Script, call: ast.Call) -> Function | None:
    """The function of this file that a call runs: a plain function, or a method of `self`."""
    if isinstance(call.func, ast.Name):
        return script.functions.get(call.func.id)
    owner = receiver(call)
    if isinstance(call.func, ast.Attribute) and isinstance(owner, ast.Name) and owner.id in ("self", "cls"):
        return script.functions.get(call.func.attr)
    return None


def arguments(script: Script, call: ast.Call) -> list[tuple[str, ast.expr]]:
    """(parameter, value) of a call to a function of this file."""
    function = called(script, call)
    if function is None:
        return []
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    if names and names[0] in ("self", "cls"):
        names = names[1:]
    given = [(n, v) for n, v in zip(names, call.args, strict=False) if not isinstance(v, ast.Starred)]
    return given + [(k.arg, k.value) for k in call.keywords if k.arg]


def _is_optimizer(script: Script, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = script.dotted(node.func)
    return name.rpartition(".")[2] in _OPTIMIZERS or (".optim." in f".{name}" and "lr_scheduler" not in name)


def _owned(call: ast.AST) -> set[str]:
    return {
        key(receiver(n))
        for n in ast.walk(call)
        if isinstance(n, ast.Call) and method(n) in ("parameters", "named_parameters")
    } - {""}
