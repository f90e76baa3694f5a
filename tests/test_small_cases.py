"""The nine small cases: the right cause and line from one run, and silence on the two that are sound."""

import warnings
from pathlib import Path

import pytest

from auditor.contract import Finding
from auditor.pipeline import audit
from auditor.subject.request import AuditRequest

CASES = Path(__file__).parent / "data" / "small_cases.py"


def serious(name: str) -> list[Finding]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = audit(AuditRequest(model=f"{CASES}:{name}"), lambda *_: None)
    return [f for f in result.findings if f.severity in ("high", "medium")]


def text_at(finding: Finding) -> str:
    assert finding.line is not None
    return CASES.read_text().splitlines()[finding.line - 1].strip()


@pytest.mark.parametrize("name", ["mask", "mlp"])
def test_sound_cases_are_silent(name: str) -> None:
    assert serious(name) == []


@pytest.mark.parametrize(
    ("name", "line", "precisions", "modes"),
    [
        ("masked_row", "bias = mask * -1e9", ("fp16",), ("pure",)),
        ("rms_norm", "mean = h.pow(2).mean", ("fp16",), ("pure",)),
        ("logits", "logits = self.head(x)", ("fp16",), ("autocast", "pure")),
        ("layer_norm_by_hand", "return gap / torch.sqrt(var + 1e-12)", ("fp16",), ("pure",)),
        ("positions", "place = torch.arange", ("fp16", "bf16"), ("autocast", "pure")),
        ("count", "return ones.sum()", ("fp16",), ("pure",)),
    ],
)
def test_faults_are_told_on_their_line(
    name: str, line: str, precisions: tuple[str, ...], modes: tuple[str, ...]
) -> None:
    [finding] = serious(name)
    assert text_at(finding).startswith(line)
    assert (finding.precisions, finding.modes) == (precisions, modes)


def test_a_norm_whose_gradient_overflows_is_told_on_its_way() -> None:
    """1 / sqrt(1e-12) magnifies the gradient a million times; it is infinite where it enters half memory."""
    [finding] = serious("layer_norm")
    assert (finding.severity, finding.precisions, finding.modes) == ("high", ("fp16",), ("pure",))
    assert text_at(finding).startswith(("h = torch.full_like", "return 1000 * self.norm"))
