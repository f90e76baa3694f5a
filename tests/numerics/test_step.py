"""A step in any mode leaves the user's model as it was, and tells what happened."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from auditor.capture.families import load_families
from auditor.numerics.outcome import NO_SENSITIVITY, judge_outcome, sensitivity_of
from auditor.numerics.shadow import Shadow
from auditor.numerics.step import Mode, Work, run_step

FAMILIES = load_families()
MODES = [
    Mode("fp32"),
    Mode("tf32", tf32=True),
    Mode("autocast_fp16", autocast=torch.float16, loss_scale=1024.0),
    Mode("pure_bf16", pure=torch.bfloat16),
    Mode("weights", weights="fp16"),
]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout(0.3)
        self.head = nn.Linear(8, 5)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.head(self.drop(F.relu(self.norm(self.conv(x)))).mean((2, 3)))


def work(model: nn.Module, *args: torch.Tensor) -> Work:
    return Work(model, args, {}, lambda out: out.square().mean(), seed=0)


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
def test_nothing_is_left_on_the_model(mode: Mode) -> None:
    torch.manual_seed(0)
    model = Model()
    gradient = torch.ones_like(model.head.weight)
    model.head.weight.grad = gradient
    before = copy.deepcopy(model.state_dict())
    parameters, inputs, random = list(model.parameters()), torch.randn(4, 3, 8, 8), torch.get_rng_state()
    shadow = Shadow(FAMILIES, tf32=mode.tf32) if mode.autocast or mode.pure or mode.tf32 else None
    outcome, _ = run_step(work(model, inputs), mode, FAMILIES, shadow)
    assert outcome.failure is None and len(outcome.gradients) == len(parameters)
    assert torch.equal(torch.get_rng_state(), random) and model.training
    for name, value in model.state_dict().items():
        assert value.dtype == before[name].dtype and torch.equal(value, before[name]), name
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert model.head.weight.grad is gradient and model.conv.weight.grad is None


def test_dropout_is_the_same_in_every_mode() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.5))
    inputs = torch.randn(8, 16)
    reference, _ = run_step(work(model, inputs), Mode("fp32"), FAMILIES, None)
    half, _ = run_step(work(model, inputs), Mode("p", pure=torch.float16), FAMILIES, Shadow(FAMILIES))
    assert torch.equal(reference.outputs[0] == 0, half.outputs[0] == 0)


def test_gradients_are_unscaled_and_scaling_saves_small_ones() -> None:
    model = nn.Linear(4, 4)
    tiny = Work(model, (torch.ones(2, 4),), {}, lambda out: out.sum() * 2.0**-26, seed=0)
    reference, _ = run_step(tiny, Mode("fp32"), FAMILIES, None)
    lost, _ = run_step(tiny, Mode("p", pure=torch.float16), FAMILIES, Shadow(FAMILIES))
    # 2^16 would not do: the loss is half itself, and its gradient is the scale.
    kept, _ = run_step(tiny, Mode("p", pure=torch.float16, loss_scale=2.0**15), FAMILIES, Shadow(FAMILIES))
    assert not lost.gradients["weight"].any()
    assert torch.equal(kept.gradients["weight"], reference.gradients["weight"])


def test_a_failure_names_the_line_and_the_module() -> None:
    class Picky(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dtype != torch.float32:
                raise TypeError("float32 please")
            return x

    model = nn.Sequential(nn.Linear(2, 2), Picky())
    outcome, _ = run_step(
        work(model, torch.ones(1, 2)), Mode("p", pure=torch.float16), FAMILIES, Shadow(FAMILIES)
    )
    assert outcome.failure is not None
    assert (outcome.failure.module, outcome.failure.module_type, outcome.failure.file) == (
        "1",
        "Picky",
        __file__,
    )


def test_saved_activations_are_counted_once() -> None:
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.ReLU(), nn.Linear(8, 2, bias=False))
    inputs = torch.randn(16, 4)
    outcome, _ = run_step(Work(model, (inputs,), {}, lambda o: o.sum(), 0), Mode("fp32"), FAMILIES, None)
    # The input (kept for the first weight's gradient) and the ReLU's result (for both its neighbours).
    assert outcome.saved_bytes == 16 * 4 * 4 + 16 * 8 * 4


def test_outcomes_are_judged_by_the_formats_roundoff() -> None:
    torch.manual_seed(0)
    model = Model()
    reference, _ = run_step(work(model, torch.randn(4, 3, 8, 8)), Mode("fp32"), FAMILIES, None)
    assert judge_outcome(reference, reference, "fp16").verdict == "ok"
    worse = type(reference)(
        reference.loss, tuple(t * 1.03 for t in reference.outputs), reference.gradients, 0, None
    )
    assert judge_outcome(worse, reference, "bf16").verdict == "ok"  # 0.03 < 40 * 2^-8
    assert judge_outcome(worse, reference, "fp16").verdict == "degraded"  # 0.03 > 40 * 2^-11
    sensitive = sensitivity_of(worse, reference)
    assert sensitive.output == pytest.approx(0.03, rel=1e-3)
    assert judge_outcome(worse, reference, "fp16", 0, sensitive).verdict == "ok"
    broken = type(reference)(
        reference.loss, (reference.outputs[0] * float("inf"),), reference.gradients, 0, None
    )
    assert judge_outcome(broken, reference, "bf16").verdict == "broken"
    assert judge_outcome(reference, reference, "bf16", 1, NO_SENSITIVITY).verdict == "broken"
