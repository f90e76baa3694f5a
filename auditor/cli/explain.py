"""`ampaudit explain RULE`: what a rule finds, why it matters, and what to write instead."""

from __future__ import annotations

import textwrap

import click

from auditor.errors import UsageProblem, near_names


@click.command("explain")
@click.argument("rule")
@click.option("--rules", metavar="DIR", help="Your own rules (*.toml), beside the shipped ones.")
def command(rule: str, rules: str | None) -> None:
    """Explain RULE, given by its id (AMP101) or its name (product-overflow)."""
    from auditor.judge.index import rule_index

    index = rule_index(rules)
    wanted = {key: text for key, text in index.items() if rule.upper() == key or rule == text["name"]}
    if not wanted:
        known = [*index, *(text["name"] for text in index.values())]
        near = near_names(rule, known) or near_names(rule.upper(), known)
        raise UsageProblem(f"no rule {rule!r}{near}", next_step="ampaudit rules lists them")
    ((key, text),) = wanted.items()
    doc = text["doc"]
    click.secho(f"{key} {text['name']}", bold=True)
    click.echo(f"finds: {text['summary']}\n")
    for title, part in (("What it finds", doc["what"]), ("Why it matters", doc["why"])):
        click.secho(title, bold=True)
        click.echo(textwrap.indent(textwrap.fill(part, 96), "  ") + "\n")
    for title, part in (("Instead of", doc["example"]), ("Write", doc["instead"])):
        click.secho(title, bold=True)
        click.echo(textwrap.indent(part.rstrip(), "  ") + "\n")
    click.secho("Severities", bold=True)
    for level in text["level"]:
        click.echo(f"  {level['severity']}: when {' '.join(level['when'].split())}")
    click.secho("\nTo accept a finding", bold=True)
    click.echo(f"  # ampaudit: ignore[{key}] your reason       (on the line, or the line above)\n")
    click.secho("References", bold=True)
    for reference in doc["references"]:
        click.echo(f"  {reference}")
