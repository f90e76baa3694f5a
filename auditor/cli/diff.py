"""`ampaudit diff OLD NEW`: what changed."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("diff")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "md", "json"]),
    default="text",
    show_default=True,
    help="What is printed.",
)
def command(old: Path, new: Path, format_: str) -> None:
    """Say what changed between two audits: findings, modes, layers, ranges and the loss scale.

    OLD and NEW are audit.json files. Ends with status 0 whatever has changed; `ampaudit gate --baseline` is
    what fails on it.
    """
    from auditor.gate.baseline import read_audit_file
    from auditor.gate.diff import difference
    from auditor.report.diff import FORMATS

    changed = difference(read_audit_file(old, "OLD"), read_audit_file(new, "NEW"))
    click.echo(FORMATS[format_](changed), nl=False)
