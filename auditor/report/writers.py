"""One writer a format; every one renders the same Audit and nothing else."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from auditor.contract import Audit, write_audit
from auditor.errors import UsageProblem, near_names
from auditor.report.html import render_html
from auditor.report.markdown import render_markdown
from auditor.report.sarif import render_sarif

Render = Callable[[Audit], str]
FORMATS: dict[str, tuple[str, Render]] = {
    "html": ("report.html", render_html),
    "json": ("audit.json", write_audit),
    "md": ("summary.md", render_markdown),
    "sarif": ("ampaudit.sarif", render_sarif),
}
# Every file of ours says so near its start, so that nobody else's is overwritten.
_MARK = "ampaudit"


def check_formats(names: Sequence[str], directory: Path) -> None:
    """Before hours are spent: raise UsageProblem on an unknown format or a file that is not ours to replace."""
    for name in names:
        if name not in FORMATS:
            raise UsageProblem(
                f"unknown format {name!r}{near_names(name, FORMATS)}", where="--format", next_step=f"one of {', '.join(FORMATS)}"
            )
    if directory.exists() and not directory.is_dir():
        raise UsageProblem("is a file, not a folder", where=f"--output {directory}")
    for name in names:
        path = directory / FORMATS[name][0]
        if path.exists() and _MARK not in path.read_text(encoding="utf-8", errors="replace")[:2000].lower():
            raise UsageProblem(f"{path} was not written by ampaudit", where="--output", next_step="choose another folder")


def write_reports(audit: Audit, directory: Path, names: Sequence[str]) -> list[Path]:
    """Write each format into `directory`, whole or not at all; returns the paths, HTML first."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in sorted(set(names), key=list(FORMATS).index):
        file, render = FORMATS[name]
        path = directory / file
        _write_whole(path, render(audit))
        paths.append(path)
    return paths


def _write_whole(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8", prefix=f".{path.name}.") as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
