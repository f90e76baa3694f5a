"""Models that are not what an audit takes for granted: in half or float64 already, given NaN, given nothing,
with precision regions of their own, ill-conditioned."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from auditor.contract import Audit
from auditor.errors import SubjectProblem
from auditor.pipeline import audit
from auditor.subject.request import AuditRequest

HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"


def audited(tmp_path: Path, name: str, text: str) -> Audit:
    path = tmp_path / f"odd_{name}.py"
    path.write_text(HEAD + text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return audit(AuditRequest(model=str(path)), lambda *_: None)


def notes(found: Audit) -> set[str]:
    return {note.code for note in found.notes}


SQUARE = """
class Square(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
    def forward(self, x):
        h = self.layer(x) * 600
        return h * h  # up to some 1e6
model = Square(){cast}
example_inputs = (torch.randn(16, 8){cast},)
"""


@pytest.mark.parametrize("cast", ["", ".half()", ".bfloat16()"])
def test_a_model_built_in_half_is_judged_against_float32(tmp_path: Path, cast: str) -> None:
    found = audited(tmp_path, f"built{cast.strip('.()')}", SQUARE.format(cast=cast))
    assert found.modes["fp32"].verdict == "ok" and found.modes["pure_fp16"].verdict == "broken"
    assert {f.line for f in found.findings if f.severity == "high" and "fp16" in f.precisions} == {11}
    assert ("built-in-half" in notes(found)) == bool(cast)


def test_an_autocast_region_of_the_models_own_is_told_and_wants_a_loss_scale(tmp_path: Path) -> None:
    text = """
class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.float16):
            return self.layer(x)
model = Own()
example_inputs = (torch.randn(16, 8),)
"""
    found = audited(tmp_path, "own", text)
    (note,) = [n for n in found.notes if n.code == "own-fp16"]
    assert note.message.startswith(f"{tmp_path}/odd_own.py:11 ")
    assert found.plan is not None and found.plan.base == "bf16" and found.loss_scale.needed


def test_float64_is_told(tmp_path: Path) -> None:
    text = "model = nn.Linear(4, 2).double()\nexample_inputs = (torch.randn(3, 4).double(),)\n"
    assert "float64" in notes(audited(tmp_path, "double", text))


def test_a_phase_that_rounds_to_noise_is_no_property_to_excuse(tmp_path: Path) -> None:
    text = """
class Phase(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)
    def forward(self, x):
        return torch.sin(self.layer(x) * 4096)
model = Phase()
example_inputs = (torch.randn(16, 16),)
"""
    found = audited(tmp_path, "phase", text)
    assert found.modes["autocast_bf16"].verdict == "degraded"
    assert [f.line for f in found.findings if f.severity == "medium" and "autocast" in f.modes]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "nan",
            "model = nn.Linear(4, 2)\nexample_inputs = (torch.full((3, 4), float('nan')),)",
            "input 0 holds NaN",
        ),
        (
            "diverged",
            "model = nn.Linear(4, 2)\nmodel.weight.data[0, 0] = float('nan')\n"
            "example_inputs = (torch.ones(3, 4),)",
            "parameter weight holds NaN",
        ),
        ("empty", "model = nn.Linear(4, 2)\nexample_inputs = (torch.zeros(0, 4),)", "every output is empty"),
        (
            "meta",
            "model = nn.Linear(4, 2, device='meta')\nexample_inputs = (torch.ones(3, 4),)",
            "meta device",
        ),
        (
            "mute",
            "class Mute(Exception):\n    def __str__(self):\n        return 1 / 0\n"
            "def build_model():\n    raise Mute\nexample_inputs = (torch.ones(3, 4),)",
            "failed: Mute",
        ),
    ],
)
def test_what_tells_nothing_is_refused_in_one_message(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    with pytest.raises(SubjectProblem, match=complaint):
        audited(tmp_path, name, text)


def test_infinities_of_a_mask_are_no_nan(tmp_path: Path) -> None:
    text = """
class Masked(nn.Module):
    def forward(self, x, mask):
        return torch.softmax(x + mask, -1)
model = Masked()
mask = torch.zeros(4, 4)
mask[:, 2:] = float("-inf")
example_inputs = (torch.randn(4, 4), mask)
"""
    assert audited(tmp_path, "masked", text).verdict == "pass"
