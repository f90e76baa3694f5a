"""The gate's checks on the terminal: expected, actual, operator."""

from __future__ import annotations

import os

from rich.console import Console
from rich.text import Text

from auditor.contract import Audit, Check, GateResult
from auditor.report import words

ICON = {"pass": "✔", "fail": "✖", "inconclusive": "?"}
WORD = {"pass": "passes the gate", "fail": "fails the gate", "inconclusive": "is not established"}
_STYLE = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}
NEAR = "near the limit: another machine's rounding may fall on its other side"


def render_gate(audit: Audit, gate: GateResult, console: Console, *, quiet: bool, verbose: bool) -> None:
    """The model's line, then each check that fails or is near its limit (every one if `verbose`) with the
    findings behind it, then suppressions that are stale."""
    against = f", against the baseline {gate.baseline}" if gate.baseline else ""
    cached = " (unchanged: from the cache)" if gate.cached else ""
    console.print(
        Text(f"{ICON[gate.outcome]} {words.printable(gate.name)} {WORD[gate.outcome]}", _STYLE[gate.outcome])
        + Text(f" on {audit.target.name}{against}{cached}", "default"),
        soft_wrap=True,
    )
    if quiet:
        return
    for check in gate.checks:
        if verbose or check.near or check.outcome != "pass":
            _check(check, audit, console)
    accepted = len(audit.suppressed)
    if accepted:
        console.print(
            Text(f"  {words.count(accepted, 'finding')} suppressed, with reasons in the report", "dim")
        )
    for stale in audit.stale:
        where = words.printable(stale.where.removeprefix(os.getcwd() + os.sep))
        console.print(
            Text(f"  stale suppression {where} [{', '.join(stale.rules)}]: {stale.why}", "yellow"),
            soft_wrap=True,
        )


def _check(check: Check, audit: Audit, console: Console) -> None:
    text = (
        f"  {ICON[check.outcome]} {check.name}: expected {check.operator} {check.expected}, is {check.actual}"
    )
    console.print(Text(words.printable(text)), soft_wrap=True)
    for note in (check.note, NEAR if check.near else ""):
        if note:
            console.print(Text(f"      {words.printable(note)}", "dim"), soft_wrap=True)
    failing = [f for f in audit.findings if f.id in check.findings]
    for finding in failing:
        place = words.printable(words.place(finding).removeprefix(os.getcwd() + os.sep))
        head = f"    {words.SEVERITY_ICON[finding.severity]} {place} {finding.name} [{finding.rule}]"
        console.print(Text(f"{head} {'/'.join(words.formats(finding))}", "bold"), soft_wrap=True)
        console.print(Text(f"      {words.printable(finding.message)}"), soft_wrap=True)
        console.print(Text(f"      fix: {words.printable(finding.fix)}", "green"), soft_wrap=True)
