"""`ampaudit schema`: the contract of audit.json."""

from __future__ import annotations

import json

import click


@click.command("schema")
def command() -> None:
    """Print the JSON schema of audit.json."""
    from auditor.contract import Audit

    click.echo(json.dumps(Audit.model_json_schema(), indent=1))
