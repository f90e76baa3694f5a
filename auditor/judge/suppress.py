"""Suppressions in the source: `# ampaudit: ignore[RULE, ...] reason` on the line or the one above it.

`ignore[RULE] until 2030-01-31: reason` holds up to and including that day.
"""

from __future__ import annotations

import datetime
import io
import linecache
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from auditor.contract import Finding, StaleSuppression, Suppressed

_COMMENT = re.compile(
    r"#\s*ampaudit:\s*ignore\[([^\]]+)\]\s*(?:until\s+(\d{4}-\d\d-\d\d)\b[:,]?\s*)?(\S.*)?$"
)


@dataclass(frozen=True)
class _Comment:
    line: int
    rules: tuple[str, ...]
    expires: datetime.date | None
    reason: str

    def flaw(self, today: datetime.date) -> str:
        """Why it does not count, or nothing."""
        if not self.reason:
            return "it gives no reason"
        if self.expires is not None and self.expires < today:
            return f"it expired on {self.expires}"
        return ""


def _parsed(text: str, line: int) -> _Comment | None:
    match = _COMMENT.search(text.rstrip())
    if match is None:
        return None
    rules = tuple(name.strip() for name in match[1].split(",") if name.strip())
    try:
        expires = datetime.date.fromisoformat(match[2]) if match[2] else None
    except ValueError:  # a day no calendar has: it never held
        expires = datetime.date.min
    return _Comment(line, rules, expires, (match[3] or "").strip())


def _comment_of(finding: Finding) -> _Comment | None:
    """The comment that names this finding, whether or not it counts."""
    if finding.file is None or finding.line is None:
        return None
    own = linecache.getline(finding.file, finding.line)
    above = linecache.getline(finding.file, finding.line - 1).strip() if finding.line > 1 else ""
    for text, line in ((own, finding.line), (above if above.startswith("#") else "", finding.line - 1)):
        comment = _parsed(text, line)
        if comment is not None and {finding.rule, finding.name} & set(comment.rules):
            return comment
    return None


def split_suppressed(findings: Sequence[Finding]) -> tuple[list[Finding], tuple[Suppressed, ...]]:
    """(findings that stand, findings the source suppresses with their reasons)."""
    today = datetime.date.today()
    standing, suppressed = [], []
    for finding in findings:
        comment = _comment_of(finding)
        if comment is None or comment.flaw(today):
            standing.append(finding)
        else:
            suppressed.append(Suppressed(finding=finding, reason=comment.reason, expires=comment.expires))
    return standing, tuple(suppressed)


def _comments(file: str) -> Iterator[_Comment]:
    """The suppressions of a file: in comments alone, not in strings that look like one."""
    text = "".join(linecache.getlines(file))
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        if token.type == tokenize.COMMENT:
            comment = _parsed(token.string, token.start[0])
            if comment is not None:
                yield comment


def stale_comments(files: Iterable[str], suppressed: Sequence[Suppressed]) -> tuple[StaleSuppression, ...]:
    """Suppressions in `files` that silence nothing: expired, without a reason, or without a finding."""
    today = datetime.date.today()
    used = {(s.finding.file, line) for s in suppressed for line in _lines(s)}
    stale = []
    for file in sorted(files):
        if "site-packages" in file:
            continue
        for comment in _comments(file):
            why = comment.flaw(today)
            if not why and (file, comment.line) not in used:
                why = "nothing of that kind is found there"
            if why:
                stale.append(StaleSuppression(where=f"{file}:{comment.line}", rules=comment.rules, why=why))
    return tuple(stale)


def _lines(suppressed: Suppressed) -> tuple[int, ...]:
    line = suppressed.finding.line or 0
    return line, line - 1
