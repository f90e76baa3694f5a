"""SARIF 2.1.0 for code scanning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from auditor.contract import Audit, Finding

_LEVEL = {"high": "error", "medium": "warning", "low": "note", "info": "note"}
_MOST = 5000  # what GitHub code scanning keeps; findings are sorted by severity


def _uri(path: str) -> str:
    try:
        path = str(Path(path).resolve().relative_to(Path.cwd()))
    except ValueError:
        pass
    return quote(Path(path).as_posix())


def _result(finding: Finding, audit: Audit) -> dict[str, Any]:
    return {
        "ruleId": finding.rule,
        "level": _LEVEL[finding.severity],
        "message": {"text": f"{finding.message} {finding.fix}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(finding.file or audit.subject.source)},
                    "region": {"startLine": finding.line or 1},
                },
                "logicalLocations": [{"fullyQualifiedName": finding.module or audit.subject.model_type, "kind": "module"}],
            }
        ],
        "partialFingerprints": {"ampaudit/v1": finding.id},
        "properties": {"precisions": list(finding.precisions), "modes": list(finding.modes), "phase": finding.phase},
    }


def render_sarif(audit: Audit) -> str:
    rules = {f.rule: f for f in audit.findings}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": audit.tool.name,
                        "version": audit.tool.version,
                        "rules": [{"id": i, "name": f.name, "shortDescription": {"text": f.name.replace("-", " ")}} for i, f in rules.items()],
                    }
                },
                "results": [_result(f, audit) for f in audit.findings[:_MOST]],
            }
        ],
    }
    return json.dumps(document, indent=1) + "\n"
