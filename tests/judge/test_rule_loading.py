"""Reading rules: one clear error for each way a rule file can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.errors import UsageProblem
from auditor.judge.rules import load_rules, parse_rule

GOOD = """
id = "TEAM001"
name = "too-near-the-end"
summary = "a product comes within a binade of the end"
priority = 1
families = ["matmul"]

[[level]]
severity = "low"
when = 'headroom < 1.0'
message = "{op} reaches {absmax:.3g}."
fix = "Scale an operand."

[doc]
what = "Products near the end of the format."
why = "Another batch may double them."
example = "q @ k"
instead = "(q / 8) @ k"
references = ["team handbook"]
"""


def test_a_directory_of_own_rules(tmp_path: Path) -> None:
    (tmp_path / "too-near-the-end.toml").write_text(GOOD)
    (tmp_path / "notes.txt").write_text("no rule")
    [rule] = load_rules(tmp_path)
    assert (rule.id, rule.name, rule.file.families) == ("TEAM001", "too-near-the-end", ("matmul",))


def test_shipped_rules_are_in_order_of_their_ids() -> None:
    ids = [rule.id for rule in load_rules()]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids) >= 25


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('id = "TEAM001"', "id = ", "not TOML"),
        ('id = "TEAM001"', 'id = "one"', "id: "),
        ("priority = 1", 'priority = 1\nfamilly = ["add"]', "familly: Extra inputs are not permitted (did"),
        ('["matmul"]', '["matmull"]', "unknown family 'matmull' (did you mean matmul"),
        ("priority = 1", 'priority = 1\nprecisions = ["fp8"]', "precisions.0"),
        ("headroom < 1.0", "headrom < 1.0", "level.0.when: unknown fact 'headrom' (did you mean headroom"),
        ("headroom < 1.0", "headroom <", "level.0.when: Failed to parse"),
        ("headroom < 1.0", "headroom", "level.0.when: the condition gives 99.0, neither true nor false"),
        ("headroom < 1.0", "family < 1.0", "level.0.when: No such overload"),
        ("{absmax:.3g}", "{abs_max}", "level.0.message: unknown fact 'abs_max' (did you mean absmax"),
        ("{absmax:.3g}", "{absmax", "level.0.message: a placeholder is"),
        ("Scale an operand.", "{op:.3g}", "level.0.fix: {op:.3g}"),
        ('severity = "low"', 'severity = "fatal"', "level.0.severity"),
        ('references = ["team handbook"]', "", "doc.references"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_file_and_key(old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageProblem) as caught:
        parse_rule(GOOD.replace(old, new), "mine.toml")
    assert str(caught.value).startswith("mine.toml: ")
    assert said in str(caught.value)


def test_the_file_bears_the_name_of_its_rule(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(GOOD)
    with pytest.raises(UsageProblem, match=r"other\.toml: name: .*too-near-the-end"):
        load_rules(tmp_path)


def test_ids_are_taken_once(tmp_path: Path) -> None:
    (tmp_path / "too-near-the-end.toml").write_text(GOOD)
    (tmp_path / "again.toml").write_text(GOOD.replace("too-near-the-end", "again"))
    with pytest.raises(UsageProblem, match=r"id: TEAM001 is taken by again"):
        load_rules(tmp_path)


def test_a_missing_directory_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="no rules can be read here"):
        load_rules(tmp_path / "none")


def test_a_file_that_is_no_text_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "too-near-the-end.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageProblem, match="cannot be read"):
        load_rules(tmp_path)
