from xml.etree import ElementTree

from junitparser import Error, Failure, JUnitXml

from auditor.contract import Audit, Check, GateResult
from auditor.report.junit import render_junit


def test_a_reader_of_junit_finds_the_failures(audit: Audit) -> None:
    [suite] = JUnitXml.fromstring(render_junit(audit))
    serious = [f for f in audit.findings if f.severity in ("high", "medium") and "autocast" in f.modes]
    assert suite.failures == len(serious) > 0 and suite.tests == len(list(suite))


def test_the_gates_checks_decide_where_there_is_a_gate(audit: Audit) -> None:
    checks = (
        Check(name="a", outcome="pass", expected="1", operator="==", actual="1"),
        Check(
            name="b",
            outcome="fail",
            expected="0",
            operator="==",
            actual="1",
            findings=(audit.findings[0].id,),
        ),
        Check(name="c", outcome="inconclusive", expected="1", operator="<=", actual="not known"),
    )
    gate = GateResult(name="net", outcome="fail", checks=checks)
    [suite] = JUnitXml.fromstring(render_junit(audit.model_copy(update={"gate": gate})))
    results = {case.name: [type(r) for r in case.result] for case in suite}
    assert (results["a"], results["b"], results["c"]) == ([], [Failure], [Error])
    broken = sum(rule.status == "error" for rule in audit.rules)
    assert (suite.failures, suite.errors) == (1, 1 + broken)


def test_hostile_texts_stay_text(hostile: Audit) -> None:
    bad = hostile.findings[0].model_copy(update={"message": "\x00\x1b</testcase>\ud800"})
    text = render_junit(hostile.model_copy(update={"findings": (bad,)}))
    root = ElementTree.fromstring(text)
    assert len(list(root.iter("testcase"))) == int(root[0].attrib["tests"])
