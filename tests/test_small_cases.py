"""The nine small cases: the right cause and line from one run, and silence on the two that are sound."""

import warnings
from pathlib import Path

import pytest

from auditor.contract import Finding
from auditor.errors import SubjectProblem
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


OWN_OPTIMIZER = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
example_inputs = (torch.randn(8, 16),)
def build_optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr={lr}, eps={eps})
def loss(output):
    return output.square().mean() if {eps} < 1e-4 else output.square().sum() * 100
"""


@pytest.mark.parametrize(
    ("lr", "eps", "expected"),
    # Gradients of some 1e-3 vanish when squared; those of some hundreds do not.
    [(1e-3, 1e-8, {("optimizer-eps-vanishes", "high", 7)}), (0.05, 1e-3, set())],
)
def test_the_files_own_optimizer_on_half_parameters(
    tmp_path: Path, lr: float, eps: float, expected: set[tuple[str, str, int]]
) -> None:
    path = tmp_path / f"own_optimizer_{eps}.py"
    path.write_text(OWN_OPTIMIZER.format(lr=lr, eps=eps))
    found = audit(AuditRequest(model=str(path)), lambda *_: None).findings
    serious = {
        (f.name, f.severity, f.line)
        for f in found
        if f.phase == "optimizer" and "fp16" in f.precisions and f.severity in ("high", "medium")
    }
    assert serious == expected
    assert all(f.modes == ("pure",) for f in found if f.phase == "optimizer")


def test_build_optimizer_must_return_one(tmp_path: Path) -> None:
    path = tmp_path / "no_optimizer.py"
    path.write_text(OWN_OPTIMIZER.replace("return ", "return 3 #").format(lr=1, eps=1))
    with pytest.raises(SubjectProblem, match="returned a int, not"):
        audit(AuditRequest(model=str(path)), lambda *_: None)
