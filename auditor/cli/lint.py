"""`ampaudit lint SCRIPT...`: faults in a training script's mixed-precision handling."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("lint")
@click.argument("scripts", nargs=-1, required=True, metavar="SCRIPT...", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "md"]),
    default="text",
    show_default=True,
    help="How the findings are printed.",
)
@click.option("--debug", is_flag=True, help="Show ampaudit's own traceback on errors.")
def command(scripts: tuple[Path, ...], form: str, debug: bool) -> None:
    """Look for faults in how training SCRIPTs handle mixed precision; they are read, never run.

    A folder stands for the Python files below it. `# ampaudit: ignore[RULE] reason` on a line, or above it,
    silences a finding there. Exit status: 1 when a finding is medium or high, 2 when a file cannot be read.
    """
    from auditor.judge.rules import load_rules
    from auditor.lint.check import check_file
    from auditor.lint.writers import WRITERS

    rules = [rule for rule in load_rules() if rule.file.phases == ("source",)]
    files = [f for s in scripts for f in (sorted(s.rglob("*.py")) if s.is_dir() else [s])]
    checked = [check_file(file, rules) for file in files]
    findings = [f for c in checked for f in c.findings]
    suppressed = [s for c in checked for s in c.suppressed]
    click.echo(WRITERS[form](findings, suppressed, [str(f) for f in files]), nl=False)
    raise click.exceptions.Exit(1 if any(f.severity in ("high", "medium") for f in findings) else 0)
