"""Checking one script: faults of its source, judged by the rules, as findings of the contract."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from auditor.contract import SEVERITIES, Evidence, Finding, Suppressed
from auditor.errors import UsageProblem, near_names
from auditor.judge.messages import fill
from auditor.judge.rules import Rule
from auditor.judge.suppress import split_suppressed
from auditor.judge.vocabulary import defaults
from auditor.lint.patterns import pattern_faults
from auditor.lint.protocol import Fault, protocol_faults
from auditor.lint.script import parse


@dataclass(frozen=True)
class Checked:
    findings: tuple[Finding, ...]
    suppressed: tuple[Suppressed, ...]


def check_file(path: Path, rules: Sequence[Rule]) -> Checked:
    """Raises UsageProblem when the file is missing or not Python."""
    try:
        text = path.read_bytes()
    except OSError as error:
        known = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        what = "no such file" if isinstance(error, FileNotFoundError) else error.strerror or "cannot be read"
        raise UsageProblem(f"{what}{near_names(path.name, known)}", where=str(path)) from None
    return check_text(text, str(path), rules)


def check_text(text: str | bytes, path: str, rules: Sequence[Rule]) -> Checked:
    script = parse(text, path)
    faults = dict.fromkeys((*protocol_faults(script), *pattern_faults(script)))
    lines = (
        text.decode("utf-8", errors="replace").splitlines() if isinstance(text, bytes) else text.splitlines()
    )
    found: dict[tuple[str, int], Finding] = {}
    for fault in faults:
        for rule in rules:
            finding = _judged(fault, rule, path, lines)
            if finding is not None:
                found.setdefault((rule.id, fault.line), finding)
    ordered = sorted(found.values(), key=lambda f: (f.line or 0, SEVERITIES.index(f.severity), f.rule))
    standing, suppressed = split_suppressed(ordered)
    return Checked(tuple(standing), suppressed)


def _judged(fault: Fault, rule: Rule, path: str, lines: list[str]) -> Finding | None:
    facts = {
        **defaults(), "phase": "source", "fault": fault.kind, "proven": fault.proven,
        "named": fault.what, "beside": fault.other, "precision": rule.file.precisions[0], "mode": "autocast",
    }  # fmt: skip
    if not rule.applies_to(facts):
        return None
    level = next((c.level for c in rule.conditions if c.holds(facts)), None)
    if level is None:
        return None
    text = lines[fault.line - 1].strip() if fault.line <= len(lines) else ""
    identity = "|".join((rule.id, Path(path).name, text, fault.what, fault.other))
    low = tuple(p for p in rule.file.precisions if p != "fp32")
    return Finding(
        id=hashlib.sha256(identity.encode()).hexdigest()[:12],
        rule=rule.id,
        name=rule.name,
        severity=level.severity,
        precisions=low,
        modes=rule.file.modes,
        phase="source",
        module="",
        op=None,
        file=path,
        line=fault.line,
        source=(text,),
        source_start=fault.line,
        message=fill(level.message, facts),
        fix=fill(level.fix, facts),
        evidence=Evidence(kind="static", values={"proven": fault.proven}),
    )
