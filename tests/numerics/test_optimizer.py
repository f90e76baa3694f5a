"""An optimizer's step on 16-bit parameters: values anyone can work out."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from auditor.numerics.optimizer import assumed_recipe, optimizer_step, recipe_of


def model_of(weight: float) -> nn.Module:
    model = nn.Linear(4, 4, bias=False)
    with torch.no_grad():
        model.weight.fill_(weight)
    return model


def step_of(optimizer: torch.optim.Optimizer, model: nn.Module, gradient: float, precision: str):  # type: ignore[no-untyped-def]
    parameters = dict(model.named_parameters())
    gradients = {name: torch.full_like(p, gradient) for name, p in parameters.items()}
    return optimizer_step(recipe_of(optimizer, model), parameters, gradients, precision)


def test_adams_default_eps_divides_by_zero_in_fp16() -> None:
    model = model_of(0.5)
    # v = 0.001 * 0.001^2 = 1e-9 is zero in FP16, and so is eps = 1e-8.
    step = step_of(torch.optim.Adam(model.parameters()), model, 1e-3, "fp16")
    assert (step.name, step.eps, step.nonfinite) == ("Adam", 1e-8, 16)
    assert (step.moments, step.flushed) == (16, 16) and not step.assumed
    # BF16 has FP32's range: neither vanishes.
    step = step_of(torch.optim.Adam(model.parameters()), model, 1e-3, "bf16")
    assert (step.nonfinite, step.flushed) == (0, 0)


def test_a_larger_eps_and_gradient_are_fine_in_fp16() -> None:
    model = model_of(0.5)
    step = step_of(torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-4), model, 0.5, "fp16")
    assert (step.nonfinite, step.flushed, step.lost, step.moved) == (0, 0, 0, 16)


@pytest.mark.parametrize(
    ("weight", "lr", "lost"),
    # Adam's first update is lr. Half an ulp of BF16 just below 1 is 2^-9 = 1.95e-3.
    [(1.0, 1e-3, 16), (1.0, 4e-3, 0), (0.1, 1e-3, 0)],
)
def test_an_update_below_half_an_ulp_is_lost(weight: float, lr: float, lost: int) -> None:
    model = model_of(weight)
    step = step_of(torch.optim.Adam(model.parameters(), lr=lr), model, 1.0, "bf16")
    assert (step.moved, step.lost, step.lr) == (16, lost, lr)


def test_groups_keep_their_own_options_and_what_is_frozen_is_left_out() -> None:
    model = nn.ModuleDict({"slow": model_of(1.0), "fast": model_of(1.0), "frozen": model_of(1.0)})
    groups = [
        {"params": model["slow"].parameters(), "lr": 1e-4},
        {"params": model["fast"].parameters(), "lr": 0.1},
    ]
    step = step_of(torch.optim.SGD(groups, lr=0.5), model, 1.0, "bf16")
    # 1 - 1e-4 rounds back to 1; 1 - 0.1 does not; the frozen third is not stepped.
    assert (step.moved, step.lost, step.moments) == (32, 16, 0)


def test_without_gradients_or_a_known_optimizer_there_is_nothing_to_say() -> None:
    model = model_of(1.0)
    recipe = assumed_recipe("adamw")
    assert recipe is not None and recipe.assumed
    assert optimizer_step(recipe, dict(model.named_parameters()), {}, "fp16") is None
    assert assumed_recipe("adafactor") is None
