"""`ampaudit config show`: every setting of every model, and where it came from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click


@click.group("config")
def command() -> None:
    """The configuration: [tool.ampaudit] of pyproject.toml, or ampaudit.toml."""


@command.command("show")
@click.argument("models", nargs=-1)
@click.option("--config", metavar="FILE", help="A configuration other than the nearest one.")
@click.option("--all", "everything", is_flag=True, help="Settings left at their default, too.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What is printed.",
)
def show(models: tuple[str, ...], config: str | None, everything: bool, format_: str) -> None:
    """Show what `ampaudit gate` would use for each section, each value with its origin."""
    from auditor.errors import UsageProblem, near_names
    from auditor.gate.config import find_document, read_document, settings_of

    document = read_document(Path(config)) if config else find_document(Path.cwd())
    for name in models:
        if name not in document.models:
            raise UsageProblem(f"no section {name!r}{near_names(name, document.models)}", where="MODELS")
    shown = {}
    for name in models or document.models:
        settings = settings_of(document, name, {})
        values = _flat(settings.model.model_dump(mode="json"))
        shown[name] = {
            key: {"value": value, "from": settings.origins.get(key, "default")}
            for key, value in values.items()
            if everything or settings.origins.get(key, "default") != "default"
        }
    if format_ == "json":
        click.echo(json.dumps({"file": str(document.file or ""), "models": shown}, indent=1))
        return
    click.echo(f"configuration: {document.file or 'none found'}")
    for name, table in shown.items():
        click.echo(f"\n{name}")
        for key, entry in table.items():
            click.echo(f"  {key} = {json.dumps(entry['value'], ensure_ascii=False)}  ({entry['from']})")
    if not shown:
        click.echo("no models are configured; add a section [tool.ampaudit.models.NAME] to pyproject.toml")


def _flat(table: dict[str, Any]) -> dict[str, Any]:
    """The policy's keys beside the others, dotted."""
    policy = table.pop("policy")
    return {**table, **{f"policy.{key}": value for key, value in policy.items()}}
