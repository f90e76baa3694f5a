"""One writer a format; every one renders the same Audit and nothing else."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditor.contract import Audit, write_audit
from auditor.errors import UsageProblem, near_names
from auditor.report.html import render_html
from auditor.report.markdown import render_markdown
from auditor.report.sarif import render_sarif


@dataclass(frozen=True)
class Writer:
    """The file a format is written to, and its text."""

    file: str
    render: Callable[[Audit], str]


FORMATS: dict[str, Writer] = {
    "html": Writer("report.html", render_html),
    "json": Writer("audit.json", write_audit),
    "md": Writer("summary.md", render_markdown),
    "sarif": Writer("ampaudit.sarif", render_sarif),
}
_ALSO_CALLED = {"markdown": "md"}
# Every file of ours says so near its start, so that nobody else's is overwritten.
_MARK = "ampaudit"


def _known(name: str) -> str:
    """The key in FORMATS. Raises ValueError with near names."""
    key = _ALSO_CALLED.get(name, name)
    if key not in FORMATS:
        raise ValueError(f"unknown format {name!r}{near_names(name, [*FORMATS, *_ALSO_CALLED])}")
    return key


def check_formats(names: Sequence[str], directory: Path) -> None:
    """Before hours are spent: raise UsageProblem on an unknown format or a file not ours to replace."""
    try:
        keys = [_known(name) for name in names]
    except ValueError as error:
        raise UsageProblem(str(error), where="--format", next_step=f"one of {', '.join(FORMATS)}") from None
    if directory.exists() and not directory.is_dir():
        raise UsageProblem("is a file, not a folder", where=f"--output {directory}")
    for key in keys:
        path = directory / FORMATS[key].file
        if path.exists() and _MARK not in path.read_text(encoding="utf-8", errors="replace")[:2000].lower():
            raise UsageProblem(
                f"{path} was not written by ampaudit", where="--output", next_step="choose another folder"
            )


def write_reports(audit: Audit, directory: Path, formats: Sequence[str]) -> list[Path]:
    """Write each format into `directory`, whole or not at all; returns the paths in FORMATS' order.
    Raises ValueError on an unknown format, before anything is written."""
    keys = {_known(name) for name in formats}
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for key in (k for k in FORMATS if k in keys):
        path = directory / FORMATS[key].file
        _write_whole(path, FORMATS[key].render(audit))
        paths.append(path)
    return paths


def _write_whole(path: Path, text: str) -> None:
    """A reader sees the old file or the new one, never a part; a failure leaves nothing behind."""
    part = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed before it is moved into place
        "w", dir=path.parent, delete=False, encoding="utf-8", prefix=f".{path.name}."
    )
    try:
        with part:
            part.write(text)
        os.chmod(part.name, 0o644)
        os.replace(part.name, path)
    except BaseException:
        os.unlink(part.name)
        raise
