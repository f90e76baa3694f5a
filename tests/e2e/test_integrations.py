"""What runs the gate elsewhere: each as far as it goes without the service it is for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="needs PyYAML")

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
NET = """
import torch
from torch import nn

def build_model():
    return nn.Linear(16, 16)

def example_inputs():
    return (torch.ones(4, 16),)
"""
BAD = NET.replace("nn.Linear(16, 16)", "Net()").replace(
    "def build_model",
    "class Net(nn.Module):\n    def forward(self, x):\n        return (x * 6e4) @ x.T\n\ndef build_model",
)


def environment(folder: Path, **more: str) -> dict[str, str]:
    path = f"{folder / 'bin'}:{BIN}:{os.environ['PATH']}"
    variables = {"PATH": path, "OMP_NUM_THREADS": "1", "AMPAUDIT_CACHE": str(folder / "cache"), **more}
    return {**os.environ, **variables}


@pytest.mark.parametrize(("source", "status"), [(NET, 0), (BAD, 1)])
def test_the_actions_gate_step(tmp_path: Path, source: str, status: int) -> None:
    """The step's own script under the shell GitHub uses."""
    (tmp_path / "net.py").write_text(source)
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    [step] = [s for s in action["runs"]["steps"] if s.get("id") == "gate"]
    given = {"models": "net.py", "arguments": "--target V100-SXM2-32GB"}
    values = {f"inputs.{k}": given.get(k, v["default"]) for k, v in action["inputs"].items()}
    values["inputs.python"] = sys.executable
    variables = {k: values[v.strip("${} ")] for k, v in step["env"].items()}
    files = {"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=tmp_path, capture_output=True, text=True, env=environment(tmp_path, **variables, **files),
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    assert (tmp_path / "output").read_text() == f"status={status}\n"
    assert (tmp_path / "summary").read_text().startswith("### ampaudit: net.py")
    assert (tmp_path / "ampaudit-report/ampaudit.sarif").exists()


@pytest.mark.parametrize(("source", "trained"), [(NET, True), (BAD, False)])
def test_the_slurm_script_trains_only_what_passes(tmp_path: Path, source: str, trained: bool) -> None:
    (tmp_path / "train.py").write_text(source)
    (tmp_path / "bin").mkdir()
    torchrun = tmp_path / "bin/torchrun"
    torchrun.write_text('#!/bin/sh\necho "$@" > trained\n')
    torchrun.chmod(0o755)
    done = subprocess.run(
        ["bash", str(ROOT / "examples/ci/preflight.sbatch"), "--epochs", "3"],
        cwd=tmp_path, capture_output=True, text=True, env=environment(tmp_path, TARGET="V100-SXM2-32GB"),
    )  # fmt: skip
    assert (tmp_path / "trained").exists() == trained and (done.returncode == 0) == trained, done.stderr
    if trained:
        assert (tmp_path / "trained").read_text() == "--nproc-per-node 1 train.py --epochs 3\n"


def test_the_pre_commit_hook(tmp_path: Path) -> None:
    """By pre-commit itself; the hook's own entry, run from the environment that is here."""
    if shutil.which("pre-commit", path=str(BIN)) is None:
        pytest.skip("needs pre-commit")
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (tmp_path / "net.py").write_text(BAD)
    (tmp_path / "ampaudit.toml").write_text('target = "V100-SXM2-32GB"\n[models.net]\nmodel = "net.py"\n')
    local = {**hook, "language": "system"}
    (tmp_path / ".pre-commit-config.yaml").write_text(
        yaml.safe_dump({"repos": [{"repo": "local", "hooks": [local]}]})
    )

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True,
            env=environment(tmp_path, PRE_COMMIT_HOME=str(tmp_path / "home")),
        )  # fmt: skip

    for command in (("git", "init", "-q"), ("git", "add", ".")):
        assert run(*command).returncode == 0
    refused = run(str(BIN / "pre-commit"), "run", "--all-files")
    assert refused.returncode == 1 and "net fails the gate" in refused.stdout, refused.stdout + refused.stderr
    (tmp_path / "net.py").write_text(NET)
    passed = run(str(BIN / "pre-commit"), "run", "--all-files")
    assert passed.returncode == 0 and "Passed" in passed.stdout, passed.stdout


def test_the_gitlab_job_names_what_the_gate_writes() -> None:
    job = yaml.safe_load((ROOT / "examples/ci/gitlab-ci.yml").read_text())["ampaudit"]
    assert job["script"] == ["ampaudit gate --format html,json,md,junit --no-progress"]
    assert job["artifacts"]["reports"]["junit"].endswith("ampaudit-junit.xml")
