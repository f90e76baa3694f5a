"""`ampaudit gate`: exit status by policy."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from auditor.cli.options import (
    given_settings,
    listed_formats,
    option,
    output_options,
    subject_options,
)
from auditor.errors import AuditError, UsageProblem, near_names


@click.command("gate")
@click.argument("models", nargs=-1)
@option(
    "--fail-on",
    type=click.Choice(["high", "medium", "low", "never"]),
    default="high",
    show_default=True,
    help="The least severity that fails the gate.",
)
@option("--baseline", metavar="FILE", help="An earlier audit.json: only what is new or worse fails.")
@option("--config", metavar="FILE", help="A configuration other than the nearest one.")
@click.option("--no-cache", is_flag=True, help="Run the model even where nothing has changed.")
@subject_options
@output_options("")
@option("--confidential", is_flag=True, help="Hide paths, names and source lines in what is written.")
@option("-q", "--quiet", is_flag=True, help="Print one line a model.")
@option("-v", "--verbose", is_flag=True, help="Print every check, passed ones too.")
@option("--no-progress", is_flag=True, help="No progress bar.")
@option("--debug", is_flag=True, help="Show ampaudit's own traceback on errors.")
@click.pass_context
def command(
    context: click.Context,
    /,
    models: tuple[str, ...],
    config: str | None,
    no_cache: bool,
    formats: tuple[str, ...],
    output: str,
    confidential: bool,
    quiet: bool,
    verbose: bool,
    no_progress: bool,
    debug: bool,
    **values: Any,
) -> None:
    """Audit MODELS and end with a status a pipeline can act on.

    A model is a file (path.py, path.py:name, package.module:name) or the name of a section
    [tool.ampaudit.models.NAME] in pyproject.toml (or [models.NAME] in ampaudit.toml); without one, every
    section is audited. A model nothing has changed of since the last run is judged from a cache.

    \b
    ampaudit gate                              every model of the configuration
    ampaudit gate train.py --fail-on medium    one file, stricter
    ampaudit gate bert --baseline audit.json   fail only on what is new or worse
    ampaudit gate train.py && torchrun train.py

    Exit status: 0 every model passes, 1 one fails or could not be established, 2 wrong use or configuration,
    3 a model could not be loaded or run, 4 an internal error.
    """
    from rich.console import Console

    from auditor.cli.progress import progress_bar
    from auditor.contract import Audit
    from auditor.gate.config import find_document, read_document, settings_of
    from auditor.gate.run import gated
    from auditor.report import check_formats, write_reports
    from auditor.report.gate import render_gate

    if quiet and verbose:
        raise UsageProblem("--quiet and --verbose exclude each other")
    document = read_document(Path(config)) if config else find_document(Path.cwd())
    given = given_settings(context, values)
    chosen = listed_formats(formats, "")
    wanted = [_section(name, document.models) for name in models] or list(document.models)
    if not wanted:
        raise UsageProblem(
            "no model is named, and no configuration names one",
            next_step="ampaudit gate path/to/model.py, or a section [tool.ampaudit.models.NAME]",
        )
    runs = [
        settings_of(document, name, given if name in document.models else {"model": (name, "MODEL"), **given})
        for name in wanted
    ]
    folders = [_folder(output, settings.name, len(runs)) for settings in runs]
    for folder in folders:
        check_formats(chosen, folder)
    if output == "-" and len(runs) > 1:
        raise UsageProblem("- takes the report of one model", where="--output", next_step="name one model")
    console = Console(stderr=output == "-", soft_wrap=False)
    typed = ("ampaudit", *(shlex.quote(a) for a in sys.argv[1:]))
    status = 0
    for settings, folder in zip(runs, folders, strict=True):
        try:
            with progress_bar(enabled=not no_progress and not quiet) as progress:
                audit: Audit = gated(settings, typed, progress, cached=not no_cache)
        except AuditError as error:
            if len(runs) == 1 or error.exit_status != 3:
                raise
            click.echo(f"ampaudit: {error}", err=True)  # the other models are still worth knowing of
            status = 3
            continue
        assert audit.gate is not None
        render_gate(audit, audit.gate, console, quiet=quiet, verbose=verbose)
        for path in write_reports(audit, folder, chosen, confidential=confidential):
            console.print(f"  report: {path}", soft_wrap=True, markup=False, highlight=False)
        status = max(status, int(audit.gate.outcome != "pass"))
    raise click.exceptions.Exit(status)


def _section(name: str, sections: Any) -> str:
    """A section's name, or a model as it was typed. A section whose model is that file is meant by it."""
    if name in sections or ":" in name or name.endswith(".py"):
        same = [s for s, table in sections.items() if name == table.get("model")]
        return same[0] if len(same) == 1 and name not in sections else name
    raise UsageProblem(
        f"{name!r} is neither a section of the configuration nor a model{near_names(name, sections)}",
        where="MODELS",
        next_step="path.py, package.module:name, or a name under [tool.ampaudit.models]",
    )


def _folder(output: str, name: str, models: int) -> Path | None:
    """One folder a model where there are several; a path's separators do not make folders of their own."""
    if output == "-":
        return None
    return Path(output) if models == 1 else Path(output) / name.replace("/", "-").replace(":", "-")
