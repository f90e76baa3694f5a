"""Every shipped rule: facts on which it must speak, a near twin on which it must not, and a complete doc."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.judge.evaluate import Hit, Site, evaluate
from auditor.judge.rules import Rule, load_rules
from auditor.judge.vocabulary import VOCABULARY, defaults

RULES = {rule.name: rule for rule in load_rules()}

# FP16: largest value 65504, unit roundoff 2^-11, integers exact up to 2048. BF16: 2^-8, 256.
FORMATS: dict[str, dict[str, Any]] = {
    "fp16": {
        "format_max": 65504.0,
        "format_smallest": 2.0**-24,
        "unit_roundoff": 2.0**-11,
        "exact_integers": 2048,
    },
    "bf16": {
        "format_max": 3.39e38,
        "format_smallest": 2.0**-133,
        "unit_roundoff": 2.0**-8,
        "exact_integers": 256,
    },
    "tf32": {
        "format_max": 3.4e38,
        "format_smallest": 2.0**-136,
        "unit_roundoff": 2.0**-11,
        "exact_integers": 2048,
    },
}
BLAMED = {"culprit": True, "confirmed": True, "low": True, "low_output": True, "numel": 100, "op": "aten.op"}
BROKEN = {**BLAMED, "verdict": "broken"}
DEGRADED = {**BLAMED, "verdict": "degraded", "error": 0.2, "inherited": 0.001}
# log2(65504 / 131008) = -1: one binade beyond FP16.
BEYOND = {"absmax": 131008.0, "headroom": -1.0, "nonfinite": 7, "overflowed": 7, "origin": True}
WITHIN = {"absmax": 32752.0, "headroom": 1.0, "nonfinite": 0, "overflowed": 0}
NAN = {"absmax": 3.0, "headroom": 14.4, "nonfinite": 7, "nans": 7, "origin": True}


class Case(NamedTuple):
    """`fires` on top of the defaults makes the rule speak and win; changed by `twin`, the rule is silent."""

    severity: str
    fires: dict[str, Any]
    twin: dict[str, Any]


# What one optimizer step on FP16 parameters shows.
STEP = {
    "phase": "optimizer",
    "family": "optimizer",
    "mode": "pure",
    "optimizer": "AdamW",
    "learning_rate": 1e-3,
}

CASES: dict[str, Case] = {
    "optimizer-eps-vanishes": Case(
        "high",
        {**STEP, "nonfinite": 5, "constant_name": "eps", "constant_value": 1e-8, "constant_vanishes": True},
        {"constant_value": 1e-4, "constant_vanishes": False, "nonfinite": 0},
    ),
    "value-underflow": Case(
        "high",
        {**BROKEN, "family": "mul", "lost_share": 0.4, "flushed": 9, "absmax": 1e-6},
        {"lost_share": 0.01},
    ),
    "second-moments-underflow": Case("medium", {**STEP, "moments_flushed": 0.6}, {"moments_flushed": 0.01}),
    "updates-below-half-ulp": Case(
        "medium", {**STEP, "precision": "bf16", "updates_lost": 0.6}, {"updates_lost": 0.01}
    ),
    "clip-of-scaled-gradients": Case(
        "high",
        {"phase": "source", "fault": "clip-of-scaled-gradients", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "optimizer-step-bypasses-scaler": Case(
        "high",
        {"phase": "source", "fault": "optimizer-step-bypasses-scaler", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "scaler-update-missing": Case(
        "high",
        {"phase": "source", "fault": "scaler-update-missing", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "scaler-updated-twice": Case(
        "medium",
        {"phase": "source", "fault": "scaler-updated-twice", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "unscale-out-of-turn": Case(
        "high",
        {"phase": "source", "fault": "unscale-out-of-turn", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "backward-without-scale": Case(
        "high",
        {"phase": "source", "fault": "backward-without-scale", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "scaler-step-without-gradients": Case(
        "high",
        {"phase": "source", "fault": "scaler-step-without-gradients", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "scaler-with-bf16": Case(
        "medium",
        {"phase": "source", "fault": "scaler-with-bf16", "proven": True, "precision": "bf16"},
        {"fault": ""},
    ),
    "half-weights-with-scaler": Case(
        "high",
        {"phase": "source", "fault": "half-weights-with-scaler", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "gradient-norm-in-half": Case(
        "high",
        {"phase": "source", "fault": "gradient-norm-in-half", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "gradient-penalty-unscaled": Case(
        "medium",
        {"phase": "source", "fault": "gradient-penalty-unscaled", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "custom-function-without-custom-fwd": Case(
        "high",
        {
            "phase": "source",
            "fault": "custom-function-without-custom-fwd",
            "proven": True,
            "precision": "fp16",
        },
        {"fault": ""},
    ),
    "loss-from-half-outputs": Case(
        "medium",
        {"phase": "source", "fault": "loss-from-half-outputs", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "no-grad-pass-in-same-autocast": Case(
        "low",
        {"phase": "source", "fault": "no-grad-pass-in-same-autocast", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "nonfinite-gradients-replaced": Case(
        "medium",
        {"phase": "source", "fault": "nonfinite-gradients-replaced", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "scaler-not-in-checkpoint": Case(
        "medium",
        {"phase": "source", "fault": "scaler-not-in-checkpoint", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "half-inputs-outside-autocast": Case(
        "high",
        {"phase": "source", "fault": "half-inputs-outside-autocast", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "deprecated-amp-api": Case(
        "info",
        {"phase": "source", "fault": "deprecated-amp-api", "proven": True, "precision": "fp16"},
        {"fault": ""},
    ),
    "gradients-outside-the-scale": Case(
        "low",
        {
            "phase": "backward",
            "family": "matmul",
            "precision": "fp16",
            "mode": "autocast",
            "flushed_at_scale": 0.5,
        },
        {"flushed_at_scale": 0.1},
    ),
    "nonfinite-in-fp32": Case("high", {"fp32_nonfinite": 3}, {"fp32_nonfinite": 0}),
    "product-overflow": Case("high", {**BROKEN, **BEYOND, "family": "matmul"}, {**WITHIN, "headroom": 2.5}),
    "sum-overflow": Case("high", {**BROKEN, **BEYOND, "family": "add"}, {"origin": False}),
    "square-overflow": Case("high", {**BROKEN, **BEYOND, "family": "mul"}, {"phase": "backward"}),
    "exponential-overflow": Case("high", {**BROKEN, **BEYOND, "family": "exponential"}, WITHIN),
    "reduction-overflow": Case("high", {**BROKEN, **BEYOND, "family": "reduction"}, {"origin": False}),
    "cast-overflow": Case("high", {**BROKEN, **BEYOND, "family": "cast"}, WITHIN),
    "activation-overflow": Case("high", {**BROKEN, **NAN, "family": "mul"}, {"origin": False}),
    "constant-does-not-fit": Case(
        "high", {"refused_by": "constant", "family": "mask_fill"}, {"refused_by": ""}
    ),
    "constant-vanishes": Case(
        "high",
        {
            **BROKEN,
            "family": "add",
            "constant_name": "other",
            "constant_value": 1e-8,
            "constant_vanishes": True,
        },
        {"constant_value": 1e-4, "constant_vanishes": False},
    ),
    "constant-overflows": Case(
        "high",
        {
            **BROKEN,
            "family": "mul",
            "constant_name": "other",
            "constant_value": -1e12,
            "constant_overflows": True,
        },
        {"constant_value": -1e4, "constant_overflows": False},
    ),
    "masked-softmax-row": Case(
        "high", {**BROKEN, **NAN, "family": "softmax", "masked_rows": 2}, {"masked_rows": 0}
    ),
    "softmax-precision": Case("medium", {**DEGRADED, "family": "softmax"}, {"culprit": False}),
    "norm-statistics": Case("medium", {**DEGRADED, "family": "variance"}, {"culprit": False}),
    "reduction-precision": Case("medium", {**DEGRADED, "family": "reduction"}, {"verdict": "ok"}),
    "division-by-vanished": Case(
        "high",
        {**BROKEN, **NAN, "family": "div", "denominator": 0.0, "vanished_denominators": 3},
        {"nonfinite": 0, "denominator": 1e-4, "vanished_denominators": 0},
    ),
    "division-precision": Case("medium", {**DEGRADED, "family": "div"}, {"verdict": "ok"}),
    "log-exp-precision": Case("medium", {**DEGRADED, "family": "logarithm"}, {"verdict": "ok"}),
    "gradient-of-root-at-zero": Case(
        "high",
        {**BROKEN, **NAN, "family": "div", "phase": "backward"},
        {"absmax": 131008.0, "headroom": -1.0},
    ),
    "cancellation": Case(
        "medium",
        {**DEGRADED, "family": "add", "cancellation": 6.0, "amplification": 64.0},
        {"cancellation": 1.0, "amplification": 2.0},
    ),
    "absorbed-increment": Case("medium", {**DEGRADED, "family": "add", "absorbed": 0.9}, {"absorbed": 0.1}),
    # 4097 is no FP16 number: counts of it are rounded; counts up to 300 are exact.
    "count-saturates": Case(
        "medium", {**DEGRADED, "family": "accumulate", "absmax": 4097.0}, {"absmax": 300.0}
    ),
    "integers-in-half": Case(
        "medium", {**DEGRADED, "family": "position", "integers": True, "absmax": 4095.0}, {"absmax": 2047.0}
    ),
    "decision-flips": Case(
        "medium", {**DEGRADED, "family": "decision", "flips": 3, "flip_share": 0.03}, {"flips": 0}
    ),
    "argument-too-large": Case(
        "medium", {**DEGRADED, "family": "trig", "input_absmax": 1000.0}, {"culprit": False}
    ),
    "loss-precision": Case("medium", {**DEGRADED, "family": "loss"}, {"culprit": False}),
    "gradient-underflow": Case(
        "medium",
        {**DEGRADED, "family": "matmul", "phase": "backward", "lost": 60, "lost_share": 0.6},
        {"lost": 1, "lost_share": 0.01},
    ),
    "gradient-overflow": Case(
        "high", {**BROKEN, **BEYOND, "family": "matmul", "phase": "backward"}, {"origin": False}
    ),
    "no-half-kernel": Case("high", {"refused_by": "no-half-kernel", "family": "linalg"}, {"refused_by": ""}),
    "autocast-refuses": Case("high", {"refused_by": "autocast", "family": "loss"}, {"refused_by": ""}),
    "dtype-mismatch": Case("high", {"refused_by": "dtype-mismatch", "family": "matmul"}, {"refused_by": ""}),
    "step-fails": Case("high", {"refused_by": "error", "family": "other"}, {"refused_by": ""}),
    "tf32-precision": Case(
        "medium", {**DEGRADED, "family": "matmul", "precision": "tf32"}, {"verdict": "ok"}
    ),
    "precision-loss": Case("medium", {**DEGRADED, "family": "interpolate"}, {"verdict": "ok"}),
    "tensor-cores-idle": Case(
        "info",
        {
            "family": "matmul",
            "product": True,
            "tensor_cores": True,
            "low": True,
            "misaligned": "N = 30522",
            "numel": 10**6,
        },
        {"misaligned": ""},
    ),
}


def facts_with(**known: Any) -> dict[str, Any]:
    unknown = set(known) - set(VOCABULARY)
    assert not unknown, f"no such fact: {unknown}"
    return {**defaults(), **FORMATS[known.get("precision", "fp16")], **known}


def hits_of(facts: dict[str, Any], rules: tuple[Rule, ...] = tuple(RULES.values())) -> list[Hit]:
    hits, statuses = evaluate(rules, [(facts, Site("m", "model.py", 1, "emulated"))])
    assert not [s for s in statuses if s.status == "error"]
    return hits


def test_every_rule_has_a_case_and_every_case_a_rule() -> None:
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_fires(name: str) -> None:
    case = CASES[name]
    [hit] = hits_of(facts_with(**case.fires))
    assert (hit.rule.name, hit.level.severity) == (name, case.severity)


@pytest.mark.parametrize("name", RULES)
def test_twin_is_silent(name: str) -> None:
    case = CASES[name]
    assert hits_of(facts_with(**{**case.fires, **case.twin}), (RULES[name],)) == []


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "verdict" in case.fires])
def test_same_fault_is_medium_when_the_run_is_only_degraded(name: str) -> None:
    case = CASES[name]
    # A forward value that became infinite is high whatever became of it later.
    infinite = case.fires.get("origin") and case.fires.get("phase", "forward") == "forward"
    lesser = "high" if infinite and name.endswith("-overflow") else "medium"
    for verdict, severity in (("broken", "high"), ("degraded", lesser)):
        [hit] = hits_of(facts_with(**{**case.fires, "verdict": verdict}), (RULES[name],))
        assert hit.level.severity == severity


def test_a_sum_that_overflows_is_no_cancellation() -> None:
    [hit] = hits_of(
        facts_with(**BROKEN, **BEYOND, family="add", error=float("inf"), amplification=float("inf"))
    )
    assert hit.rule.name == "sum-overflow"


def test_advice_on_tf32_is_not_to_compute_in_float32() -> None:
    """The tensors are float32 already; what helps is to keep TF32 off."""
    [hit] = hits_of(facts_with(**DEGRADED, precision="tf32", family="add", cancellation=6.0))
    assert hit.rule.name == "tf32-precision"


@pytest.mark.parametrize(
    "name", ["optimizer-eps-vanishes", "second-moments-underflow", "updates-below-half-ulp"]
)
def test_an_assumed_optimizer_is_no_proof(name: str) -> None:
    [hit] = hits_of(facts_with(**CASES[name].fires, assumed=True), (RULES[name],))
    assert hit.level.severity == "low"


def test_margin_below_overflow_is_a_low_with_its_binades() -> None:
    near = facts_with(family="matmul", low=True, absmax=16376.0, headroom=2.0)
    assert hits_of(near) == []
    [hit] = hits_of({**near, "absmax": 32752.0, "headroom": 1.0})
    assert (hit.rule.name, hit.level.severity) == ("product-overflow", "low")


def test_unneeded_epsilon_is_low() -> None:
    [hit] = hits_of(
        facts_with(
            family="add",
            low=True,
            low_output=True,
            constant_vanishes=True,
            constant_name="other",
            constant_value=1e-8,
        )
    )
    assert (hit.rule.name, hit.level.severity) == ("constant-vanishes", "low")


def test_an_op_the_mode_leaves_in_float32_is_silent() -> None:
    assert hits_of(facts_with(family="softmax", low=False, absmax=6e4, headroom=0.1)) == []


FACTS = {
    str: st.sampled_from(["", "x"]),
    bool: st.booleans(),
    int: st.sampled_from([0, 1, 10**6]),
    float: st.sampled_from([0.0, 1e-9, 0.5, 3.0, 70000.0, float("inf"), float("nan")]),
}
ANY_FACTS = st.fixed_dictionaries(
    {
        **{name: FACTS[type(fact.default)] for name, fact in VOCABULARY.items()},
        "family": st.sampled_from(
            [*sorted({f for r in RULES.values() for f in r.file.families} - {"*"}), "other"]
        ),
        "phase": st.sampled_from(["forward", "backward"]),
        "precision": st.sampled_from(["fp16", "bf16", "tf32"]),
        "mode": st.sampled_from(["autocast", "pure"]),
        "verdict": st.sampled_from(["ok", "degraded", "broken"]),
        "refused_by": st.sampled_from(
            ["", "", "", "autocast", "no-half-kernel", "dtype-mismatch", "constant", "error"]
        ),
    }
)


@given(ANY_FACTS)
def test_serious_only_with_proof(facts: dict[str, Any]) -> None:
    """No rule is high or medium unless the op raised, FP32 itself is non-finite, or the run came out badly
    and this op is to blame."""
    for rule in RULES.values():
        for hit in hits_of(facts, (rule,)):
            proven = facts["refused_by"] or facts["fp32_nonfinite"]
            if hit.level.severity in ("high", "medium") and not proven:
                assert facts["culprit"]
                arises = facts["nonfinite"] > 0 and facts["origin"] and facts["verdict"] != "ok"
                badly = {"high": "broken", "medium": "degraded"}[hit.level.severity]
                assert facts["verdict"] == badly or (hit.level.severity == "high" and arises)


@given(ANY_FACTS)
def test_no_culprit_goes_unreported(facts: dict[str, Any]) -> None:
    if facts["culprit"] and facts["verdict"] != "ok":
        [hit] = hits_of(facts)
        assert hit.level.severity in ("high", "medium")


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_doc_shows_a_bad_line_and_a_better_one(rule: Rule) -> None:
    doc = rule.file.doc
    assert doc.example.strip() != doc.instead.strip()
    compile(doc.example, rule.name, "exec")
    compile(doc.instead, rule.name, "exec")
