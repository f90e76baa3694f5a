"""SARIF 2.1.0 (OASIS, 2020) for code scanning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from auditor.contract import SEVERITIES, Audit, ChainLink, Finding
from auditor.report.words import source_file

LEVEL = {"high": "error", "medium": "warning", "low": "note", "info": "note"}
_MOST = 5000  # what GitHub's code scanning keeps of one run


def _uri(path: str) -> str:
    """Relative to the working directory where the file lies below it, as code scanning wants it."""
    absolute = Path(path).absolute()
    try:
        return quote(absolute.relative_to(Path.cwd()).as_posix())
    except ValueError:
        return absolute.as_uri()


def physical(file: str, line: int | None) -> dict[str, Any]:
    return {"artifactLocation": {"uri": _uri(file)}, "region": {"startLine": line or 1}}


def _related(number: int, link: ChainLink) -> dict[str, Any]:
    where = {"physicalLocation": physical(link.file, link.line)} if link.file else {}
    return {
        "id": number,
        **where,
        "message": {"text": f"{link.op} in {link.module or 'the model'}: {link.note}"},
    }


def _result(finding: Finding, audit: Audit, rules: list[str]) -> dict[str, Any]:
    # Code scanning drops results without a file, so a finding without one stands at the model's first line.
    file = finding.file or source_file(audit.subject.source)
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": LEVEL[finding.severity],
        "message": {"text": f"{finding.message} Fix: {finding.fix}"},
        "locations": [
            {
                "physicalLocation": physical(file, finding.line if finding.file else None),
                "logicalLocations": [
                    {"fullyQualifiedName": finding.module or audit.subject.model_type, "kind": "module"}
                ],
            }
        ],
        "partialFingerprints": {"ampaudit/v1": finding.id},
        "properties": {
            "severity": finding.severity,
            "precisions": list(finding.precisions),
            "modes": list(finding.modes),
            "phase": finding.phase,
            "evidence": finding.evidence.model_dump(mode="json"),
        },
    }
    if len(finding.chain) > 1:
        result["relatedLocations"] = [_related(i, link) for i, link in enumerate(finding.chain)]
    return result


def render_sarif(audit: Audit) -> str:
    """One run; the worst results first, and `properties.resultsLeftOut` says how many did not fit."""
    suppressed = [s.finding for s in audit.suppressed]
    named = {f.rule: f for f in (*audit.findings, *suppressed)}
    rules = list(named)
    results = [
        _result(f, audit, rules) for f in sorted(audit.findings, key=lambda f: SEVERITIES.index(f.severity))
    ]
    results += [
        {
            **_result(s.finding, audit, rules),
            "suppressions": [{"kind": "external", "justification": s.reason}],
        }
        for s in audit.suppressed
    ]
    driver = {
        "name": audit.tool.name,
        "version": audit.tool.version,
        "rules": [
            {
                "id": rule,
                "name": f.name,
                "shortDescription": {"text": f.name.replace("-", " ")},
                "help": {"text": f.fix},
            }
            for rule, f in named.items()
        ],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": results[:_MOST],
        "properties": {
            "verdict": audit.verdict,
            "target": audit.target.name,
            "resultsLeftOut": max(len(results) - _MOST, 0),
        },
    }
    document = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1) + "\n"
