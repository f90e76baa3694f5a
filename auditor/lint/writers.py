"""How the findings of `ampaudit lint` are printed: text, JSON, SARIF, Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from auditor import __version__
from auditor.contract import SCHEMA_VERSION, Finding, Suppressed

Writer = Callable[[Sequence[Finding], Sequence[Suppressed], Sequence[str]], str]


def _plain(text: str) -> str:
    """Text without control characters, for a terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def _place(finding: Finding) -> str:
    return f"{finding.file}:{finding.line}"


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _text(findings: Sequence[Finding], suppressed: Sequence[Suppressed], files: Sequence[str]) -> str:
    out = []
    for f in findings:
        out.append(_plain(f"{_place(f)}: {f.rule} {f.severity} {f.message}"))
        out.append(_plain(f"    fix: {f.fix}"))
    ignored = f", {len(suppressed)} ignored by comments" if suppressed else ""
    out.append(f"{_count(findings, 'finding')} in {_count(files, 'file')}{ignored}")
    return "\n".join(out) + "\n"


def _json(findings: Sequence[Finding], suppressed: Sequence[Suppressed], files: Sequence[str]) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ampaudit", "version": __version__},
        "files": list(files),
        "findings": [f.model_dump(mode="json") for f in findings],
        "suppressed": [s.model_dump(mode="json") for s in suppressed],
    }
    return json.dumps(document, indent=1) + "\n"


def _markdown(findings: Sequence[Finding], suppressed: Sequence[Suppressed], files: Sequence[str]) -> str:
    from auditor.report.markdown import escaped

    out = [f"### ampaudit lint: {_count(findings, 'finding')} in {_count(files, 'file')}", ""]
    for f in findings:
        named = escaped(f"{_place(f)} {f.name} ({f.rule})")
        out.append(f"- **{f.severity}** {named}: {escaped(f.message)} *Fix:* {escaped(f.fix)}")
    return "\n".join(out).rstrip() + "\n"


def _sarif(findings: Sequence[Finding], suppressed: Sequence[Suppressed], files: Sequence[str]) -> str:
    from auditor.report.sarif import LEVEL, physical

    named = {f.rule: f for f in (*findings, *(s.finding for s in suppressed))}
    rules = list(named)

    def result(f: Finding) -> dict[str, Any]:
        return {
            "ruleId": f.rule,
            "ruleIndex": rules.index(f.rule),
            "level": LEVEL[f.severity],
            "message": {"text": f"{f.message} Fix: {f.fix}"},
            "locations": [{"physicalLocation": physical(str(Path(f.file or "")), f.line)}],
            "partialFingerprints": {"ampaudit/v1": f.id},
            "properties": {"severity": f.severity, "phase": f.phase},
        }

    silenced = [
        {**result(s.finding), "suppressions": [{"kind": "inSource", "justification": s.reason}]}
        for s in suppressed
    ]
    driver = {
        "name": "ampaudit",
        "version": __version__,
        "rules": [
            {
                "id": r,
                "name": f.name,
                "shortDescription": {"text": f.name.replace("-", " ")},
                "help": {"text": f.fix},
            }
            for r, f in named.items()
        ],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [*map(result, findings), *silenced],
    }
    document = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1) + "\n"


WRITERS: dict[str, Writer] = {"text": _text, "json": _json, "sarif": _sarif, "md": _markdown}
