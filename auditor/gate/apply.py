"""A policy's severities and suppressions put on an audit: what is off, graded otherwise, or accepted."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from fnmatch import fnmatchcase

from auditor.contract import SEVERITIES, Audit, Finding, StaleSuppression, Suppressed, Verdict
from auditor.errors import UsageProblem, near_names
from auditor.gate.policy import Ignore, Policy
from auditor.judge.grade import grade

_RANK = {severity: rank for rank, severity in enumerate(SEVERITIES)}


def with_policy(audit: Audit, policy: Policy, today: datetime.date) -> Audit:
    """The audit under `policy`, its verdict graded anew.

    Suppressions of the source that have expired since the audit was written no longer hold.
    """
    expired = [s for s in audit.suppressed if s.expires is not None and s.expires < today]
    kept = [s for s in audit.suppressed if s not in expired]
    graded = [g for f in (*audit.findings, *(s.finding for s in expired)) if (g := _graded(f, policy))]
    standing: list[Finding] = []
    for finding in graded:
        accepted = next((i for i in policy.ignore if _holds(i, today) and _names(i, finding)), None)
        if accepted is None:
            standing.append(finding)
        else:
            kept.append(
                Suppressed(finding=finding, reason=accepted.reason, expires=accepted.expires, by="config")
            )
    standing.sort(key=lambda f: (_RANK[f.severity], f.file or "", f.line or 0))
    stale = [*audit.stale, *(_expired(s) for s in expired), *_stale(policy.ignore, graded, today)]
    changed = audit.model_copy(
        update={"findings": tuple(standing), "suppressed": tuple(kept), "stale": tuple(stale)}
    )
    return changed.model_copy(update={"verdict": _verdict(changed)})


def check_rules(policy: Policy, known: set[str]) -> None:
    """Raises UsageProblem on a rule nobody knows, with near names."""
    for key, rules in (("severity", list(policy.severity)), ("ignore", [i.rule for i in policy.ignore])):
        for rule in rules:
            if rule != "*" and rule not in known:
                raise UsageProblem(f"unknown rule {rule!r}{near_names(rule, known)}", where=f"policy.{key}")


def _graded(finding: Finding, policy: Policy) -> Finding | None:
    severity = policy.severity.get(finding.rule) or policy.severity.get(finding.name)
    if severity == "off":
        return None
    return finding if severity is None else finding.model_copy(update={"severity": severity})


def _holds(ignore: Ignore, today: datetime.date) -> bool:
    return ignore.expires is None or ignore.expires >= today


def _names(ignore: Ignore, finding: Finding) -> bool:
    file = finding.file or ""
    return (
        ignore.rule in ("*", finding.rule, finding.name)
        and any(fnmatchcase(m, ignore.module) for m in (finding.module, *finding.also_at))
        and (fnmatchcase(file, ignore.file) or fnmatchcase(file, f"*/{ignore.file}"))
    )


def _expired(suppressed: Suppressed) -> StaleSuppression:
    finding = suppressed.finding
    where = f"{finding.file}:{finding.line}" if finding.file else finding.module
    return StaleSuppression(where=where, rules=(finding.rule,), why=f"it expired on {suppressed.expires}")


def _stale(
    ignores: Iterable[Ignore], findings: Iterable[Finding], today: datetime.date
) -> Iterable[StaleSuppression]:
    findings = list(findings)
    for number, ignore in enumerate(ignores):
        why = "" if any(_names(ignore, f) for f in findings) else "nothing of that kind is found"
        if not _holds(ignore, today):
            why = f"it expired on {ignore.expires}"
        if why:
            yield StaleSuppression(where=f"policy.ignore[{number}]", rules=(ignore.rule,), why=why)


def _verdict(audit: Audit) -> Verdict:
    """The verdict the findings now give; what no finding tells (an unsound model, a plan that fails, nothing
    measured) stays as it was."""
    reference = audit.modes.get("fp32")
    unsound = reference is not None and reference.verdict == "broken"
    if unsound or audit.verification.holds is False:
        return "fail"
    if audit.subject.capture == "symbolic":
        return audit.verdict
    return grade(audit.findings, audit.mode, [p for p in ("fp16", "bf16") if p in audit.target.precisions])
