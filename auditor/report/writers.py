"""One writer a format; every one renders the same Audit and nothing else."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditor.contract import Audit, write_audit
from auditor.errors import UsageProblem, near_names
from auditor.report.confidential import without_names
from auditor.report.html import render_html
from auditor.report.junit import render_junit
from auditor.report.markdown import render_markdown
from auditor.report.plan import render_plan
from auditor.report.sarif import render_sarif
from auditor.report.table import CSV_HEAD, render_csv, render_parquet, require_pyarrow


@dataclass(frozen=True)
class Writer:
    """The file a format is written to, and its content; text is UTF-8."""

    file: str
    render: Callable[[Audit], str | bytes]


FORMATS: dict[str, Writer] = {
    "html": Writer("report.html", render_html),
    "json": Writer("audit.json", write_audit),
    "plan": Writer("plan.json", render_plan),
    "md": Writer("summary.md", render_markdown),
    "sarif": Writer("ampaudit.sarif", render_sarif),
    "junit": Writer("ampaudit-junit.xml", render_junit),
    "csv": Writer("ampaudit-ops.csv", render_csv),
    "parquet": Writer("ampaudit-ops.parquet", render_parquet),
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


def check_formats(names: Sequence[str], directory: Path | None) -> None:
    """Before hours are spent: raise UsageProblem on an unknown format, a library that is missing, or a
    file not ours to replace. Without a directory, the one format goes to standard output."""
    try:
        keys = [_known(name) for name in names]
    except ValueError as error:
        raise UsageProblem(str(error), where="--format", next_step=f"one of {', '.join(FORMATS)}") from None
    if "parquet" in keys:
        require_pyarrow()
    if directory is None:
        if len(set(keys)) != 1:
            raise UsageProblem(
                "- takes one format", where="--output", next_step="such as --format sarif --output -"
            )
        return
    if directory.exists() and not directory.is_dir():
        raise UsageProblem("is a file, not a folder", where=f"--output {directory}")
    for key in keys:
        path = directory / FORMATS[key].file
        if path.exists() and not _ours(path):
            raise UsageProblem(
                f"{path} was not written by ampaudit", where="--output", next_step="choose another folder"
            )


def _ours(path: Path) -> bool:
    """Whether it says so near its start, or, as tables do, by the columns they begin or end with."""
    with path.open("rb") as file:
        start = file.read(2000)
        file.seek(max(path.stat().st_size - 20_000, 0))
        end = file.read()
    return (
        _MARK in start.decode("utf-8", "replace").lower()
        or start.startswith(CSV_HEAD.encode())
        or (start.startswith(b"PAR1") and _MARK.encode() in end)
    )


def write_reports(
    audit: Audit, directory: Path | None, formats: Sequence[str], *, confidential: bool = False
) -> list[Path]:
    """Write each format into `directory`, whole or not at all; returns the paths in FORMATS' order. Without a
    directory, print it. Raises ValueError on an unknown format, before anything is written."""
    keys = {_known(name) for name in formats}
    if confidential:
        audit = without_names(audit)
    rendered = [(FORMATS[key], FORMATS[key].render(audit)) for key in FORMATS if key in keys]
    if directory is None:
        for _, content in rendered:
            sys.stdout.buffer.write(content.encode() if isinstance(content, str) else content)
        sys.stdout.buffer.flush()
        return []
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for writer, content in rendered:
        _write_whole(directory / writer.file, content)
        paths.append(directory / writer.file)
    return paths


def _write_whole(path: Path, content: str | bytes) -> None:
    """A reader sees the old file or the new one, never a part; a failure leaves nothing behind."""
    part = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed before it is moved into place
        "wb", dir=path.parent, delete=False, prefix=f".{path.name}."
    )
    try:
        with part:
            part.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.chmod(part.name, 0o644)
        os.replace(part.name, path)
    except BaseException:
        os.unlink(part.name)
        raise
