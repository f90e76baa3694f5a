"""What is new or worse than in an earlier audit, and reading that audit."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from auditor.contract import SEVERITIES, Audit, Finding, ModeVerdict, read_audit
from auditor.errors import UsageProblem
from auditor.report import words

_WORSE: dict[ModeVerdict, int] = {"ok": 0, "degraded": 1, "broken": 2}


def read_audit_file(path: Path, where: str) -> Audit:
    """Raises UsageProblem when it is missing or no audit.json of this schema."""
    try:
        return read_audit(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror}", where=where) from None
    except UnicodeDecodeError:
        raise UsageProblem(f"{path} is not text", where=where) from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UsageProblem(
            f"{path} is no audit.json of this version: {key + ': ' if key else ''}{first['msg']}",
            where=where,
            next_step="write one with ampaudit MODEL --format json",
        ) from None


def is_new_or_worse(finding: Finding, baseline: Audit) -> bool:
    """Not known to the baseline by its fingerprint, or of a lower severity there. One the baseline suppressed
    is known."""
    known = (*baseline.findings, *(s.finding for s in baseline.suppressed))
    severities = [SEVERITIES.index(f.severity) for f in known if f.id == finding.id]
    return not severities or SEVERITIES.index(finding.severity) < min(severities)


def worsened_modes(audit: Audit, baseline: Audit) -> list[str]:
    """Modes both audits ran whose verdict became worse, in words."""
    worse = []
    for name, result in audit.modes.items():
        before = baseline.modes.get(name)
        if before is None or result.verdict not in _WORSE or before.verdict not in _WORSE:
            continue
        if _WORSE[result.verdict] > _WORSE[before.verdict]:
            worse.append(f"{words.MODE[name]}: {before.verdict} → {result.verdict}")
    return worse
