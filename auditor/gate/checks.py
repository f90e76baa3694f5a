"""A policy's conditions on one audit: what was expected, what is, and how near it came."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from auditor.contract import SEVERITIES, Audit, Check, CheckOutcome, Finding, GateResult, Layer, Precision
from auditor.gate.baseline import is_new_or_worse, worsened_modes
from auditor.gate.policy import Policy
from auditor.report import words
from auditor.subject.limits import parse_memory

_NEAR = 0.02  # of the limit: what another CPU's rounding may move an emulated error by
_NEAR_BINADES = 0.1
_LARGEST = {"fp16": 65504.0, "bf16": 3.3895313892515355e38}  # IEEE 754 binary16; bfloat16


def judge(audit: Audit, policy: Policy, name: str, baseline: Audit | None, cached: bool) -> GateResult:
    """Every condition of `policy` on `audit`; with a baseline only what is new or worse fails."""
    checks = tuple(_checks(audit, policy, baseline))
    outcomes = {check.outcome for check in checks}
    outcome: CheckOutcome = (
        "fail" if "fail" in outcomes else "inconclusive" if "inconclusive" in outcomes else "pass"
    )
    against = f"{baseline.subject.source} of {baseline.created[:10]}" if baseline is not None else None
    return GateResult(name=name, outcome=outcome, checks=checks, baseline=against, cached=cached)


def counted(audit: Audit, policy: Policy) -> list[Finding]:
    """The findings a policy speaks of: in the audit's mode and in a format the model may and can run in."""
    formats: set[Precision] = {p for p in ("fp16", "bf16") if p in audit.target.precisions}
    if policy.precisions is not None:
        formats = set(policy.precisions) - {"fp32"}
    return [f for f in audit.findings if audit.mode in f.modes and formats & set(f.precisions)]


def _checks(audit: Audit, policy: Policy, baseline: Audit | None) -> Iterator[Check]:
    yield _ran(audit)
    if audit.subject.capture != "symbolic":
        yield _sound(audit)
        yield _plan_holds(audit, baseline)
    if policy.fail_on != "never":
        yield _findings(audit, policy, baseline)
    if baseline is not None:
        yield _modes(audit, baseline)
    if policy.precisions is not None:
        yield _precisions(audit, policy.precisions, baseline)
    if policy.max_fp32_time_share is not None:
        yield _limit(
            "share of the time in FP32 layers", audit, baseline, fp32_time_share, "<=",
            policy.max_fp32_time_share, words.percent,
        )  # fmt: skip
    if policy.min_margin_binades is not None:
        yield _limit(
            "range margin", audit, baseline, margin_binades, ">=", policy.min_margin_binades, _binades
        )
    if policy.max_memory is not None:
        yield _limit(
            "memory of a step under the plan", audit, baseline, plan_memory, "<=",
            float(parse_memory(policy.max_memory)), lambda size: words.size(int(size)),
        )  # fmt: skip
    if policy.min_speedup is not None:
        yield _limit(
            "speed of the plan over FP32", audit, baseline, plan_speedup, ">=", policy.min_speedup,
            words.speedup,
        )  # fmt: skip


def _ran(audit: Audit) -> Check:
    run = audit.subject.capture != "symbolic"
    return Check(
        name="the model was run",
        outcome="pass" if run else "inconclusive",
        expected="run",
        operator="is",
        actual="run" if run else "looked at only",
        note=""
        if run
        else "without inputs nothing is measured; offer example_inputs(), or input in the config",
    )


def _sound(audit: Audit) -> Check:
    reference = audit.modes.get("fp32")
    sound = reference is None or reference.verdict != "broken"
    return Check(
        name="the model is sound in FP32",
        outcome="pass" if sound else "fail",
        expected="finite",
        operator="is",
        actual="finite" if sound else "not finite",
        note="" if sound or reference is None else reference.reason,
    )


def _plan_holds(audit: Audit, baseline: Audit | None) -> Check:
    """The plan was executed; its gradient error beside what is tolerated tells how near it came."""
    plan, checked = audit.modes.get("plan"), audit.verification
    error, allowed = plan.gradient_error if plan else None, checked.tolerance
    near = error is not None and allowed > 0 and abs(error - allowed) <= _NEAR * allowed
    note = ""
    outcome: CheckOutcome = "pass"
    if checked.holds is False:
        outcome, note = "fail", checked.reason
        if baseline is not None and baseline.verification.holds is False:
            outcome, note = "pass", "it did not hold in the baseline either"
    elif checked.holds is None and (audit.plan is None or audit.plan.base != "fp32"):
        outcome, note = "inconclusive", checked.reason  # a plan of FP32 is its own reference
    return Check(
        name="gradient error of the plan",
        outcome=outcome,
        expected=words.percent(allowed) if allowed else "as in FP32",
        operator="<=",
        actual=words.percent(error)
        if error is not None
        else "as in FP32"
        if outcome == "pass"
        else "not run",
        near=near,
        note=note,
    )


