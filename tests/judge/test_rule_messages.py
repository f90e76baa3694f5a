"""Templates: what they may hold, and how numbers read."""

from __future__ import annotations

import math

import pytest

from auditor.judge.messages import fill, placeholders, shown
from auditor.judge.vocabulary import defaults


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4608, "4,608"),
        (65504.0, "65504"),
        (131008.0, "1.3e+05"),
        (0.25, "0.25"),
        (6e-8, "6e-08"),
        (0.0, "0"),
        (math.inf, "infinity"),
        (-math.inf, "-infinity"),
        (math.nan, "NaN"),
        (True, "True"),
        ("eps", "eps"),
    ],
)
def test_numbers_read_well(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_share_reads_in_per_cent() -> None:
    assert fill("{absorbed} of them", {**defaults(), "absorbed": 0.9}) == "90 % of them"


def test_a_format_is_obeyed() -> None:
    assert fill("{headroom:.1f} binades", {**defaults(), "headroom": 0.789}) == "0.8 binades"


def test_what_a_fact_says_is_no_template() -> None:
    facts = {**defaults(), "refusal": "bad key {op} in\n{x.__class__}", "op": "aten.mm"}
    assert fill("{op}: {refusal}", facts) == "aten.mm: bad key {op} in {x.__class__}"


@pytest.mark.parametrize("template", ["{", "}", "{}", "{op!r}", "{op.__class__}", "{op[0]}", "{op:.3g}"])
def test_other_braces_are_refused(template: str) -> None:
    with pytest.raises(ValueError):
        placeholders(template)


def test_placeholders_are_listed() -> None:
    assert placeholders("{op} at {absmax:.3g}, {nosuch}") == ["op", "absmax", "nosuch"]
