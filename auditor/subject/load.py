"""Find what is audited: a file or module path to a model, its inputs and its loss."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from auditor.errors import SubjectProblem, UsageProblem, near_names
from auditor.numerics.twins import widened
from auditor.subject.files import load_checkpoint
from auditor.subject.guard import guarded
from auditor.subject.inputs import Arguments, find_inputs
from auditor.subject.request import AuditRequest


@dataclass(frozen=True)
class Subject:
    """What is audited. `batches` are (args, kwargs) pairs; empty when there are no inputs at all.

    `loss` takes the output and the first batch's arguments; None when the file offers none.
    `loss_scale` is the file's own LOSS_SCALE: the scale its training uses. `optimizer` is what the file's
    build_optimizer(model) returned, `optimizer_line` where that function stands. `built_in` is the 16-bit
    dtype of a model that came in one ("float16"); it was widened to float32, and its inputs with it.
    """

    model: nn.Module
    batches: tuple[Arguments, ...]
    loss: Callable[[Any, Arguments], Any] | None
    loss_scale: float | None
    optimizer: torch.optim.Optimizer | None
    optimizer_line: int | None
    built_in: str | None
    source: str
    entry: str
    inputs_from: str
    file: Path | None


def load_subject(request: AuditRequest) -> Subject:
    """Load the model, its inputs and its loss. Raises UsageProblem or SubjectProblem."""
    path, _, name = (
        request.model.partition(":") if not _is_windows_path(request.model) else (request.model, "", "")
    )
    torch.manual_seed(request.seed)
    module = _import_file(Path(path)) if path.endswith(".py") else _import_module(path, name)
    model, entry = _find_model(module, name, path)
    if request.checkpoint is not None:
        load_checkpoint(model, Path(request.checkpoint))
    batches, inputs_from = find_inputs(module, request)
    if any(p.is_meta for p in model.parameters()):
        raise SubjectProblem(
            "the model's parameters are on the meta device and hold no values",
            where=request.model,
            next_step="materialise them (model.to_empty and an initialisation, or --checkpoint)",
        )
    built_in = widen(model)
    if built_in is not None:
        batches = tuple(tree_map_only(torch.Tensor, widened, batch) for batch in batches)
    if request.training is not None:
        model.train(request.training)
    if batches and any(isinstance(p, UninitializedParameter) for p in model.parameters()):
        args, kwargs = batches[0]
        with torch.no_grad():  # lazy modules take their shapes from a first batch
            guarded(lambda: model(*args, **kwargs), "the first forward of a lazy module", request.model)
    loss = getattr(module, "loss", None)
    scale = getattr(module, "LOSS_SCALE", None)
    optimizer, optimizer_line = _find_optimizer(module, model, request.model)
    return Subject(
        model=model,
        batches=batches,
        loss=loss_caller(loss) if callable(loss) and not isinstance(loss, type) else None,
        loss_scale=float(scale) if isinstance(scale, (int, float)) and not isinstance(scale, bool) else None,
        optimizer=optimizer,
        optimizer_line=optimizer_line,
        built_in=built_in,
        source=path,
        entry=entry,
        inputs_from=inputs_from,
        file=Path(module.__file__) if module.__file__ else None,
    )


def _is_windows_path(text: str) -> bool:
    return len(text) > 2 and text[1] == ":" and text[2] in "\\/"


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        known = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise UsageProblem(f"{what}{near_names(path.name, known)}", where=str(path))
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise UsageProblem("not a Python file", where=str(path))
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickling look their module up by name.
    sys.modules[path.stem] = module
    loader = spec.loader
    guarded(lambda: loader.exec_module(module), f"importing {path}", str(path))
    return module


def _import_module(path: str, name: str) -> ModuleType:
    if not name:
        raise UsageProblem(
            f"{path!r} is neither a .py file nor package.module:name",
            next_step="ampaudit path/to/model.py, or ampaudit package.module:name",
        )
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.util.find_spec(path)
    except (ModuleNotFoundError, ValueError):
        found = None
    if found is None:
        raise UsageProblem(f"no module named {path!r}", next_step="is it installed in this environment?")
    module: ModuleType = guarded(lambda: importlib.import_module(path), f"importing {path}", path)
    return module


def _find_model(module: ModuleType, name: str, path: str) -> tuple[nn.Module, str]:
    if name:
        if not hasattr(module, name):
            known = [n for n in vars(module) if not n.startswith("_")]
            raise UsageProblem(f"{path} has no {name!r}{near_names(name, known)}", where=path)
        return _as_model(getattr(module, name), name, path)
    if callable(getattr(module, "build_model", None)):
        return _as_model(module.build_model, "build_model", path)
    if isinstance(getattr(module, "model", None), nn.Module):
        return module.model, "model"
    classes = {
        n: c
        for n, c in vars(module).items()
        if isinstance(c, type) and issubclass(c, nn.Module) and c.__module__ == module.__name__
    }
    constructible = {n: c for n, c in classes.items() if _takes_nothing(c)}
    if len(constructible) == 1:
        (only,) = constructible
        return _as_model(constructible[only], only, path)
    if constructible:
        listed = ", ".join(f"{path}:{n}" for n in constructible)
        raise UsageProblem("several models, none named", where=path, next_step=f"say which: {listed}")
    detail = f" ({', '.join(classes)} need constructor arguments)" if classes else ""
    raise UsageProblem(
        f"no model found{detail}",
        where=path,
        next_step=_next_step(path),
    )


def _next_step(path: str) -> str:
    offer = "offer build_model() and example_inputs(), a variable `model`, or name one as path.py:name"
    if not path.endswith(".py"):
        return offer
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    trains = ".backward(" in text and ".step(" in text
    return f"{offer}\n  to check this file's training loop: ampaudit lint {path}" if trains else offer


def _takes_nothing(cls: type) -> bool:
    try:
        parameters = list(inspect.signature(cls).parameters.values())
    except (TypeError, ValueError):
        return False
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(p.default is not p.empty or p.kind in variadic for p in parameters)


def _as_model(value: Any, name: str, path: str) -> tuple[nn.Module, str]:
    if isinstance(value, nn.Module):
        return value, name
    if not callable(value):
        raise UsageProblem(f"{name} is a {type(value).__name__}, not a model or a factory", where=path)
    model = guarded(value, f"{name}()", path)
    if not isinstance(model, nn.Module):
        raise SubjectProblem(f"{name}() returned a {type(model).__name__}, not a torch.nn.Module", where=path)
    return model, f"{name}()"


def widen(model: nn.Module) -> str | None:
    """Widen 16-bit parameters and buffers to float32 in place; the dtype they came in, None if in none."""
    low = [p.dtype for p in model.parameters() if p.dtype in (torch.float16, torch.bfloat16)]
    if not low:
        return None
    model._apply(widened)  # type: ignore[no-untyped-call]
    return str(max(set(low), key=low.count)).removeprefix("torch.")


def _find_optimizer(
    module: ModuleType, model: nn.Module, path: str
) -> tuple[torch.optim.Optimizer | None, int | None]:
    """What build_optimizer(model) returns, and the line of that function."""
    build = getattr(module, "build_optimizer", None)
    if not callable(build):
        return None, None
    optimizer = guarded(lambda: build(model), "build_optimizer(model)", path)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise SubjectProblem(
            f"build_optimizer(model) returned a {type(optimizer).__name__}, not a torch.optim.Optimizer",
            where=path,
        )
    code = getattr(build, "__code__", None)
    return optimizer, code.co_firstlineno if code is not None else None


def loss_caller(loss: Callable[..., Any]) -> Callable[[Any, Arguments], Any]:
    """loss(output) or loss(output, *inputs), as the function's signature asks."""
    try:
        parameters = inspect.signature(loss).parameters.values()
    except (TypeError, ValueError):
        return lambda output, _inputs: loss(output)
    variadic = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    required = [
        p
        for p in parameters
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]

    def call(output: Any, inputs: Arguments) -> Any:
        given = [*inputs[0], *inputs[1].values()]
        if variadic:
            return loss(output, *given)
        return loss(output, *given[: max(len(required) - 1, 0)])

    return call


