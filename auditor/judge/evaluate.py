"""Evaluating rules on facts, and making one finding of one fault."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.contract import SEVERITIES, ChainLink, Evidence, Finding, RuleStatus, Severity
from auditor.judge.rules import Level, Rule

_RANK = {severity: rank for rank, severity in enumerate(SEVERITIES)}


@dataclass(frozen=True)
class Site:
    """Where an evaluation's facts come from, beside the facts themselves."""

    module: str
    file: str | None
    line: int | None
    kind: str
    chain: tuple[ChainLink, ...] = ()


@dataclass(frozen=True)
class Hit:
    """A rule's level that held for one op in one mode."""

    rule: Rule
    level: Level
    facts: dict[str, Any]
    site: Site


def _shown(value: Any) -> Any:
    """Numbers as people read them in a message."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if math.isinf(value) or math.isnan(value):
        return str(value)
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.2g}"
    return f"{value:.3g}"


def fill(template: str, facts: dict[str, Any]) -> str:
    """The template with its {facts} in place. `str.format_map` is not used: facts are shown, never looked into."""
    out = template
    for name, value in facts.items():
        out = out.replace("{" + name + "}", str(_shown(value)))
    return " ".join(out.split())


def evaluate(rules: Sequence[Rule], cases: Iterable[tuple[dict[str, Any], Site]]) -> tuple[list[Hit], tuple[RuleStatus, ...]]:
    """Every rule on every case; the best rule of each op in each mode wins (severity, then priority)."""
    counts = dict.fromkeys((rule.id for rule in rules), 0)
    fired = dict.fromkeys((rule.id for rule in rules), 0)
    broken: dict[str, str] = {}
    hits: list[Hit] = []
    by_family: dict[str, list[Rule]] = {}
    for facts, site in cases:
        family = facts["family"]
        if family not in by_family:
            by_family[family] = [r for r in rules if r.file.families == ("*",) or family in r.file.families]
        best: Hit | None = None
        for rule in by_family[family]:
            if not rule.applies_to(facts):
                continue
            counts[rule.id] += 1
            for program, names, level in rule.conditions:
                try:
                    holds = program.execute({name: facts[name] for name in names})
                except Exception as error:  # a rule's own fault must not end the audit
                    broken[rule.id] = str(error).splitlines()[0]
                    break
                if holds is True:
                    hit = Hit(rule, level, facts, site)
                    if best is None or _order(hit) < _order(best):
                        best = hit
                    fired[rule.id] += 1
                    break
        if best is not None:
            hits.append(best)
    statuses = tuple(
        RuleStatus(
            rule=rule.id,
            status="error" if rule.id in broken else "fired" if fired[rule.id] else "silent" if counts[rule.id] else "not_applicable",
            evaluated=counts[rule.id],
            detail=broken.get(rule.id, ""),
        )
        for rule in rules
    )
    return hits, statuses


def _order(hit: Hit) -> tuple[int, int]:
    return _RANK[hit.level.severity], -hit.rule.file.priority


def _strength(hit: Hit) -> tuple[int, int, float]:
    error = hit.facts["error"]
    return (*_order(hit), -(math.inf if math.isnan(error) else error))


_EVIDENCE = (
    "absmax", "input_absmax", "headroom", "nonfinite", "nans", "overflowed", "lost", "lost_share", "error", "inherited",
    "amplification", "cancellation", "absorbed", "denominator", "flip_share", "constant_name", "constant_value",
    "mode_error", "gradient_error", "confirmed", "refusal", "misaligned",
)  # fmt: skip


def _evidence(hit: Hit) -> Evidence:
    from auditor.judge.vocabulary import VOCABULARY

    values = {n: hit.facts[n] for n in _EVIDENCE if hit.facts[n] != VOCABULARY[n].default}
    return Evidence(kind=hit.site.kind, values=values)  # type: ignore[arg-type]


def findings_of(hits: Sequence[Hit]) -> list[Finding]:
    """One finding per fault: hits on the same line are one fault, told by the strongest of them. Other
    modules that run the line, and modes and precisions in which it fails as badly, are merged into it."""
    lines: dict[Any, list[Hit]] = defaultdict(list)
    for hit in hits:
        where = (hit.site.file, hit.site.line) if hit.site.line is not None else (hit.site.module, hit.facts["op"])
        serious = hit.level.severity in ("high", "medium")
        lines[where, serious, None if serious else hit.rule.id].append(hit)
    findings = []
    for group in lines.values():
        told = min(group, key=_strength)
        alike = [h for h in group if _RANK[h.level.severity] <= _RANK["medium"]] or group
        modules = list(dict.fromkeys([told.site.module, *(h.site.module for h in alike)]))
        severity: Severity = told.level.severity
        rule = told.rule
        key = f"{rule.id}|{told.site.module}|{told.site.file}|{told.facts['phase']}|{_text_at(told)}"
        findings.append(
            Finding(
                id=hashlib.sha256(key.encode()).hexdigest()[:12],
                rule=rule.id,
                name=rule.name,
                severity=severity,
                precisions=_distinct(h.facts["precision"] for h in alike),
                modes=_distinct(h.facts["mode"] for h in alike),
                phase=told.facts["phase"],
                module=told.site.module,
                op=told.facts["op"] or None,
                file=told.site.file,
                line=told.site.line,
                message=fill(told.level.message, told.facts),
                fix=fill(told.level.fix, told.facts),
                occurrences=len(modules),
                also_at=tuple(modules[1:]),
                chain=told.site.chain,
                evidence=_evidence(told),
            )
        )
    return sorted(findings, key=lambda f: (_RANK[f.severity], f.file or "", f.line or 0))


def _text_at(hit: Hit) -> str:
    """The source text of the line: stable when lines above it come and go."""
    import linecache

    return linecache.getline(hit.site.file, hit.site.line).strip() if hit.site.file and hit.site.line else ""


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    order: dict[str, int] = {"fp16": 0, "bf16": 1, "tf32": 2, "autocast": 0, "pure": 1}
    return tuple(sorted(set(values), key=lambda v: order[v]))