def _findings(audit: Audit, policy: Policy, baseline: Audit | None) -> Check:
    worst = SEVERITIES[: SEVERITIES.index(policy.fail_on) + 1]
    found = [f for f in counted(audit, policy) if f.severity in worst]
    failing = [f for f in found if baseline is None or is_new_or_worse(f, baseline)]
    known = len(found) - len(failing)
    which = "new or worse findings" if baseline is not None else "findings"
    return Check(
        name=f"{which} of severity {words.listed(worst, 'or')}",
        outcome="fail" if failing else "pass",
        expected="0",
        operator="==",
        actual=str(len(failing)),
        note=f"{words.count(known, 'finding')} known from the baseline" if known else "",
        findings=tuple(f.id for f in failing),
    )


def _modes(audit: Audit, baseline: Audit) -> Check:
    worse = worsened_modes(audit, baseline)
    return Check(
        name="modes worse than in the baseline",
        outcome="fail" if worse else "pass",
        expected="0",
        operator="==",
        actual=str(len(worse)),
        note=", ".join(worse),
    )


def _precisions(audit: Audit, allowed: Sequence[Precision], baseline: Audit | None) -> Check:
    outside = [layer for layer in audit.layers if layer.precision not in allowed]
    before = {layer.module: layer.precision for layer in baseline.layers} if baseline is not None else {}
    failing = [layer for layer in outside if before.get(layer.module) != layer.precision]
    shown = ", ".join(
        f"{layer.module or '(root)'} in {words.PRECISION[layer.precision]}" for layer in failing[:3]
    )
    more = f" and {len(failing) - 3} more" if len(failing) > 3 else ""
    return Check(
        name="layers in a precision that is not allowed",
        outcome="inconclusive" if not audit.layers else "fail" if failing else "pass",
        expected=f"0 outside {words.listed([words.PRECISION[p] for p in allowed])}",
        operator="==",
        actual=str(len(failing)),
        note=shown + more,
    )


def fp32_time_share(audit: Audit) -> tuple[float | None, str]:
    """Share of the layers' time, in the precisions the plan gives them, that FP32 layers take."""
    times = [(layer, _time(layer)) for layer in audit.layers]
    known = [(layer, time) for layer, time in times if time is not None]
    total = sum(time for _, time in known)
    if not total or len(known) < len(times):
        return None, "the time of some layers is not known"
    slow = [(layer, time) for layer, time in known if layer.precision == "fp32"]
    most = max(slow, key=lambda pair: pair[1], default=None)
    kinds = {c.time_kind for layer in audit.layers if (c := layer.candidates.get(layer.precision))}
    how = f"times {words.listed(sorted(filter(None, kinds)))}"
    return sum(t for _, t in slow) / total, f"most in {most[0].module or '(root)'}; {how}" if most else how


def _time(layer: Layer) -> float | None:
    candidate = layer.candidates.get(layer.precision)
    return candidate.time_us if candidate is not None else None


def margin_binades(audit: Audit) -> tuple[float | None, str]:
    """Binades between the largest value of any layer that runs in 16 bit and the end of its format."""
    margins = [
        (math.log2(_LARGEST[layer.precision] / c.absmax), layer)
        for layer in audit.layers
        if layer.precision in _LARGEST
        and (c := layer.candidates.get(layer.precision)) is not None
        and c.absmax
        and math.isfinite(c.absmax)
    ]
    if not audit.layers:
        return None, "no layer was measured"
    if not margins:
        return math.inf, "no layer runs in 16 bit"
    margin, layer = min(margins, key=lambda pair: pair[0])
    return margin, f"least in {layer.module or '(root)'}, {words.PRECISION[layer.precision]}"


def plan_memory(audit: Audit) -> tuple[float | None, str]:
    plan = audit.modes.get("plan")
    if plan is None or plan.memory_bytes is None:
        return None, "its memory is not known"
    return float(plan.memory_bytes), plan.memory_kind or ""


def plan_speedup(audit: Audit) -> tuple[float | None, str]:
    plan = audit.modes.get("plan")
    if plan is None or plan.speedup is None:
        return None, "times are not known"
    return plan.speedup, plan.time_kind or ""


def _binades(value: float) -> str:
    return "unlimited" if math.isinf(value) else f"{value:.2f} binades"


def _limit(
    name: str,
    audit: Audit,
    baseline: Audit | None,
    figure: Callable[[Audit], tuple[float | None, str]],
    operator: str,
    limit: float,
    shown: Callable[[float], str],
) -> Check:
    """A number against its limit. What the baseline broke already fails only when it became worse."""
    actual, note = figure(audit)
    if actual is None:
        return Check(
            name=name,
            outcome="inconclusive",
            expected=shown(limit),
            operator=operator,
            actual="not known",
            note=note,
        )
    slack = _NEAR_BINADES if figure is margin_binades else _NEAR * abs(limit)
    sign = 1.0 if operator == "<=" else -1.0
    holds = sign * (actual - limit) <= 0
    if not holds and baseline is not None:
        before, _ = figure(baseline)
        if before is not None and sign * (actual - before) <= slack:
            holds, note = True, f"{note}; no worse than the baseline's {shown(before)}"
    return Check(
        name=name,
        outcome="pass" if holds else "fail",
        expected=shown(limit),
        operator=operator,
        actual=shown(actual),
        near=abs(actual - limit) <= slack,
        note=note,
    )
