"""From a faulty model to the line to blame, without rules or reports."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from auditor.capture.families import load_families
from auditor.measure import Measurements, run_mode, run_reference
from auditor.numerics.step import Mode, Work

FAMILIES = load_families()


class Lines(nn.Module):
    """Applies a function written below, so that its lines are this file's."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x * self.weight)


def overflowing_square(x: torch.Tensor) -> torch.Tensor:
    x = x * 80
    square = x * x  # BLAME
    return square.sqrt() / 80


def positions(x: torch.Tensor) -> torch.Tensor:
    place = torch.arange(x.shape[-1], dtype=x.dtype)  # BLAME
    angle = place * 0.7
    return x * torch.cos(angle)


def one_minus(x: torch.Tensor) -> torch.Tensor:
    near = torch.tanh(x.abs() + 3)
    gap = 1 - near * near  # BLAME
    return gap * 3.0


def vanishing_guard(x: torch.Tensor) -> torch.Tensor:
    p = torch.relu(x) * 1e-3
    return torch.log(p + 1e-12)  # BLAME


def counting(x: torch.Tensor) -> torch.Tensor:
    count = torch.zeros((), dtype=x.dtype)
    for _ in range(300):
        count = count + 1  # BLAME: 256 + 1 is 256 in bfloat16
    return x * (count - 256)


def harmless(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 3, -1).masked_fill(x > 2, 0.0)


def measured(function: Callable[[torch.Tensor], torch.Tensor]) -> tuple[Work, Measurements]:
    x = torch.randn(16, 1024, generator=torch.Generator().manual_seed(0))
    work = Work(Lines(function), (x,), {}, lambda out: out.float().mean(), 0)
    return work, run_reference(work, FAMILIES)


def line_of(function: Callable[..., object]) -> int:
    import inspect

    source, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(source) if "# BLAME" in line)


@pytest.mark.parametrize(
    ("function", "dtype", "verdict"),
    [
        (overflowing_square, torch.float16, "broken"),
        (positions, torch.bfloat16, "degraded"),
        (one_minus, torch.bfloat16, "degraded"),
        (counting, torch.bfloat16, "degraded"),
        (vanishing_guard, torch.float16, "broken"),
    ],
)
def test_the_line_is_found_and_confirmed(
    function: Callable[..., torch.Tensor], dtype: torch.dtype, verdict: str
) -> None:
    work, reference = measured(function)
    precision = "fp16" if dtype == torch.float16 else "bf16"
    run = run_mode(work, Mode("pure", pure=dtype), precision, reference, FAMILIES)
    assert run.result.verdict == verdict
    assert run.blame.confirmed
    assert [line for _, line in run.blame.culprits] == [line_of(function)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_sound_model_is_left_alone(dtype: torch.dtype) -> None:
    work, reference = measured(harmless)
    precision = "fp16" if dtype == torch.float16 else "bf16"
    run = run_mode(work, Mode("pure", pure=dtype), precision, reference, FAMILIES)
    assert run.result.verdict == "ok" and not run.blame.culprits


def test_ranges_are_those_of_the_fp32_step() -> None:
    _, reference = measured(overflowing_square)
    squares = [
        op for op in reference.trace.ops if op.line == line_of(overflowing_square) and op.phase == "forward"
    ]
    histogram = reference.ranges[squares[0].id]
    assert histogram.total == 16 * 1024 and histogram.absmax > 65504


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_recurrent_layers_that_turn_tensors_in_place_run_in_half(kind: type[nn.Module]) -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = kind(4, 6, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            turned = self.layer(x)[0]
            turned.transpose_(1, 2).unsqueeze_(0)
            return turned

    torch.manual_seed(0)
    work = Work(Recurrent(), (torch.randn(3, 5, 4),), {}, lambda out: out.float().sum(), 0)
    reference = run_reference(work, FAMILIES)
    assert reference.reference.outputs[0].shape == (1, 3, 6, 5)
    for dtype, precision in ((torch.float16, "fp16"), (torch.bfloat16, "bf16")):
        run = run_mode(work, Mode("pure", pure=dtype), precision, reference, FAMILIES)
        assert run.result.verdict == "ok", run.result.reason
