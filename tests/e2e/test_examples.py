"""Every example through the installed command, and what its audit must say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from auditor.contract import Audit, read_audit

ROOT = Path(__file__).parents[2]
AMPAUDIT = str(Path(sys.executable).parent / "ampaudit")


def audit(example: str, folder: Path, *options: str) -> tuple[int, Audit, str]:
    done = subprocess.run(
        [AMPAUDIT, f"examples/{example}.py", "--output", str(folder), *options],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode in (0, 1), done.stderr
    assert (folder / "report.html").stat().st_size > 50_000
    return done.returncode, read_audit((folder / "audit.json").read_text()), done.stdout


HEALTHY = [
    pytest.param("bert_classifier", "model_output"),
    pytest.param("gpt_tied", "user"),
    pytest.param("unet_diffusion", "user"),
    pytest.param("resnet50", "user", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("example", "loss_kind"), HEALTHY)
def test_healthy_examples_pass_silently_under_autocast(example: str, loss_kind: str, tmp_path: Path) -> None:
    status, result, printed = audit(example, tmp_path, "--target", "A100-SXM4-80GB")
    assert status == 0 and result.verdict == "pass"
    serious = [f for f in result.findings if f.severity in ("high", "medium") and "autocast" in f.modes]
    assert serious == []
    assert result.subject.loss_kind == loss_kind and result.subject.paired_backward > 0.95
    assert result.modes["autocast_bf16"].verdict == result.modes["autocast_fp16"].verdict == "ok"
    assert result.plan is not None and result.plan.base == "bf16" and result.plan.regions == ()
    assert result.verification.executed and result.verification.holds
    assert not result.loss_scale.needed and len(result.loss_scale.curve) == 33
    assert "bf16" in {layer.precision for layer in result.layers} <= {"bf16", "fp32"}
    assert "holds" in printed or "hold" in printed


def test_layer_norm_and_softmax_are_explained(tmp_path: Path) -> None:
    _, result, _ = audit("bert_classifier", tmp_path, "--target", "A100-SXM4-80GB")
    norms = [layer for layer in result.layers if layer.type == "LayerNorm"]
    assert norms and all(layer.precision == "fp32" and "FP32" in layer.why for layer in norms)
    assert all("relative error" in layer.why for layer in norms)
    assert all(layer.candidates["bf16"].safe for layer in norms)


def test_the_faulty_example_fails_on_its_line(tmp_path: Path) -> None:
    status, result, printed = audit("faulty", tmp_path, "--target", "A100-SXM4-80GB")
    source = (ROOT / "examples/faulty.py").read_text().splitlines()
    culprit = next(i for i, line in enumerate(source, 1) if "scores = q @ k" in line)
    assert status == 1 and result.verdict == "fail"
    [finding] = [f for f in result.findings if f.severity == "high"]
    assert (finding.line, finding.rule, finding.module) == (culprit, "AMP101", "attention")
    assert finding.precisions == ("fp16",) and set(finding.modes) == {"autocast", "pure"}
    assert finding.evidence.values["absmax"] > 65504 and finding.evidence.values["confirmed"] is True
    assert f"examples/faulty.py:{culprit}" in printed
    assert result.plan is not None and result.plan.base == "bf16"


def test_on_volta_the_plan_keeps_the_faulty_module_in_fp32(tmp_path: Path) -> None:
    _, result, _ = audit("faulty", tmp_path, "--target", "V100-SXM2-32GB")
    assert result.plan is not None and result.plan.base == "fp16"
    assert [r.module for r in result.plan.regions if r.precision == "fp32"] == ["attention"]
    assert result.verification.holds and result.modes["plan"].verdict == "ok"
    assert result.loss_scale.needed and result.loss_scale.log2 is not None
    low, high = result.loss_scale.safe_log2_range or (0, 0)
    assert low <= result.loss_scale.log2 <= high
    assert f"init_scale=2.0**{result.loss_scale.log2}" in result.plan.snippet
    order = [
        result.plan.snippet.index(word) for word in ("unscale_", "clip_grad", "scaler.step", "scaler.update")
    ]
    assert order == sorted(order)


def test_on_pascal_nothing_is_gained_by_16_bit(tmp_path: Path) -> None:
    _, result, _ = audit("gpt_tied", tmp_path, "--target", "GTX 1080 Ti")
    assert result.plan is not None and result.plan.base == "fp32"
    assert {layer.precision for layer in result.layers} == {"fp32"}
    assert result.target.tensor_cores == ()


def test_the_same_seed_gives_the_same_audit(tmp_path: Path) -> None:
    first, second = (
        audit("faulty", tmp_path / name, "--target", "V100-SXM2-32GB")[1].model_dump(mode="json")
        for name in ("a", "b")
    )
    for result in (first, second):
        result.pop("created")
        result.pop("environment")
    assert json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


def test_without_inputs_the_audit_is_static_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.layer = nn.Linear(4, 4)\n\n    def forward(self, x):\n"
        "        y = self.layer(x)\n        return y / (y.norm() + 1e-8)\n"
    )
    done = subprocess.run([AMPAUDIT, "net.py"], capture_output=True, text=True, cwd=tmp_path, check=True)
    result = read_audit((tmp_path / "ampaudit-report/audit.json").read_text())
    assert result.verdict == "warn" and result.subject.capture == "symbolic"
    assert "Inconclusive" in done.stdout and result.notes[0].code == "static-only"
    assert [(f.line, f.evidence.kind, f.severity) for f in result.findings] == [(12, "static", "low")]


def test_a_comment_with_a_reason_suppresses(tmp_path: Path) -> None:
    source = (ROOT / "examples/faulty.py").read_text()
    marked = source.replace(
        "        scores = q @ k",
        "        # ampaudit: ignore[AMP101] we train in BF16\n        scores = q @ k",
    )
    (tmp_path / "marked.py").write_text(marked)
    done = subprocess.run([AMPAUDIT, "marked.py"], capture_output=True, text=True, cwd=tmp_path)
    result = read_audit((tmp_path / "ampaudit-report/audit.json").read_text())
    assert done.returncode == 0
    assert [s.reason for s in result.suppressed] == ["we train in BF16"]
    assert not [f for f in result.findings if f.severity == "high"]
