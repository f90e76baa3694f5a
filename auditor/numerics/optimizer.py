"""One optimizer step on 16-bit parameters beside the same step in FP32."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

# Implementations that round at other places than the plain one, or need a GPU; foreach kernels, CUDA's
# default, round after each operation as the plain loop does.
_PLAIN = {"foreach": False, "fused": False, "capturable": False, "differentiable": False}
# What torch's Adam family, RMSprop and Adagrad call their sums of squared gradients.
_SECOND_MOMENTS = ("exp_avg_sq", "square_avg", "sum")
# What --optimizer means where the file builds none; the learning rates are assumptions, torch's defaults.
_NAMED: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "adamw": (torch.optim.AdamW, {"lr": 1e-3}),
    "adam": (torch.optim.Adam, {"lr": 1e-3}),
    "sgd": (torch.optim.SGD, {"lr": 1e-3}),
    "sgd-momentum": (torch.optim.SGD, {"lr": 1e-3, "momentum": 0.9}),
}


@dataclass(frozen=True, slots=True)
class OptimizerStep:
    """What one step on parameters held in `precision` does, from FP32's gradients rounded to it.

    moved: parameter elements with a nonzero 16-bit gradient that the FP32 step changes; `lost`: of these,
    unchanged in 16 bit.
    nonfinite: parameter elements non-finite here and finite in FP32.
    moments: nonzero second-moment elements of the FP32 step; `flushed`: of these, zero here.
    assumed: the file builds no optimizer, so its kind and learning rate are assumptions.
    """

    name: str
    precision: str
    lr: float
    eps: float
    assumed: bool
    moved: int
    lost: int
    nonfinite: int
    moments: int
    flushed: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """An optimizer to rebuild on other tensors: class, constructor arguments, options by parameter name."""

    kind: type[torch.optim.Optimizer]
    defaults: dict[str, Any]
    options: dict[str, dict[str, Any]]
    assumed: bool


def recipe_of(optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> Recipe:
    """How the user's `optimizer`, built on `model`, treats each parameter."""
    names = {id(p): n for n, p in model.named_parameters()}
    options = {
        names[id(p)]: {k: v for k, v in group.items() if k not in ("params", "param_names")}
        for group in optimizer.param_groups
        for p in group["params"]
        if id(p) in names
    }
    return Recipe(type(optimizer), dict(optimizer.defaults), options, assumed=False)


def assumed_recipe(name: str) -> Recipe | None:
    """The optimizer of that --optimizer name with torch's defaults; None for one torch has no rival for."""
    if name not in _NAMED:
        return None
    kind, defaults = _NAMED[name]
    return Recipe(kind, defaults, {}, assumed=True)


def _built(recipe: Recipe, tensors: Mapping[str, torch.nn.Parameter]) -> torch.optim.Optimizer:
    accepted = inspect.signature(recipe.kind).parameters
    groups = [{**recipe.options.get(n, {}), "params": [t]} for n, t in tensors.items()]
    for group in groups:
        group.update({k: v for k, v in _PLAIN.items() if k in group})
    defaults = {k: v for k, v in recipe.defaults.items() if k in accepted}
    defaults.update({k: v for k, v in _PLAIN.items() if k in accepted})
    return recipe.kind(groups, **defaults)


def _stepped(
    recipe: Recipe, parameters: Mapping[str, torch.Tensor], gradients: Mapping[str, torch.Tensor]
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """(parameters after one step, second moments by parameter name)."""
    own = {n: torch.nn.Parameter(p.clone()) for n, p in parameters.items()}
    for name, parameter in own.items():
        parameter.grad = gradients[name].clone()
    optimizer = _built(recipe, own)
    optimizer.step()
    moments = {
        name: state[key]
        for name, parameter in own.items()
        for state in [optimizer.state.get(parameter, {})]
        for key in _SECOND_MOMENTS
        if key in state
    }
    return {n: p.detach() for n, p in own.items()}, moments


def optimizer_step(
    recipe: Recipe,
    parameters: Mapping[str, torch.Tensor],
    gradients: Mapping[str, torch.Tensor],
    precision: str,
) -> OptimizerStep | None:
    """One step from float32 `parameters` and `gradients` (by name), in FP32 and in `precision` ("fp16" or
    "bf16"); None where no parameter has a gradient or the optimizer cannot be rebuilt."""
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    exact = {n: p.detach() for n, p in parameters.items() if p.dtype == torch.float32 and n in gradients}
    if not recipe.assumed:
        exact = {n: p for n, p in exact.items() if n in recipe.options}
    if not exact:
        return None
    narrow = {n: p.to(dtype) for n, p in exact.items()}
    rounded = {n: gradients[n].to(dtype) for n in exact}
    try:
        after, moments = _stepped(recipe, exact, gradients)
        low, low_moments = _stepped(recipe, narrow, rounded)
    except (RuntimeError, TypeError, ValueError, KeyError):
        return None
    moved = {n: (after[n] != exact[n]) & (rounded[n] != 0) for n in exact}
    options = {**recipe.defaults, **next(iter(recipe.options.values()), {})}
    built = _built(recipe, {"any": torch.nn.Parameter(torch.zeros(1))}).defaults
    return OptimizerStep(
        name=recipe.kind.__name__,
        precision=precision,
        lr=float(options.get("lr", built.get("lr", 0.0))),
        eps=float(options.get("eps", built.get("eps", 0.0)) or 0.0),
        assumed=recipe.assumed,
        moved=sum(int(m.sum()) for m in moved.values()),
        lost=sum(int((moved[n] & (low[n] == narrow[n])).sum()) for n in exact),
        nonfinite=sum(int((~torch.isfinite(low[n]) & torch.isfinite(after[n])).sum()) for n in exact),
        moments=sum(int((m != 0).sum()) for m in moments.values()),
        flushed=sum(int(((m != 0) & (low_moments[n] == 0)).sum()) for n, m in moments.items()),
    )
