"""The gate inside a training script, and before step 0 of a trainer."""

from pathlib import Path

import pytest
import torch
from torch import nn

import auditor
from auditor.errors import UsageProblem


class Net(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)
        self.norm = nn.BatchNorm1d(64)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.norm(self.layer(x)) * self.factor
        return (q @ q.T).softmax(-1)


BATCH = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))


def test_a_model_that_meets_the_policy_is_left_as_it_was() -> None:
    model = Net(1.0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    audit = auditor.check(model, BATCH, loss=lambda out: out.square().mean(), target="V100-SXM2-32GB")
    assert audit.gate is not None and audit.gate.outcome == "pass"
    assert audit.subject.loss_kind == "user" and audit.subject.model_type == "Net"
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    with torch.autocast("cpu", dtype=torch.bfloat16):  # CUDA's lists would make it float32
        assert torch.ones(2, dtype=torch.bfloat16).pow(2).dtype == torch.bfloat16
    assert torch.equal(state, torch.get_rng_state()) and all(p.grad is None for p in model.parameters())


def test_a_model_that_does_not_is_refused_with_its_line() -> None:
    with pytest.raises(auditor.GateFailed) as failed:
        auditor.check(Net(300.0), (BATCH,), target="V100-SXM2-32GB")
    line = next(i for i, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "q @ q.T" in text)
    told = str(failed.value)
    assert "product-overflow" in told and f"test_inprocess.py:{line} " in told
    assert failed.value.audit.verdict == "fail"


def test_the_policy_is_checked_first() -> None:
    with pytest.raises(UsageProblem, match="max_memory"):
        auditor.check(Net(1.0), BATCH, policy={"max_memry": "1GB"})
    with pytest.raises(UsageProblem, match="unknown rule"):
        auditor.check(Net(1.0), BATCH, policy={"severity": {"AMP9999": "low"}})


@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (300.0, False)])
def test_lightning_stops_before_step_0(factor: float, passes: bool, tmp_path: object) -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="needs lightning")
    from auditor.gate.callbacks import PrecisionGate

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net(factor)

        def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
            loss = self.net(batch).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    gate = PrecisionGate(target="V100-SXM2-32GB")
    trainer = lightning.Trainer(
        max_steps=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[gate], default_root_dir=str(tmp_path),
    )  # fmt: skip
    loader = torch.utils.data.DataLoader(BATCH, batch_size=4)
    if passes:
        trainer.fit(Module(), loader)
        assert trainer.global_step == 2 and gate.audit is not None
    else:
        with pytest.raises(auditor.GateFailed):
            trainer.fit(Module(), loader)
        assert trainer.global_step == 0


def test_accelerate_checks_what_it_prepared() -> None:
    accelerate = pytest.importorskip("accelerate", reason="needs accelerate")
    from auditor.gate.callbacks import check_prepared

    accelerator = accelerate.Accelerator(cpu=True)
    good = check_prepared(accelerator, accelerator.prepare(Net(1.0)), BATCH, target="V100-SXM2-32GB")
    assert good is not None and good.gate is not None and good.gate.outcome == "pass"
    with pytest.raises(auditor.GateFailed):
        check_prepared(accelerator, accelerator.prepare(Net(300.0)), BATCH, target="V100-SXM2-32GB")