LossKind = Literal["user", "model_output", "surrogate", "none"]


def loss_of(subject: Subject, output: Any, inputs: Arguments) -> tuple[torch.Tensor | None, LossKind]:
    """The scalar to differentiate: the file's loss, the output's own, or a surrogate; None without floats.

    The surrogate is the mean of every floating output weighted by fixed pseudo-random signs, in float32, so
    that it neither cancels nor rounds by itself.
    """
    if subject.loss is not None:
        value = subject.loss(output, inputs)
        return (value.mean() if isinstance(value, torch.Tensor) and value.dim() else value), "user"
    own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(own, torch.Tensor):
        return own.mean() if own.dim() else own, "model_output"
    floats = [
        t
        for t in tree_leaves(_leaves(output))
        if isinstance(t, torch.Tensor) and t.is_floating_point() and t.numel()
    ]
    if not floats:
        return None, "none"
    with _disable_current_modes():  # the weights are no part of the model
        weights = [_signs(t) for t in floats]
    total = (floats[0].float() * weights[0]).mean()
    for t, weight in zip(floats[1:], weights[1:], strict=True):
        total = total + (t.float() * weight).mean()
    return total, "surrogate"


def _signs(t: torch.Tensor) -> torch.Tensor:
    index = torch.arange(t.numel(), dtype=torch.float64).view(t.shape)
    return torch.where(torch.sin(index * 12.9898 + 1.0) > 0, 1.0, -1.0).to(torch.float32)


def _leaves(output: Any) -> Any:
    return dict(output) if isinstance(output, Mapping) else output
