"""JUnit XML as Jenkins and GitLab read it: the gate's checks, the modes and the rules as test cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

from auditor.contract import Audit, Check, Finding
from auditor.report import words
from auditor.report.answers import SERIOUS


@dataclass(frozen=True)
class _Case:
    """`outcome`: passed, failure, error, or skipped."""

    group: str
    name: str
    outcome: str
    message: str = ""
    details: str = ""
    file: str | None = None
    line: int | None = None


def render_junit(audit: Audit) -> str:
    cases = list(_cases(audit))
    suites = ElementTree.Element("testsuites", name="ampaudit")
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name=_text(audit.gate.name if audit.gate else audit.subject.source),
        tests=str(len(cases)),
        failures=str(sum(c.outcome == "failure" for c in cases)),
        errors=str(sum(c.outcome == "error" for c in cases)),
        skipped=str(sum(c.outcome == "skipped" for c in cases)),
        timestamp=audit.created[:19],
        time=f"{audit.environment.seconds:.3f}",
    )
    for case in cases:
        where: dict[str, str] = {"file": _text(case.file), "line": str(case.line or 1)} if case.file else {}
        node = ElementTree.SubElement(
            suite,
            "testcase",
            {"classname": f"ampaudit.{case.group}", "name": _text(case.name), "time": "0", **where},
        )
        if case.outcome == "skipped":
            ElementTree.SubElement(node, "skipped", message=_text(case.message))
        elif case.outcome != "passed":
            told = ElementTree.SubElement(node, case.outcome, message=_text(case.message), type=case.group)
            told.text = _text(case.details)
    ElementTree.indent(suites)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"
    )


def _cases(audit: Audit) -> Iterator[_Case]:
    for check in audit.gate.checks if audit.gate else ():
        yield _check(check, audit)
    for finding in audit.findings:
        if finding.severity in SERIOUS:
            yield _finding(finding, fails=audit.gate is None and audit.mode in finding.modes)
    for rule in audit.rules:
        if rule.status == "error":
            yield _Case("rules", rule.rule, "error", "the rule itself failed", rule.detail)
        elif rule.status == "not_applicable":
            yield _Case("rules", rule.rule, "skipped", "nothing in this model it could be checked on")
        elif rule.status == "silent":
            yield _Case("rules", f"{rule.rule} ({rule.evaluated} times)", "passed")


def _check(check: Check, audit: Audit) -> _Case:
    outcome = {"pass": "passed", "fail": "failure", "inconclusive": "error"}[check.outcome]
    message = f"expected {check.operator} {check.expected}, is {check.actual}"
    found = [f for f in audit.findings if f.id in check.findings]
    details = [
        check.note,
        *(f"{words.place(f)} {f.name} [{f.rule}]: {f.message} Fix: {f.fix}" for f in found),
    ]
    first = next((f for f in found if f.file), None)
    return _Case(
        "gate",
        check.name,
        outcome,
        message,
        "\n".join(filter(None, details)),
        first.file if first else None,
        first.line if first else None,
    )


def _finding(finding: Finding, *, fails: bool) -> _Case:
    """Under a gate the checks decide; findings are then listed as skipped, with what they say."""
    return _Case(
        "findings",
        f"{finding.rule} {finding.name} at {words.place(finding)}",
        "failure" if fails else "skipped",
        finding.message,
        f"{finding.message}\nFix: {finding.fix}",
        finding.file,
        finding.line,
    )


def _text(text: str | None) -> str:
    """Without the characters XML 1.0 cannot hold."""
    return "".join(
        c
        if c in "\t\n\r" or "\x20" <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c >= "\U00010000"
        else "\ufffd"
        for c in text or ""
    )
