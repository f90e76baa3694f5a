"""The summary on the terminal."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from auditor.contract import Audit, Finding, LossScale
from auditor.report import answers, views, words

_VERDICT_STYLE = {"pass": "bold green", "warn": "bold yellow", "fail": "bold red"}
_SEVERITY_STYLE = {"high": "red", "medium": "yellow", "low": "cyan", "info": "dim"}
_MODE_STYLE = {"ok": "green", "degraded": "yellow", "broken": "red", "not_run": "dim", "unsupported": "dim"}
_SHOWN = 5
_SPOKEN_OF = {"autocast": "autocast", "pure": "the whole model cast"}
_WIDEST = 100
# Notes that change how the result is to be read; the rest stand in the report.
_TELLING_NOTES = (
    "surrogate-loss",
    "default-target",
    "no-gradients",
    "fp32-unsound",
    "static-only",
    "eval-mode",
    "built-in-half",
    "float64",
    "own-fp16",
    "ill-conditioned",
    "stress",
)


def render_terminal(
    audit: Audit,
    console: Console,
    report_paths: Sequence[Path],
    *,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Verdict, worst findings, modes, loss scale, and where the reports lie. Text from the user's model is
    printed as it stands, never as markup, and without control characters. `quiet` leaves the verdict alone;
    `verbose` lists every finding."""
    verdict = (
        f"{words.VERDICT_ICON[audit.verdict]} {audit.subject.source} {words.VERDICT_WORD[audit.verdict]}"
    )
    _wrapped(
        console,
        f"{verdict} on {audit.target.name}: {audit.summary}",
        bold=(len(verdict), _VERDICT_STYLE[audit.verdict]),
    )
    if quiet:
        return
    serious = [f for f in audit.findings if f.severity in answers.SERIOUS]
    # What the verdict speaks of comes first; a failure of the other mode is no contradiction of it.
    serious.sort(key=lambda f: audit.mode not in f.modes)
    listed = list(audit.findings) if verbose else serious[:_SHOWN]
    elsewhere = False
    for finding in listed:
        console.print()
        if not verbose and not elsewhere and audit.mode not in finding.modes:
            elsewhere = True
            _wrapped(console, f"beyond the verdict, which speaks of {_SPOKEN_OF[audit.mode]}:", style="dim")
        _finding(console, finding)
    left = len(audit.findings) - len(listed)
    if left:
        console.print()
        console.print(
            Text(f"{words.count(left, 'more finding')} in the report; --verbose lists them here", style="dim")
        )
    console.print()
    console.print(_modes(audit))
    kinds = sorted({mode.time_kind for mode in audit.modes.values() if mode.time_kind})
    times = f"; times {words.listed(kinds)}" if kinds else ""
    console.print(Text(f"errors are relative to FP32{times}", style="dim"))
    console.print()
    _wrapped(console, _loss_scale(audit.loss_scale))
    for note in audit.notes:
        if note.code in _TELLING_NOTES:
            _wrapped(console, f"note: {note.message}", style="dim")
    for path in report_paths:
        console.print(Text(f"report: {path}"), soft_wrap=True)


def _finding(console: Console, finding: Finding) -> None:
    formats = "/".join(words.formats(finding))
    head = Text.assemble(
        (f"{words.SEVERITY_ICON[finding.severity]} {finding.severity}", _SEVERITY_STYLE[finding.severity]),
        " ",
        (words.printable(_relative(words.place(finding))), "bold"),
        words.printable(f" {finding.name} [{finding.rule}] {formats}, {' and '.join(finding.modes)}"),
    )
    # A place is never broken over lines: terminals and editors open file:line.
    console.print(head, soft_wrap=True)
    _wrapped(console, finding.message, indent="  ")
    _wrapped(console, f"fix: {finding.fix}", indent="  ", style="green")


def _wrapped(
    console: Console, text: str, *, indent: str = "", style: str = "", bold: tuple[int, str] | None = None
) -> None:
    """`text` broken at words to the console's width; `bold` styles that many characters of its start."""
    width = min(console.width, _WIDEST)
    flowed = "\n".join(
        textwrap.wrap(
            words.printable(text),
            width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
    )
    shown = Text(flowed, style=style)
    if bold is not None:
        shown.stylize(bold[1], 0, bold[0])
    console.print(shown, soft_wrap=True)


def _relative(place: str) -> str:
    return place.removeprefix(os.getcwd() + os.sep)


def _loss_scale(scale: LossScale) -> str:
    if not scale.needed:
        return f"loss scale: none needed; {scale.reason}"
    if scale.log2 is None:
        return f"loss scale: not known; {scale.reason}"
    safe = (
        f"safe from 2^{scale.safe_log2_range[0]} to 2^{scale.safe_log2_range[1]}, "
        if scale.safe_log2_range
        else ""
    )
    room = f"{scale.headroom_binades:.1f} binades of headroom, " if scale.headroom_binades is not None else ""
    return f"loss scale: start at 2^{scale.log2} ({safe}{room}confidence {scale.confidence})"


def _modes(audit: Audit) -> Table:
    table = Table("mode", "verdict", box=None, pad_edge=False)
    for title in ("output error", "gradient error", "step time", "speed", "memory"):
        table.add_column(title, justify="right")
    for row in views.mode_rows(audit):
        mode = row.result
        table.add_row(
            row.title,
            Text(
                f"{words.MODE_VERDICT_ICON[mode.verdict]} {words.MODE_VERDICT[mode.verdict]}",
                style=_MODE_STYLE[mode.verdict],
            ),
            words.percent(mode.output_error),
            words.percent(mode.gradient_error),
            words.milliseconds(mode.time_ms),
            words.speedup(mode.speedup),
            words.size(mode.memory_bytes),
        )
    return table
