"""A plan applied to a real model: what runs in which dtype, under every wrapper, and what is refused."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import auditor
from auditor.apply.plan import PlanError, apply_plan, make_grad_scaler, read_plan

PLAN: dict[str, Any] = {
    "base": "bf16",
    "regions": {"norm": "fp32"},
    "loss_scale": {"needed": True, "initial": 4096.0, "growth_interval": 100},
}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(8, 8), nn.Softplus(), nn.Linear(8, 4)
        self.seen: list[torch.dtype] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        n = self.norm(h)
        self.seen = [h.dtype, n.dtype]
        return self.second(n)


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def test_base_and_regions_are_in_force_until_removed() -> None:
    model, x = net(), torch.randn(2, 8)
    applied = apply_plan(model, PLAN)
    out = model(x)
    assert model.seen == [torch.bfloat16, torch.float32] and out.dtype == torch.float32
    out.sum().backward()
    assert model.first.weight.grad is not None and model.first.weight.grad.dtype == torch.float32
    with torch.no_grad():
        assert torch.equal(model(x), out)
    applied.remove()
    model(x)
    assert model.seen == [torch.float32, torch.float32]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_what_the_plan_executes_is_what_autocast_regions_written_by_hand_execute() -> None:
    model, x = net(), torch.randn(2, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = model.first(x)
        with torch.autocast("cpu", enabled=False):
            n = model.norm(h.float())
        expected = model.second(n).float()
    with apply_plan(model, PLAN):
        assert torch.equal(model(x), expected)


def test_shared_modules_checkpointing_and_wrappers() -> None:
    model, x = net(), torch.randn(2, 8)
    with apply_plan(model, PLAN):
        plain = model(x)

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()
            self.again = self.net

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.net, x, use_reentrant=False) + self.again(x)

    outer = Outer()
    with apply_plan(outer, {"base": "bf16", "regions": {"net.norm": "fp32", "again.norm": "fp32"}}):
        out = outer(x)
        out.sum().backward()
    assert torch.equal(out, 2 * plain)  # exact: doubling only moves the exponent
    assert all(p.grad is not None for p in outer.parameters())

    compiled = torch.compile(net(), backend="eager")
    with apply_plan(compiled, PLAN):
        assert torch.equal(compiled(x), plain)
    later = net()
    with apply_plan(later, PLAN):
        assert torch.equal(torch.compile(later, backend="aot_eager")(x), plain)
    with apply_plan(nn.DataParallel(net()), PLAN) as applied:
        assert applied.fp32_loss is False


def test_two_micro_batches_accumulate() -> None:
    model, x = net(), torch.randn(4, 8)
    with apply_plan(model, {"base": "fp32", "regions": {}}):
        for half in (x[:2], x[2:]):
            model(half).sum().backward()
    accumulated = copy.deepcopy(model.first.weight.grad)
    model.zero_grad()
    model(x).sum().backward()
    assert accumulated is not None and torch.allclose(accumulated, model.first.weight.grad, atol=1e-5)


@pytest.mark.parametrize(
    ("plan", "complaint"),
    [
        ({"base": "bf16", "regions": {"nrom": "fp32"}}, r"lacks: nrom \(did you mean norm\?\)"),
        ({"base": "fp8", "regions": {}}, "asks for 'fp8'"),
        ({"base": "bf16", "regions": {"norm": "int8"}}, "norm asks for 'int8'"),
        ({"regions": {}}, "holds no plan"),
        ({"findings": [], "plan": None}, "audit without a plan"),
    ],
)
def test_a_plan_that_does_not_fit_leaves_the_model_untouched(plan: dict[str, Any], complaint: str) -> None:
    model = net()
    with pytest.raises(PlanError, match=complaint):
        apply_plan(model, plan)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_files_that_are_no_plan(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="No such file"):
        read_plan(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(PlanError, match="is not JSON"):
        read_plan(tmp_path / "bad.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(PlanError, match="holds no plan"):
        read_plan(str(tmp_path / "list.json"))


def test_tf32_is_switched_on_and_put_back() -> None:
    before = torch.get_float32_matmul_precision()
    with apply_plan(net(), {"base": "tf32", "regions": {}}):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before


def test_the_scaler_starts_where_the_plan_says() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = make_grad_scaler(PLAN, device="cpu")
    assert scaler.get_scale() == 4096.0 and scaler.get_growth_interval() == 100
    none = {**PLAN, "loss_scale": {"needed": False, "initial": None, "growth_interval": 2000}}
    assert not make_grad_scaler(none, device="cpu").is_enabled()
    with pytest.raises(PlanError, match="nothing of a loss scale"):
        make_grad_scaler({"base": "bf16", "regions": {}})


def test_an_audit_writes_the_plan_it_executed(tmp_path: Path) -> None:
    from auditor.pipeline import audit
    from auditor.report import write_reports
    from auditor.subject.request import AuditRequest

    path = tmp_path / "planned.py"
    path.write_text(
        "import torch\nfrom torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.square, self.layer = Square(), nn.Linear(8, 2)\n"
        "    def forward(self, x):\n"
        "        return self.layer(self.square(x))\n"
        "class Square(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(8, 8)\n"
        "    def forward(self, x):\n"
        "        h = self.layer(x) * 600\n"
        "        return (h * h).log1p()\n"
        "model = Net()\nexample_inputs = (torch.randn(16, 8),)\n"
    )
    found = audit(AuditRequest(model=str(path), target="V100-SXM2-32GB"), lambda *_: None)
    write_reports(found, tmp_path, ["plan", "json"])
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["base"] == "fp16" and plan["regions"]["square"] == "fp32" and plan["verified"] is True
    assert read_plan(tmp_path / "audit.json") == read_plan(tmp_path / "plan.json")
    assert (
        auditor.make_grad_scaler(tmp_path / "plan.json", "cpu").is_enabled() == plan["loss_scale"]["needed"]
    )
