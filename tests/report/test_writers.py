"""Files: their names, that they are whole, and that nobody else's is overwritten."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from auditor.contract import Audit, read_audit
from auditor.errors import UsageProblem
from auditor.report import FORMATS, check_formats, write_reports, writers


def test_each_format_has_its_file(audit: Audit, tmp_path: Path) -> None:
    paths = write_reports(audit, tmp_path / "new" / "folder", ["sarif", "markdown", "json", "html", "md"])
    assert [p.name for p in paths] == ["report.html", "audit.json", "summary.md", "ampaudit.sarif"]
    assert sorted(p.name for p in (tmp_path / "new" / "folder").iterdir()) == sorted(p.name for p in paths)
    assert read_audit((tmp_path / "new" / "folder" / "audit.json").read_text()) == audit


def test_unknown_format_names_the_near_one(audit: Audit, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown format 'htm' \(did you mean html"):
        write_reports(audit, tmp_path, ["json", "htm"])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageProblem, match="did you mean sarif"):
        check_formats(["serif"], tmp_path)


def test_a_failure_leaves_the_old_file(audit: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "summary.md"
    old.write_text("ampaudit: the old one")

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(writers.os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        write_reports(audit, tmp_path, ["md"])
    assert old.read_text() == "ampaudit: the old one"
    assert [p.name for p in tmp_path.iterdir()] == ["summary.md"]


def test_a_file_of_somebody_else_is_not_replaced(audit: Audit, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("<h1>minutes of the meeting</h1>")
    with pytest.raises(UsageProblem, match="was not written by ampaudit"):
        check_formats(["html"], tmp_path)
    write_reports(audit, tmp_path / "own", list(FORMATS))
    check_formats(list(FORMATS), tmp_path / "own")


def test_reports_need_no_torch() -> None:
    program = "import sys, auditor.report, auditor.report.terminal; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
