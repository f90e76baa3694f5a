"""What the model is run on: batches from files, from --input, or from the file's example_inputs()."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from auditor.errors import SubjectProblem, UsageProblem
from auditor.subject.files import batch_arguments, read_tensors
from auditor.subject.guard import guarded
from auditor.subject.inputspec import make_input, parse_input
from auditor.subject.request import AuditRequest

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def find_inputs(module: ModuleType, request: AuditRequest) -> tuple[tuple[Arguments, ...], str]:
    """The (args, kwargs) of each batch and where they are from; no batch when there are no inputs at all."""
    batches, inputs_from = _given(module, request)
    if request.stress != 1.0 and batches:
        batches = tuple(_stressed(batch, request.stress) for batch in batches)
        inputs_from += f", times {request.stress:g}"
    return batches, inputs_from


def _given(module: ModuleType, request: AuditRequest) -> tuple[tuple[Arguments, ...], str]:
    if request.batches and request.inputs:
        raise UsageProblem("--input and --batch exclude each other")
    if request.batches:
        paths = [Path(p) for p in request.batches]
        return tuple(batch_arguments(read_tensors(p, "--batch"), p) for p in paths), "--batch " + " ".join(
            request.batches
        )
    if request.inputs:
        generator = torch.Generator().manual_seed(request.seed)
        specs = [parse_input(text) for text in request.inputs]
        args = tuple(make_input(s, generator) for s in specs if s.name is None)
        kwargs = {s.name: make_input(s, generator) for s in specs if s.name is not None}
        return ((args, kwargs),), "--input " + " ".join(request.inputs)
    offered = getattr(module, "example_inputs", None)
    if offered is None:
        return (), "none"
    value = guarded(offered, "example_inputs()", request.model) if callable(offered) else offered
    return (as_arguments(value),), "example_inputs()"


def _stressed(batch: Arguments, factor: float) -> Arguments:
    """The batch with every floating input multiplied by `factor`."""
    if not any(isinstance(t, torch.Tensor) and t.is_floating_point() for t in tree_leaves(batch)):
        raise UsageProblem(
            "--stress scales floating inputs, and this model is given none",
            next_step="scale what the model computes from its integer inputs, an embedding say",
        )
    scaled: Arguments = tree_map_only(
        torch.Tensor, lambda t: t * factor if t.is_floating_point() else t, batch
    )
    return scaled


def as_arguments(value: Any) -> Arguments:
    if isinstance(value, torch.Tensor):
        return (value,), {}
    if isinstance(value, Mapping):
        return (), {str(k): v for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(value), {}
    if hasattr(value, "args") or hasattr(value, "kwargs"):
        return tuple(getattr(value, "args", ())), dict(getattr(value, "kwargs", {}))
    raise SubjectProblem(
        f"example_inputs() returned a {type(value).__name__}",
        next_step="return a tuple of args, a dict of kwargs, or an object with args and kwargs",
    )
