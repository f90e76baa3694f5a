"""Models that break tools are audited like any other, and nothing is made up about them."""

import warnings
from pathlib import Path

import pytest

from auditor.contract import Audit
from auditor.pipeline import audit
from auditor.subject.request import AuditRequest

MODELS = Path(__file__).parent / "data" / "hard_models.py"


def audited(name: str) -> Audit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return audit(AuditRequest(model=f"{MODELS}:{name}"), lambda *_: None)


@pytest.mark.parametrize(
    "name",
    [
        *("LSTM", "GRU", "FFT", "Custom", "Ckpt", "Inplace", "WN", "Sparse", "MHA", "Einsum", "Double"),
        *("NoParam", "Lazy", "Share", "Nested", "Quant"),
    ],
)
def test_sound_models_pass_in_every_mode(name: str) -> None:
    result = audited(name)
    assert result.verdict == "pass"
    assert {mode: row.verdict for mode, row in result.modes.items() if row.verdict != "ok"} == {}
    assert [f for f in result.findings if f.severity in ("high", "medium")] == []
    assert [r for r in result.rules if r.status == "error"] == []


def test_an_op_autocast_refuses_is_named_and_planned_around() -> None:
    result = audited("Bce")
    [finding] = [f for f in result.findings if f.severity == "high"]
    assert finding.rule == "AMP192" and finding.modes == ("autocast",) and "with_logits" in finding.fix
    assert result.verification.holds and result.plan is not None and result.plan.regions


def test_a_model_in_double_cannot_be_cast_halfway() -> None:
    result = audited("F64")
    [finding] = [f for f in result.findings if f.severity == "high"]
    assert finding.rule == "AMP193" and finding.modes == ("pure",)
    assert result.modes["autocast_bf16"].verdict == "ok"
