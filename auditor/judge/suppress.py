"""Suppressions in the source: `# ampaudit: ignore[RULE, ...] reason` on the line or the one above it."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence

from auditor.contract import Finding, Suppressed

_COMMENT = re.compile(r"#\s*ampaudit:\s*ignore\[([^\]]+)\]\s*(\S.*)?$")


def _reason(finding: Finding) -> str | None:
    """The reason given for ignoring this finding; a comment without a reason does not count."""
    if finding.file is None or finding.line is None:
        return None
    own = linecache.getline(finding.file, finding.line)
    above = linecache.getline(finding.file, finding.line - 1).strip() if finding.line > 1 else ""
    for text in (own, above if above.startswith("#") else ""):
        match = _COMMENT.search(text.rstrip())
        if match is None or not match[2]:
            continue
        named = {name.strip() for name in match[1].split(",")}
        if named & {finding.rule, finding.name}:
            return match[2].strip()
    return None


def split_suppressed(findings: Sequence[Finding]) -> tuple[list[Finding], tuple[Suppressed, ...]]:
    """(findings that stand, findings the source suppresses with their reasons)."""
    reasons = [_reason(finding) for finding in findings]
    standing = [f for f, reason in zip(findings, reasons, strict=True) if reason is None]
    suppressed = [
        Suppressed(finding=f, reason=reason)
        for f, reason in zip(findings, reasons, strict=True)
        if reason is not None
    ]
    return standing, tuple(suppressed)
