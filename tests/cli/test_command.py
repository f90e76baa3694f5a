"""The command as a user types it: statuses, streams, and what must stay instant."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

AMPAUDIT = str(Path(sys.executable).parent / "ampaudit")
NET = """
import os, sys, torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        {body}
        return self.layer(x)
def build_model(): return Net()
def example_inputs(): return (torch.ones(2, 4),)
"""


def ampaudit(
    *arguments: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [AMPAUDIT, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


def model(folder: Path, body: str = "pass") -> str:
    (folder / "net.py").write_text(NET.format(body=body))
    return "net.py"


def test_help_needs_neither_torch_nor_pydantic() -> None:
    code = (
        "import sys\nfrom auditor.cli.main import run\n"
        "try: run(['--help'])\nexcept SystemExit as e: assert e.code == 0\n"
        "print([m for m in ('torch', 'pydantic', 'numpy', 'jinja2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n") and "ampaudit model.py" in done.stdout


def test_small_commands() -> None:
    assert "A100-SXM4-80GB" in ampaudit("devices").stdout
    assert "AMP101" in ampaudit("rules").stdout
    assert json.loads(ampaudit("schema").stdout)["title"] == "Audit"
    assert ampaudit("--version").stdout.startswith("ampaudit, version")
    assert ampaudit().returncode == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["missing.py"], "no such file"),
        (["net.py", "--input", "2x"], "expected"),
        (["net.py", "--target", "A1000000"], "no device"),
        (["net.py", "--format", "pdf"], "unknown format"),
        (["net.py", "--no-such-option"], "No such option"),
        (["net.py", "--quiet", "--verbose"], "exclude each other"),
        (["net.py", "--memory-limit", "plenty"], "amount of memory"),
    ],
)
def test_wrong_use_ends_in_one_message_and_status_2(
    tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    model(tmp_path)
    done = ampaudit(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and complaint in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "ampaudit-report").exists()


def test_an_audit_from_file_to_report(tmp_path: Path) -> None:
    done = ampaudit(
        model(tmp_path, "print('noise on stdout')"), "--format", "html,json,md,sarif", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "noise" not in done.stdout and "\x1b[" not in done.stdout and done.stderr == ""
    folder = tmp_path / "ampaudit-report"
    names = {"report.html", "audit.json", "summary.md", "ampaudit.sarif"}
    assert {p.name for p in folder.iterdir()} == names
    audit = json.loads((folder / "audit.json").read_text())
    assert audit["verdict"] == "pass" and audit["subject"]["loss_kind"] == "surrogate"
    assert audit["loss_scale"]["confidence"] == "low"


@pytest.mark.parametrize(
    ("body", "arguments", "complaint"),
    [
        ("os.kill(os.getpid(), 11)", [], "crashed (SIGSEGV)"),
        ("os._exit(7)", [], "exited by itself with status 7"),
        ("sys.exit(1)", [], "sys.exit"),
        ("print('still here', flush=True)\n        while True: pass", ["--time-limit", "15"], "still here"),
        ("torch.ones(1 << 33)", ["--memory-limit", "4GB"], "more memory than the limit"),
        ("return self.layer(torch.ones(2, 5))", [], "(2, 4) float32"),
    ],
    ids=["segfault", "exit", "sys.exit", "hang", "memory", "shapes"],
)
def test_bad_models_end_in_one_message_and_status_3(
    tmp_path: Path, body: str, arguments: list[str], complaint: str
) -> None:
    done = ampaudit(model(tmp_path, body), *arguments, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert complaint in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "ampaudit-report").exists()


def test_nothing_of_anybody_elses_is_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "report.html").write_text("my own page")
    done = ampaudit(model(tmp_path), "--output", "mine", cwd=tmp_path)
    assert done.returncode == 2 and (folder / "report.html").read_text() == "my own page"


def test_interrupting_kills_the_child_and_writes_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "started"
    body = f"open({str(marker)!r}, 'w').write(str(os.getpid()))\n        while True: pass"
    process = subprocess.Popen(
        [AMPAUDIT, model(tmp_path, body)], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    while not (marker.exists() and marker.read_text()) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130 and "interrupted" in err and "Traceback" not in err
    with pytest.raises(ProcessLookupError):
        os.kill(int(marker.read_text()), 0)
    assert not (tmp_path / "ampaudit-report").exists()


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    command = f"{AMPAUDIT} rules | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""


def test_options_have_environment_twins(tmp_path: Path) -> None:
    done = ampaudit(model(tmp_path), cwd=tmp_path, AMPAUDIT_FORMAT="pdf")
    assert done.returncode == 2 and "unknown format" in done.stderr
