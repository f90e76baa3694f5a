"""The summary on the terminal."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from auditor.contract import Audit, Finding
from auditor.report.words import MODE, MODE_VERDICT_ICON, PRECISION, SEVERITY_ICON, VERDICT_WORD, milliseconds, number, place, size

_STYLE = {"pass": "bold green", "warn": "bold yellow", "fail": "bold red"}
_SEVERITY_STYLE = {"high": "red", "medium": "yellow", "low": "cyan", "info": "dim"}
_MODE_STYLE = {"ok": "green", "degraded": "yellow", "broken": "red", "not_run": "dim", "unsupported": "dim"}
_SHOWN = 5


def render_terminal(audit: Audit, console: Console, reports: Sequence[Path], *, quiet: bool = False, verbose: bool = False) -> None:
    """Verdict, worst findings, modes, loss scale, and where the reports lie. Text from the user's model is
    printed as plain text, never as markup."""
    console.print(
        Text.assemble(
            (f"{audit.subject.source} {VERDICT_WORD[audit.verdict]}", _STYLE[audit.verdict]),
            f" on {audit.target.name}: {audit.summary}",
        )
    )
    if quiet:
        return
    serious = [f for f in audit.findings if f.severity in ("high", "medium")]
    listed = list(audit.findings) if verbose else serious[:_SHOWN]
    for finding in listed:
        console.print()
        _finding(console, finding)
    left = len(serious) - _SHOWN
    if left > 0 and not verbose:
        console.print(f"\n… and {left} more; --verbose lists all", style="dim")
    console.print()
    console.print(_modes(audit))
    console.print()
    scale = audit.loss_scale
    if scale.needed and scale.log2 is not None and scale.safe_log2_range is not None:
        low, high = scale.safe_log2_range
        console.print(f"loss scale: start at 2^{scale.log2} (safe 2^{low}..2^{high}, {scale.headroom_binades:.1f} binades of headroom; confidence {scale.confidence})")  # fmt: skip
    else:
        console.print(f"loss scale: not needed; {scale.reason}")
    for note in audit.notes:
        if note.code in ("surrogate-loss", "default-target", "no-gradients", "fp32-unsound", "static-only"):
            console.print(Text(f"note: {note.message}", style="dim"))
    for path in reports:
        console.print(Text(f"report: {path}"))


def _finding(console: Console, finding: Finding) -> None:
    formats = "/".join(PRECISION[p] for p in finding.precisions)
    console.print(
        Text.assemble(
            (f"{SEVERITY_ICON[finding.severity]} {finding.severity}", _SEVERITY_STYLE[finding.severity]),
            " ",
            (_relative(place(finding)), "bold"),
            f" {finding.name} [{finding.rule}] {formats}, {' and '.join(finding.modes)}",
        ),
        soft_wrap=True,
    )
    _indented(console, finding.message)
    _indented(console, f"fix: {finding.fix}", "green")


def _indented(console: Console, text: str, style: str = "") -> None:
    for line in textwrap.wrap(text, width=min(console.width, 100) - 2):
        console.print(Text(f"  {line}", style=style))


def _relative(text: str) -> str:
    here = os.getcwd() + os.sep
    return text.removeprefix(here)


def _modes(audit: Audit) -> Table:
    table = Table("mode", "verdict", "output error", "gradient error", "time", "speed-up", "memory", box=None, pad_edge=False)
    for name, mode in audit.modes.items():
        table.add_row(
            MODE[name],
            Text(f"{MODE_VERDICT_ICON[mode.verdict]} {mode.verdict}", style=_MODE_STYLE[mode.verdict]),
            number(mode.output_error),
            number(mode.gradient_error),
            milliseconds(mode.time_ms),
            f"{mode.speedup:.2f}x" if mode.speedup else "–",
            size(mode.memory_bytes),
        )
    return table
