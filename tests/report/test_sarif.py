"""SARIF 2.1.0: valid by the schema, every result at a line, the worst first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from auditor.contract import Audit
from auditor.report.sarif import render_sarif

SCHEMA = Path(__file__).with_name("sarif-2.1.0-rtm.5.json")


def _run(audit: Audit) -> dict[str, Any]:
    run: dict[str, Any] = json.loads(render_sarif(audit))["runs"][0]
    return run


@pytest.mark.parametrize("which", ["audit", "hostile"])
def test_valid_by_the_official_schema(which: str, request: pytest.FixtureRequest) -> None:
    document = json.loads(render_sarif(request.getfixturevalue(which)))
    jsonschema.Draft4Validator(json.loads(SCHEMA.read_text())).validate(document)


def test_results_stand_at_their_lines(audit: Audit) -> None:
    results = _run(audit)["results"]
    assert [r["level"] for r in results] == ["error", "warning", "note", "note", "note"]
    place = results[0]["locations"][0]
    assert place["physicalLocation"]["region"]["startLine"] == 25
    assert place["logicalLocations"] == [{"fullyQualifiedName": "blocks.1.ff.wo", "kind": "module"}]
    assert [r["physicalLocation"]["region"]["startLine"] for r in results[0]["relatedLocations"]] == [
        25,
        29,
        38,
    ]


def test_a_file_below_the_working_directory_is_relative(
    audit: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    finding = audit.findings[0].model_copy(update={"file": str(tmp_path / "a b" / "net.py")})
    location = _run(audit.model_copy(update={"findings": (finding,)}))["results"][0]["locations"][0]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "a%20b/net.py"


def test_without_a_file_the_model_s_first_line_stands_in(audit: Audit) -> None:
    finding = audit.findings[0].model_copy(update={"file": None, "line": None})
    subject = audit.subject.model_copy(update={"source": "net.py:build"})
    location = _run(audit.model_copy(update={"findings": (finding,), "subject": subject}))["results"][0][
        "locations"
    ][0]
    assert location["physicalLocation"] == {"artifactLocation": {"uri": "net.py"}, "region": {"startLine": 1}}


def test_suppressed_findings_say_so(audit: Audit) -> None:
    last = _run(audit)["results"][-1]
    assert last["suppressions"] == [
        {"kind": "external", "justification": "the residual is meant to cancel here"}
    ]


def test_what_does_not_fit_is_counted(audit: Audit) -> None:
    run = _run(audit.model_copy(update={"findings": audit.findings * 1300}))
    assert len(run["results"]) == 5000
    assert run["properties"]["resultsLeftOut"] == 4 * 1300 + 1 - 5000
    assert {r["level"] for r in run["results"][:1300]} == {"error"}
