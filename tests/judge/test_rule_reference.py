"""docs/rules.md is what the rules say."""

from __future__ import annotations

from pathlib import Path

from auditor.judge.reference import render
from auditor.judge.rules import load_rules
from auditor.judge.vocabulary import VOCABULARY

REFERENCE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_reference_has_not_drifted() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == render(load_rules()), (
        "run: python -m auditor.judge.reference"
    )


def test_it_tells_every_rule_and_every_fact() -> None:
    text = render(load_rules())
    for rule in load_rules():
        assert f"### {rule.id} {rule.name}\n" in text
        assert f"](#{rule.id.lower()}-{rule.name})" in text
    for name in VOCABULARY:
        assert f"| `{name}` |" in text
