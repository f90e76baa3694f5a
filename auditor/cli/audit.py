"""`ampaudit MODEL`: the audit."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from auditor.errors import UsageProblem

F = TypeVar("F", bound=Callable[..., Any])


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """An option with its environment twin: --time-limit reads AMPAUDIT_TIME_LIMIT."""
    flag = next(n for n in names if n.startswith("--")).split("/")[0]
    return click.option(*names, envvar="AMPAUDIT_" + flag[2:].replace("-", "_").upper(), **settings)


@click.command("audit")
@click.argument("model")
@option(
    "--input",
    "inputs",
    multiple=True,
    metavar="SPEC",
    help='An input, such as "2x3x224x224:float32" or "ids=4x128:int64[0,30522]"; repeatable.',
)
@option(
    "--batch",
    "batches",
    multiple=True,
    metavar="FILE",
    help="Inputs from a .pt, .npz or .safetensors file; repeatable.",
)
@option(
    "--stress",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    metavar="FACTOR",
    help="Multiply every floating input by FACTOR, to see what gives way first.",
)
@option("--checkpoint", metavar="FILE", help="State dict to load: .pt or .safetensors.")
@option(
    "--target",
    metavar="NAME",
    help='A GPU of the catalogue ("A100-SXM4-80GB"), "cuda" for the live one, or "cpu".',
)
@option(
    "--mode",
    type=click.Choice(["autocast", "pure"]),
    default="autocast",
    show_default=True,
    help="What the verdict speaks of: torch.autocast, or the whole model cast.",
)
@option(
    "--train/--eval",
    "training",
    default=None,
    help="Put the model in train or eval mode [default: as the file leaves it].",
)
@option(
    "--optimizer",
    type=click.Choice(["adamw", "adam", "sgd", "sgd-momentum", "adafactor"]),
    default="adamw",
    show_default=True,
    help="For the memory estimate.",
)
@option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("ampaudit-report"),
    show_default=True,
    metavar="DIR",
    help="Where the reports go.",
)
@option(
    "--format",
    "formats",
    multiple=True,
    metavar="NAMES",
    help="html, json, md, sarif; comma separated or repeated [default: html,json].",
)
@option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="For inputs, dropout and the model's own construction.",
)
@option(
    "--time-limit",
    type=click.FloatRange(min=1),
    default=900.0,
    show_default=True,
    metavar="SECONDS",
    help="For loading and running the model.",
)
@option(
    "--memory-limit",
    default="85%",
    show_default=True,
    metavar="SIZE",
    help='For the model\'s process: "8GB", or a share of RAM.',
)
@option("-q", "--quiet", is_flag=True, help="Print the verdict line only.")
@option("-v", "--verbose", is_flag=True, help="Print every finding and what the model printed.")
@option("--no-progress", is_flag=True, help="No progress bar.")
@option("--debug", is_flag=True, help="Show ampaudit's own traceback on errors.")
def command(
    model: str,
    formats: tuple[str, ...],
    output: Path,
    time_limit: float,
    memory_limit: str,
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
    from auditor.cli.progress import progress_bar
    from auditor.report import check_formats, write_reports
    from auditor.report.terminal import render_terminal
    from auditor.subject.child import run_child
    from auditor.subject.limits import parse_memory
    from auditor.subject.request import AuditRequest

    if quiet and verbose:
        raise UsageProblem("--quiet and --verbose exclude each other")
    chosen = [name.strip() for part in formats or ("html,json",) for name in part.split(",") if name.strip()]
    check_formats(chosen, output)
    asked = AuditRequest(
        model=model, command=("ampaudit", *(shlex.quote(a) for a in sys.argv[1:])), **request
    )
    with progress_bar(enabled=not no_progress and not quiet) as progress:
        audit, printed = run_child(
            asked, progress, time_limit=time_limit, memory_limit=parse_memory(memory_limit)
        )
    paths = write_reports(audit, output, chosen)
    console = Console(soft_wrap=False) if sys.stdout.isatty() else Console(width=100, soft_wrap=False)
    if verbose and printed.strip():
        click.echo(f"the model printed:\n{printed.rstrip()}", err=True)
    render_terminal(audit, console, paths, quiet=quiet, verbose=verbose)
    raise click.exceptions.Exit(1 if audit.verdict == "fail" else 0)
