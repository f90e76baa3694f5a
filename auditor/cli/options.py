"""Options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """An option with its environment twin: --time-limit reads AMPAUDIT_TIME_LIMIT."""
    flag = next(n for n in names if n.startswith("--")).split("/")[0]
    return click.option(*names, envvar="AMPAUDIT_" + flag[2:].replace("-", "_").upper(), **settings)


def given_settings(context: click.Context, values: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    """What the command line or the environment sets, with its origin, by the name of its setting."""
    from click.core import ParameterSource

    named = {p.name: p for p in context.command.params}
    given = {}
    for name, value in values.items():
        source = context.get_parameter_source(name)
        if source is None or source in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP):
            continue
        parameter = named[name]
        flag = next((o for o in parameter.opts if o.startswith("--")), name)
        origin = str(parameter.envvar) if source == ParameterSource.ENVIRONMENT else flag
        given[_SETTING.get(name, name)] = (value, origin)
    return given


_SETTING = {"inputs": "input", "batches": "batch", "training": "train", "fail_on": "policy.fail_on"}

_SUBJECT = (
    option(
        "--input",
        "inputs",
        multiple=True,
        metavar="SPEC",
        help='An input, such as "2x3x224x224:float32" or "ids=4x128:int64[0,30522]"; repeatable.',
    ),
    option(
        "--batch",
        "batches",
        multiple=True,
        metavar="FILE",
        help="Inputs from a .pt, .npz or .safetensors file; repeatable.",
    ),
    option("--checkpoint", metavar="FILE", help="State dict to load: .pt or .safetensors."),
    option(
        "--target",
        metavar="NAME",
        help='A GPU of the catalogue ("A100-SXM4-80GB"), "cuda" for the live one, or "cpu".',
    ),
    option(
        "--device-file",
        metavar="FILE",
        help="Cards of your own (TOML, as `ampaudit devices --show T4` prints one), for --target.",
    ),
    option(
        "--mode",
        type=click.Choice(["autocast", "pure"]),
        default="autocast",
        show_default=True,
        help="What the verdict speaks of: torch.autocast, or the whole model cast.",
    ),
    option(
        "--train/--eval",
        "training",
        default=None,
        help="Put the model in train or eval mode [default: as the file leaves it].",
    ),
    option(
        "--optimizer",
        type=click.Choice(["adamw", "adam", "sgd", "sgd-momentum", "adafactor"]),
        default="adamw",
        show_default=True,
        help="For the memory estimate.",
    ),
    option(
        "--rules",
        metavar="DIR",
        help="Your own rules (*.toml), beside the shipped ones.",
    ),
    option(
        "--seed",
        type=int,
        default=0,
        show_default=True,
        help="For inputs, dropout and the model's own construction.",
    ),
    option(
        "--time-limit",
        type=click.FloatRange(min=1),
        default=900.0,
        show_default=True,
        metavar="SECONDS",
        help="For loading and running the model.",
    ),
    option(
        "--memory-limit",
        default="85%",
        show_default=True,
        metavar="SIZE",
        help='For the model\'s process: "8GB", or a share of RAM.',
    ),
)


def subject_options(command: F) -> F:
    """How the model is found, fed, aimed and bounded."""
    for decorate in reversed(_SUBJECT):
        command = decorate(command)
    return command


def output_options(default: str) -> Callable[[F], F]:
    """Which reports are written, and where."""

    def decorate(command: F) -> F:
        command = option(
            "--format",
            "formats",
            multiple=True,
            metavar="NAMES",
            help="html, json, plan, md, sarif, junit, csv, parquet; comma separated or repeated "
            f"[default: {default or 'none'}].",
        )(command)
        return option(
            "--output",
            default="ampaudit-report",
            show_default=True,
            metavar="DIR",
            help="The folder the reports go to; - prints the one format asked for.",
        )(command)

    return decorate


def listed_formats(formats: tuple[str, ...], default: str) -> list[str]:
    return [n.strip() for part in formats or (default,) for n in part.split(",") if n.strip()]


def folder_of(output: str) -> Path | None:
    """None for standard output."""
    return None if output == "-" else Path(output)
