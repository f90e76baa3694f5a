"""The `ampaudit` command: a group whose default command is `audit`."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from importlib import import_module
from typing import Any

import click

from auditor import __version__
from auditor.errors import AuditError

_COMMANDS = {
    "audit": "audit a model (the default command)",
    "lint": "look for mixed-precision faults in a training script",
    "gate": "audit models and end with a status by policy",
    "diff": "say what changed between two audits",
    "explain": "explain a rule",
    "rules": "list the rules",
    "devices": "list the GPUs of the catalogue",
    "config": "show the configuration and where it came from",
    "doctor": "say what is installed and what will be used",
    "completion": "print a shell's completion script",
    "schema": "print the JSON schema of audit.json",
}


class _Commands(click.Group):
    """Commands are imported when they run, so that `--help` stays instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(f"auditor.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in _COMMANDS:
            args = ["audit", *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {"--help", "-h", "--version"}
        if args and args[0].startswith("-") and args[0] not in own:
            args = ["audit", *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(
    cls=_Commands,
    no_args_is_help=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
)
@click.version_option(__version__, prog_name="ampaudit")
def cli() -> None:
    """Audit a model's precision: which layers may run in FP16, BF16, TF32 or FP32, with evidence.

    \b
    ampaudit model.py                     audit a file offering build_model() and example_inputs()
    ampaudit model.py:Net --input 8x3x224x224
    ampaudit lint train.py                faults in a training script, read and never run
    ampaudit audit --help                 all options of the audit
    ampaudit gate                         every model of the configuration, by its policy

    Exit status: 0 passes, 1 the audit failed the model, 2 wrong use, 3 the model could not be loaded or run,
    4 an internal error.
    """


def run(arguments: list[str] | None = None) -> None:
    """Entry point: runs the command and maps what went wrong to the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    try:
        # Outside standalone mode click hands back the status of an early exit.
        status = cli.main(args=arguments, prog_name="ampaudit", standalone_mode=False)
        _leave(status if isinstance(status, int) else 0)
    except click.ClickException as error:
        click.echo(f"ampaudit: {error.format_message()}", err=True)
        _leave(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("ampaudit: interrupted", err=True)
        _leave(130)
    except AuditError as error:
        if debug:
            traceback.print_exc()
        click.echo(f"ampaudit: {error}", err=True)
        if error.exit_status == 4:
            click.echo(f"  this is a bug of ampaudit; please attach {_crash_file(error)}", err=True)
        _leave(error.exit_status)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - nobody reads on; the interpreter still flushes it
        _leave(0)
    except Exception as error:
        if debug:
            traceback.print_exc()
        click.echo(f"ampaudit: internal error: {type(error).__name__}: {error}", err=True)
        click.echo(f"  this is a bug of ampaudit; please attach {_crash_file(error)}", err=True)
        _leave(4)


def _crash_file(error: BaseException) -> str:
    text = getattr(error, "traceback", None) or "".join(traceback.format_exception(error))
    with tempfile.NamedTemporaryFile(
        "w", prefix="ampaudit-crash-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(f"ampaudit {__version__}\n{' '.join(sys.argv)}\n\n{text}")
    return file.name


def _leave(status: int) -> None:
    raise SystemExit(status)
