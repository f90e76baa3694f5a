"""What the terminal shows: plain when piped, coloured only where wanted, and never steered by a name."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from auditor.contract import Audit
from auditor.report.terminal import render_terminal


def _shown(audit: Audit, *, terminal: bool = False, quiet: bool = False, verbose: bool = False) -> str:
    file = io.StringIO()
    # A truecolour terminal, so that styles show wherever rich lets them through.
    console = Console(
        file=file, width=100, force_terminal=terminal, color_system="truecolor" if terminal else None
    )
    render_terminal(audit, console, [Path("out/report.html")], quiet=quiet, verbose=verbose)
    return file.getvalue()


def test_piped_output_is_plain_and_fits(audit: Audit) -> None:
    text = _shown(audit)
    assert "\x1b" not in text
    # A file:line is never broken over lines, so that editors can open it; the rest keeps to the width.
    assert max(len(line) for line in text.splitlines() if ".py:" not in line) <= 100
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    for words in (
        "✖ examples/tiny_translator.py fails on T4",
        "examples/tiny_translator.py:25 product-overflow [AMP101] FP16, autocast and pure",
        "fix: Scale an operand",
        "loss scale: start at 2^16 (safe from 2^9 to 2^18, 2.2 binades of headroom, confidence high)",
        "note: no --target given",
        "2 more findings in the report",
        "report: out/report.html",
    ):
        assert words in text, words


def test_modes_table_shows_the_numbers_of_the_json(audit: Audit) -> None:
    row = next(line for line in _shown(audit).splitlines() if line.startswith("the plan"))
    assert re.split(r"\s{2,}", row) == [
        "the plan",
        "✔ ok",
        "0.087 %",
        "0.19 %",
        "1.52 ms",
        "2.25×",
        "101.4 MiB",
    ]


def test_quiet_is_the_verdict_alone(audit: Audit) -> None:
    text = " ".join(_shown(audit, quiet=True).split())
    assert text.endswith("FP16 autocast with 1 region in FP32.")


def test_verbose_lists_every_finding(audit: Audit) -> None:
    text = _shown(audit, verbose=True)
    assert all(f"[{finding.rule}]" in text for finding in audit.findings)
    assert "more findings" not in text


def test_colour_on_a_terminal_and_none_with_no_color(audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert re.search(r"\x1b\[[0-9;]*3[0-9]", _shown(audit, terminal=True))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", _shown(audit, terminal=True))


def test_markup_and_control_characters_are_shown_not_obeyed(audit: Audit) -> None:
    finding = audit.findings[0].model_copy(
        update={"name": "[red]x[/red]", "message": "[link=evil]\x1b]0;title\x07"}
    )
    text = _shown(audit.model_copy(update={"findings": (finding,)}))
    assert "[red]x[/red]" in text
    assert "[link=evil]" in text
    assert "\x1b" not in text and "\x07" not in text


def test_what_the_verdict_does_not_speak_of_comes_last_and_says_so(audit: Audit) -> None:
    first = audit.findings[0]
    pure = first.model_copy(update={"modes": ("pure",), "severity": "high", "message": "only when cast"})
    own = first.model_copy(update={"modes": ("autocast",), "severity": "medium", "message": "under autocast"})
    text = _shown(audit.model_copy(update={"findings": (pure, own)}))
    order = [text.index(t) for t in ("under autocast", "beyond the verdict", "only when cast")]
    assert order == sorted(order)
