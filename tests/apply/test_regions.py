"""Autocast regions on a real model, with PyTorch's own CPU autocast in bfloat16."""

import pytest
import torch
from torch import nn

from auditor.apply.regions import apply_regions


class Probe(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.seen: list[torch.dtype] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        self.seen.append(y.dtype)
        return y


def model() -> nn.Sequential:
    return nn.Sequential(Probe(), nn.Sequential(Probe(), Probe()))


def dtypes(net: nn.Module) -> list[torch.dtype]:
    return [m.seen[-1] for m in net.modules() if isinstance(m, Probe)]


def test_a_region_and_what_lies_below_it() -> None:
    net = model()
    with apply_regions(net, {"1": "fp32", "1.1": "bf16"}, "cpu"), torch.autocast("cpu", dtype=torch.bfloat16):
        net(torch.randn(2, 4)).sum().backward()
    assert dtypes(net) == [torch.bfloat16, torch.float32, torch.bfloat16]


def test_what_a_narrow_child_returns_into_a_wide_region_is_widened() -> None:
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.inner(x)
            return y @ y.t()

    net = nn.Sequential(Product())
    with (
        apply_regions(net, {"0": "fp32", "0.inner": "bf16"}, "cpu"),
        torch.autocast("cpu", dtype=torch.bfloat16),
    ):
        assert net(torch.randn(2, 4)).dtype == torch.float32


def test_removing_restores_the_model() -> None:
    net = model()
    regions = apply_regions(net, {"1": "fp32"}, "cpu")
    regions.remove()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        net(torch.randn(2, 4))
    assert set(dtypes(net)) == {torch.bfloat16}
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())


def test_an_exception_inside_leaves_autocast_as_it_was() -> None:
    net = model()
    with apply_regions(net, {"1": "fp32"}, "cpu"), torch.autocast("cpu", dtype=torch.bfloat16):
        with pytest.raises(RuntimeError):
            net[1](torch.randn(2, 5))
        assert torch.is_autocast_enabled("cpu")
        net(torch.randn(2, 4))
    assert dtypes(net) == [torch.bfloat16, torch.float32, torch.float32]


def test_missing_modules_are_listed() -> None:
    with pytest.raises(KeyError, match=r"1\.7, head"):
        apply_regions(model(), {"head": "fp32", "1.7": "fp32"}, "cpu")
