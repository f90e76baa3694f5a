"""From hits to findings: one fault told once, and no precision or mode accused without evidence."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from auditor.contract import Finding
from auditor.judge.evaluate import Site, evaluate, findings_of
from auditor.judge.rules import load_rules, parse_rule
from auditor.judge.vocabulary import defaults

RULES = load_rules()
BROKEN = {
    "op": "aten.mm", "family": "matmul", "verdict": "broken", "culprit": True, "absmax": 131008.0,
    "headroom": -1.0, "nonfinite": 7, "numel": 100, "origin": True, "format_max": 65504.0,
}  # fmt: skip
DEGRADED = {"op": "aten.mm", "family": "matmul", "verdict": "degraded", "culprit": True, "error": 0.2}


def case(
    known: dict[str, Any],
    *,
    precision: str = "fp16",
    mode: str = "autocast",
    module: str = "m",
    line: int | None = 3,
):
    facts = {**defaults(), **known, "precision": precision, "mode": mode}
    return facts, Site(module, "model.py" if line else None, line, "emulated")


def findings(*cases: tuple[dict[str, Any], Site]) -> list[Finding]:
    return findings_of(evaluate(RULES, cases)[0])


def test_both_modes_of_one_precision_are_one_finding() -> None:
    [finding] = findings(case(BROKEN), case(BROKEN, mode="pure"))
    assert (finding.severity, finding.precisions, finding.modes) == ("high", ("fp16",), ("autocast", "pure"))
    assert (
        finding.message
        == "aten.mm reaches 1.3e+05, beyond 65504, the largest fp16 value: 7 of 100 results become infinite."
        " Stock autocast does not protect it."
    )


def test_what_only_a_cast_model_suffers_is_said_to_be_protected() -> None:
    [finding] = findings(case(BROKEN, mode="pure"))
    assert finding.message.endswith(" Stock autocast in fp16 protects it; casting the whole model does not.")
    low, high = findings(case(DEGRADED), case(BROKEN, mode="pure"))[::-1]
    assert (low.severity, high.severity) == ("medium", "high")
    assert high.message.endswith(" Stock autocast does not protect it.")


def test_a_degraded_precision_is_not_called_broken_because_another_is() -> None:
    first, second = findings(case(BROKEN, mode="pure"), case(DEGRADED, precision="bf16"))
    assert (first.severity, first.precisions, first.modes) == ("high", ("fp16",), ("pure",))
    assert (second.severity, second.precisions, second.modes) == ("medium", ("bf16",), ("autocast",))


def test_every_precision_of_a_finding_fails_in_every_mode_it_names() -> None:
    runs = {("fp16", "autocast"), ("fp16", "pure"), ("bf16", "pure")}
    found = findings(*(case(DEGRADED, precision=p, mode=m) for p, m in sorted(runs)))
    assert {(p, m) for f in found for p in f.precisions for m in f.modes} == runs
    assert len({f.id for f in found}) == len(found) == 2


def test_precisions_that_fail_alike_are_merged() -> None:
    [finding] = findings(case(DEGRADED), case(DEGRADED, precision="bf16"))
    assert finding.precisions == ("fp16", "bf16")


def test_repeated_blocks_are_one_finding() -> None:
    [finding] = findings(*(case({**BROKEN, "error": float(n)}, module=f"blocks.{n}.mlp") for n in range(4)))
    assert finding.module == "blocks.3.mlp"  # the strongest evidence is told
    assert finding.occurrences == 4
    assert set(finding.also_at) == {f"blocks.{n}.mlp" for n in range(3)}


def test_repeated_blocks_without_a_line_are_one_finding_too() -> None:
    [finding] = findings(*(case(BROKEN, module=f"blocks.{n}.mlp", line=None) for n in range(3)))
    assert finding.occurrences == 3


def test_ops_of_one_line_are_one_fault_told_by_the_most_specific_rule() -> None:
    [finding] = findings(case({**BROKEN, "family": "layout", "op": "aten.cat"}), case(BROKEN))
    assert finding.name == "product-overflow"


def test_of_refused_ops_the_forward_one_is_told() -> None:
    refused = {"family": "loss", "refused_by": "no-half-kernel"}
    backward = {**refused, "op": "aten._ctc_loss_backward", "phase": "backward", "error": 1.0}
    [finding] = findings(case(backward), case({**refused, "op": "aten._ctc_loss"}))
    assert (finding.op, finding.phase) == ("aten._ctc_loss", "forward")


def test_other_lines_are_other_findings_worst_first() -> None:
    found = findings(case(DEGRADED, line=3), case(BROKEN, line=9))
    assert [(f.severity, f.line) for f in found] == [("high", 9), ("medium", 3)]


def test_evidence_names_its_run_and_what_was_seen() -> None:
    [finding] = findings(case(BROKEN))
    values = finding.evidence.values
    assert (values["precision"], values["mode"]) == ("fp16", "autocast")
    assert (values["absmax"], values["headroom"], values["nonfinite"]) == (131008.0, -1.0, 7)
    assert "cancellation" not in values


def model_of(folder: Path, text: str) -> str:
    folder.mkdir()
    file = folder / "model.py"
    file.write_text(text)
    return str(file)


def test_the_fingerprint_survives_lines_above_other_numbers_and_another_checkout(tmp_path: Path) -> None:
    here, there = model_of(tmp_path / "a", "y = x @ w\n"), model_of(tmp_path / "b", "# new\n\ny = x @ w\n")
    facts = {**defaults(), **BROKEN}
    [first] = findings_of(evaluate(RULES, [(facts, Site("m", here, 1, "emulated"))])[0])
    [second] = findings_of(evaluate(RULES, [({**facts, "absmax": 9e5}, Site("m", there, 3, "emulated"))])[0])
    assert first.id == second.id


def test_equal_lines_have_ids_of_their_own(tmp_path: Path) -> None:
    file = model_of(tmp_path / "a", "y = x @ w\ny = x @ w\n")
    facts = {**defaults(), **BROKEN}
    found = findings_of(evaluate(RULES, [(facts, Site("m", file, n, "emulated")) for n in (1, 2)])[0])
    assert len({f.id for f in found}) == 2


def test_a_failing_condition_is_an_error_of_its_rule_and_the_others_go_on() -> None:
    text = (Path(__file__).parents[2] / "rules" / "precision-loss.toml").read_text()
    bad = text.replace("""'culprit && verdict == "broken"'""", "'100 / nonfinite > 3'").replace(
        "AMP196", "BAD001"
    )
    hits, statuses = evaluate([parse_rule(bad, "bad.toml"), *RULES], [case(DEGRADED)])
    by_id = {status.rule: status for status in statuses}
    assert by_id["BAD001"].status == "error"
    assert "zero" in by_id["BAD001"].detail.lower()
    assert [hit.rule.id for hit in hits] == ["AMP196"]


def test_no_ordering_with_nan_holds_and_none_is_an_error() -> None:
    hits, statuses = evaluate(
        RULES, [case({**DEGRADED, "family": "add", "cancellation": math.nan, "amplification": 9.0})]
    )
    assert [hit.rule.name for hit in hits] == ["cancellation"]  # by its amplification
    hits, statuses = evaluate(RULES, [case({**DEGRADED, "family": "add", "cancellation": math.nan})])
    assert [hit.rule.name for hit in hits] == ["precision-loss"]
    assert "error" not in {status.status for status in statuses}


def test_statuses_tell_fired_silent_and_not_applicable_apart() -> None:
    _, statuses = evaluate(RULES, [case(DEGRADED)])
    by_id = {status.rule: (status.status, status.evaluated) for status in statuses}
    assert by_id["AMP196"] == ("fired", 1)
    assert by_id["AMP101"] == ("silent", 1)
    assert by_id["AMP181"] == ("not_applicable", 0)  # a rule of the backward pass
