"""The gate's checks on the sample audit, with values derived by hand from it."""

import datetime
import math

import pytest

from auditor.contract import Audit, Check, ModeResult
from auditor.gate.apply import with_policy
from auditor.gate.checks import fp32_time_share, judge, margin_binades
from auditor.gate.policy import Ignore, Policy

TODAY = datetime.date(2026, 6, 1)


def checks(audit: Audit, policy: Policy, baseline: Audit | None = None) -> dict[str, Check]:
    result = judge(with_policy(audit, policy, TODAY), policy, "sample", baseline, cached=False)
    return {check.name.removeprefix("new or worse "): check for check in result.checks}


def outcome(audit: Audit, policy: Policy, baseline: Audit | None = None) -> str:
    return judge(with_policy(audit, policy, TODAY), policy, "sample", baseline, cached=False).outcome


def test_high_findings_fail_and_are_named(audit: Audit) -> None:
    check = checks(audit, Policy())["findings of severity high"]
    high = [f.id for f in audit.findings if f.severity == "high" and "autocast" in f.modes]
    assert high and check.findings == tuple(high)
    assert (check.outcome, check.expected, check.operator, check.actual) == (
        "fail",
        "0",
        "==",
        str(len(high)),
    )


def test_findings_of_formats_that_are_not_allowed_do_not_count(audit: Audit) -> None:
    only_fp16 = [f for f in audit.findings if f.severity == "high"]
    assert all(f.precisions == ("fp16",) for f in only_fp16)
    assert checks(audit, Policy(precisions=("bf16", "fp32")))["findings of severity high"].outcome == "pass"


def test_never_asks_for_no_findings(audit: Audit) -> None:
    assert not any("findings" in name for name in checks(audit, Policy(fail_on="never")))


def test_the_baseline_forgives_what_it_knew(audit: Audit) -> None:
    assert outcome(audit, Policy(), audit) == "pass"
    milder = audit.findings[0].model_copy(update={"severity": "low"})
    before = audit.model_copy(update={"findings": (milder, *audit.findings[1:])})
    assert checks(audit, Policy(), before)["findings of severity high"].actual == "1"
    worse = {**audit.modes, "autocast_bf16": ModeResult(verdict="broken", reason="now it is")}
    check = checks(audit.model_copy(update={"modes": worse}), Policy(), audit)[
        "modes worse than in the baseline"
    ]
    assert check.outcome == "fail" and check.note == "BF16 autocast: ok → broken"


def test_suppressions_of_the_policy(audit: Audit) -> None:
    rule = next(f for f in audit.findings if f.severity == "high").rule
    held = Ignore(rule=rule, reason="we know", expires=TODAY)
    over = Ignore(rule=rule, reason="we know", expires=TODAY - datetime.timedelta(days=1))
    idle = Ignore(rule="AMP132", module="nowhere.*", reason="left over")
    result = with_policy(audit, Policy(ignore=(held, idle)), TODAY)
    assert [s.by for s in result.suppressed if s.reason == "we know"] and result.verdict != "fail"
    assert [s.where for s in result.stale] == ["policy.ignore[1]"]
    result = with_policy(audit, Policy(ignore=(over,)), TODAY)
    assert result.findings == audit.findings and "expired" in result.stale[0].why


def test_a_source_suppression_that_expired_since_stands_again(audit: Audit) -> None:
    accepted = with_policy(
        audit, Policy(ignore=(Ignore(rule="*", reason="all of it", expires=TODAY),)), TODAY
    )
    assert accepted.findings == () and accepted.verdict == "pass"
    later = with_policy(accepted, Policy(), TODAY + datetime.timedelta(days=1))
    assert {f.id for f in later.findings} == {f.id for f in audit.findings}
    assert later.verdict == audit.verdict


def test_severity_overrides(audit: Audit) -> None:
    high = next(f for f in audit.findings if f.severity == "high")
    lowered = with_policy(audit, Policy(severity={high.name: "low"}), TODAY)
    assert next(f for f in lowered.findings if f.id == high.id).severity == "low"
    off = with_policy(audit, Policy(severity={high.rule: "off"}), TODAY)
    assert high.rule not in {f.rule for f in off.findings}


def test_numbers_are_compared_and_nearness_is_said(audit: Audit) -> None:
    memory = audit.modes["plan"].memory_bytes
    assert memory is not None
    name = "memory of a step under the plan"
    assert checks(audit, Policy(max_memory=str(memory)))[name].outcome == "pass"
    assert checks(audit, Policy(max_memory=str(memory)))[name].near
    assert checks(audit, Policy(max_memory=str(memory - 1)))[name].outcome == "fail"
    roomy = checks(audit, Policy(max_memory=str(2 * memory)))[name]
    assert roomy.outcome == "pass" and not roomy.near


def test_the_margin_is_log2_of_the_room_left(audit: Audit) -> None:
    layer = audit.layers[0]
    candidate = layer.candidates["bf16"].model_copy(update={"absmax": 2048.0})
    fp16 = layer.model_copy(update={"precision": "fp16", "candidates": {"fp16": candidate}})
    margin, where = margin_binades(audit.model_copy(update={"layers": (fp16,)}))
    assert margin == pytest.approx(math.log2(65504 / 2048)) and layer.module in where


def test_the_time_share_counts_layers_in_fp32(audit: Audit) -> None:
    def layer(precision: str, time: float | None) -> object:
        candidate = audit.layers[0].candidates["fp32"].model_copy(update={"time_us": time})
        return audit.layers[0].model_copy(
            update={"precision": precision, "candidates": {"fp32": candidate, "bf16": candidate}}
        )

    three = audit.model_copy(update={"layers": (layer("fp32", 10.0), layer("bf16", 30.0))})
    assert fp32_time_share(three)[0] == 0.25
    unknown = audit.model_copy(update={"layers": (layer("fp32", 10.0), layer("bf16", None))})
    assert fp32_time_share(unknown)[0] is None
    assert outcome(unknown, Policy(fail_on="never", max_fp32_time_share=0.5)) == "inconclusive"


def test_what_was_not_run_is_never_a_pass(audit: Audit) -> None:
    static = audit.model_copy(
        update={"subject": audit.subject.model_copy(update={"capture": "symbolic"}), "findings": ()}
    )
    assert outcome(static, Policy()) == "inconclusive"
