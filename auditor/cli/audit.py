"""`ampaudit MODEL`: the audit."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from auditor.cli.options import folder_of, listed_formats, option, output_options, subject_options
from auditor.errors import UsageProblem


@click.command("audit")
@click.argument("model")
@subject_options
@option(
    "--stress",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    metavar="FACTOR",
    help="Multiply every floating input by FACTOR, to see what gives way first.",
)
@output_options("html,json")
@option("--confidential", is_flag=True, help="Hide paths, names and source lines in what is written.")
@option("-q", "--quiet", is_flag=True, help="Print the verdict line only.")
@option("-v", "--verbose", is_flag=True, help="Print every finding and what the model printed.")
@option("--no-progress", is_flag=True, help="No progress bar.")
@option("--debug", is_flag=True, help="Show ampaudit's own traceback on errors.")
def command(
    model: str,
    formats: tuple[str, ...],
    output: str,
    time_limit: float,
    memory_limit: str,
    confidential: bool,
    quiet: bool,
    verbose: bool,
    no_progress: bool,
    debug: bool,
    **request: Any,
) -> None:
    """Audit MODEL: a Python file, path.py:name, or package.module:name.

    The file offers build_model() and example_inputs(), and optionally loss(output) or loss(output, *inputs);
    or a variable `model`; or one torch.nn.Module class that needs no arguments.
    """
    from rich.console import Console

    from auditor.cli.progress import progress_bar
    from auditor.report import check_formats, write_reports
    from auditor.report.terminal import render_terminal
    from auditor.subject.child import run_child
    from auditor.subject.limits import parse_memory
    from auditor.subject.request import AuditRequest

    if quiet and verbose:
        raise UsageProblem("--quiet and --verbose exclude each other")
    chosen, folder = listed_formats(formats, "html,json"), folder_of(output)
    check_formats(chosen, folder)
    asked = AuditRequest(
        model=model, command=("ampaudit", *(shlex.quote(a) for a in sys.argv[1:])), **request
    )
    with progress_bar(enabled=not no_progress and not quiet) as progress:
        audit, printed = run_child(
            asked, progress, time_limit=time_limit, memory_limit=parse_memory(memory_limit)
        )
    paths = write_reports(audit, folder, chosen, confidential=confidential)
    if verbose and printed.strip():
        click.echo(f"the model printed:\n{printed.rstrip()}", err=True)
    stream = sys.stderr if folder is None else sys.stdout
    console = Console(file=stream) if stream.isatty() else Console(file=stream, width=100)
    render_terminal(audit, console, paths, quiet=quiet, verbose=verbose)
    raise click.exceptions.Exit(1 if audit.verdict == "fail" else 0)
