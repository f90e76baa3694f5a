"""The gate as a pipeline runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from junitparser import JUnitXml

AMPAUDIT = str(Path(sys.executable).parent / "ampaudit")
NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        q = self.layer(x) * 300
        return (q @ q.T).softmax(-1)

def build_model():
    return Net()

def example_inputs():
    return (torch.ones(8, 64) * torch.arange(1, 9)[:, None],)
"""
CONFIG = """
[tool.ampaudit]
target = "V100-SXM2-32GB"
[tool.ampaudit.models.net]
model = "net.py"
[tool.ampaudit.models.fine]
model = "fine.py"
"""


def ampaudit(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"OMP_NUM_THREADS": "1", "AMPAUDIT_CACHE": str(folder / "cache"), **environment}
    return subprocess.run(
        [AMPAUDIT, *arguments], capture_output=True, text=True, cwd=folder, env={**os.environ, **variables}
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "net.py").write_text(NET)
    (folder / "fine.py").write_text(NET.replace("* 300", "").replace("(q @ q.T).softmax(-1)", "q"))
    (folder / "pyproject.toml").write_text(CONFIG)
    return folder


def test_every_model_of_the_configuration_then_from_the_cache(project: Path) -> None:
    first = ampaudit(project, "gate", "--format", "json,sarif,junit")
    assert first.returncode == 1, first.stderr
    assert "net fails the gate" in first.stdout and "fine passes the gate" in first.stdout
    assert "expected == 0, is 1" in first.stdout and "net.py:12" in first.stdout
    folders = {p.name for p in (project / "ampaudit-report").iterdir()}
    assert folders == {"net", "fine"}
    suites = JUnitXml.fromfile(str(project / "ampaudit-report/net/ampaudit-junit.xml"))
    assert suites.failures == 1
    assert json.loads((project / "ampaudit-report/net/audit.json").read_text())["gate"]["outcome"] == "fail"
    second = ampaudit(project, "gate")
    assert second.returncode == 1 and second.stdout.count("from the cache") == 2


def test_a_changed_source_is_audited_anew(project: Path) -> None:
    ampaudit(project, "gate", "fine")
    source = project / "fine.py"
    source.write_text(source.read_text() + "\n")
    assert "from the cache" not in ampaudit(project, "gate", "fine").stdout


def test_the_baseline_lets_the_known_pass(project: Path) -> None:
    report = project / "base"
    assert ampaudit(project, "gate", "net", "--format", "json", "--output", str(report)).returncode == 1
    known = ampaudit(project, "gate", "net.py", "--baseline", str(report / "audit.json"), "-v")
    assert known.returncode == 0 and "known from the baseline" in known.stdout, known.stdout
    diff = ampaudit(project, "diff", str(report / "audit.json"), str(report / "audit.json"))
    assert diff.returncode == 0 and "nothing has changed" in diff.stdout


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("[product-overflow] until 2999-01-01: we scale elsewhere", "1 finding suppressed"),
        ("[product-overflow] until 2020-01-01: we scale elsewhere", "it expired on 2020-01-01"),
        ("[AMP999] nothing such", "net.py:12 [AMP999]: nothing of that kind"),
    ],
)
def test_suppressions_in_the_source(tmp_path: Path, comment: str, said: str) -> None:
    (tmp_path / "net.py").write_text(NET.replace("softmax(-1)", f"softmax(-1)  # ampaudit: ignore{comment}"))
    done = ampaudit(tmp_path, "gate", "net.py", "--target", "V100-SXM2-32GB")
    assert said in done.stdout and done.returncode == (0 if "2999" in comment else 1)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["gate", "nets"], "neither a section of the configuration nor a model (did you mean net"),
        (["gate", "net", "--baseline", "missing.json"], "No such file"),
        (["gate", "net", "--format", "xml"], "unknown format"),
        (["gate", "--format", "sarif", "--output", "-"], "name one model"),
        (["gate", "--config", "nowhere.toml"], "cannot be read"),
        (["diff", "net.py", "net.py"], "is no audit.json"),
        (["explain", "AMP1010"], "no rule 'AMP1010' (did you mean AMP101"),
        (["config", "show", "nett"], "no section 'nett' (did you mean net"),
    ],
)
def test_wrong_use(project: Path, arguments: list[str], complaint: str) -> None:
    done = ampaudit(project, *arguments)
    assert done.returncode == 2 and complaint in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_cannot_run_does_not_hide_the_others(project: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('no')\n")
    (tmp_path / "fine.py").write_text((project / "fine.py").read_text())
    (tmp_path / "ampaudit.toml").write_text(
        '[models.a]\nmodel = "broken.py"\n[models.b]\nmodel = "fine.py"\n'
    )
    done = ampaudit(tmp_path, "gate")
    assert done.returncode == 3 and "ValueError: no" in done.stderr and "b passes the gate" in done.stdout


def test_standard_output_takes_one_report(project: Path) -> None:
    done = ampaudit(project, "gate", "net", "--format", "sarif", "--output", "-")
    [run] = json.loads(done.stdout)["runs"]
    assert done.returncode == 1 and "fails the gate" in done.stderr
    assert run["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 12


def test_config_show_says_where_from(project: Path) -> None:
    shown = ampaudit(project, "config", "show", "net").stdout
    assert 'target = "V100-SXM2-32GB"  (pyproject.toml: [tool.ampaudit])' in shown
    entries = json.loads(ampaudit(project, "config", "show", "--all", "--format", "json").stdout)
    assert entries["models"]["net"]["seed"] == {"value": 0, "from": "default"}


def test_small_commands(project: Path) -> None:
    explained = ampaudit(project, "explain", "product-overflow").stdout
    assert explained.startswith("AMP101 product-overflow") and "Why it matters" in explained
    doctor = ampaudit(project, "doctor")
    assert doctor.returncode == 0 and "target without --target" in doctor.stdout
    assert "_AMPAUDIT_COMPLETE" in ampaudit(project, "completion", "bash").stdout
    completed = ampaudit(
        project, _AMPAUDIT_COMPLETE="bash_complete", COMP_WORDS="ampaudit ga", COMP_CWORD="1"
    ).stdout
    assert "gate" in completed
