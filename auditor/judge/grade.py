"""From findings to pass, warn or fail. Needs no tensors, so that a saved audit can be graded anew."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from auditor.contract import Finding, Mode, Verdict


def grade(findings: Iterable[Finding], mode: Mode, formats: Collection[str]) -> Verdict:
    """fail: a high finding in `mode` in one of the 16-bit `formats`; warn: a medium one."""
    found = {f.severity for f in findings if mode in f.modes and set(f.precisions) & set(formats)}
    return "fail" if "high" in found else "warn" if "medium" in found else "pass"
