"""`ampaudit rules`: what is looked for."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table


@click.command("rules")
def command() -> None:
    """List the rules."""
    from auditor.judge.rules import load_rules

    table = Table("id", "name", "finds", box=None, pad_edge=False)
    for rule in load_rules():
        table.add_row(rule.id, rule.name, rule.summary)
    Console().print(table)
