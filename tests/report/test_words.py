"""Numbers as a reader sees them."""

import math

import pytest

from auditor.report import words


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.0064, "0.64 %"),
        (0.15625, "16 %"),
        (0.9996, "100 %"),
        (12.3, "1,230 %"),
        (3.6e-4, "0.036 %"),
        (2e-6, "0.00020 %"),
        (2e-9, "<0.0001 %"),
        (math.inf, "non-finite"),
        (math.nan, "non-finite"),
    ],
)
def test_percent_keeps_two_digits_and_never_rounds_to_nothing(value: float | None, shown: str) -> None:
    assert words.percent(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0, "0"),
        (12, "12"),
        (98608.0, "98,608"),
        (5083136, "5,083,136"),
        (594.2, "594"),
        (0.2197, "0.22"),
        (5.46e-4, "5.46e-04"),
        (math.inf, "∞"),
        (math.nan, "NaN"),
    ],
)
def test_number(value: float | None, shown: str) -> None:
    assert words.number(value) == shown


def test_size_uses_binary_units() -> None:
    assert [words.size(n) for n in (512, 1024, 104_857_600, None)] == ["512 B", "1.0 KiB", "100.0 MiB", "–"]


def test_power_is_set_in_superscript() -> None:
    assert words.power(-14) == "2⁻¹⁴"


def test_evidence_spelt_for_json_reads_as_a_number() -> None:
    assert [words.value(v) for v in ("Infinity", "NaN", True, (1, 2), "eps")] == [
        "∞",
        "NaN",
        "yes",
        "1, 2",
        "eps",
    ]


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("/home/ada/models/net.py", "net.py"),
        ("/opt/py/site-packages/transformers/models/bert.py", "transformers/models/bert.py"),
        ("/a/b/c/d/e.py", "…/c/d/e.py"),
        ("/a/e.py", "/a/e.py"),
    ],
)
def test_short_path(file: str, shown: str) -> None:
    assert words.short_path(file, "net.py") == shown


def test_printable_takes_out_what_steers_a_terminal() -> None:
    assert words.printable("a\x1b[31mb\nc") == "a\N{REPLACEMENT CHARACTER}[31mb\nc"
