"""Evaluating rules on facts, and making one finding of one fault."""

from __future__ import annotations

import hashlib
import linecache
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from auditor.contract import SEVERITIES, ChainLink, Evidence, Finding, RuleStatus
from auditor.judge.messages import fill
from auditor.judge.rules import Level, Rule
from auditor.judge.vocabulary import VOCABULARY

_RUN = ("precision", "mode")
# A line of a file, or an op of a module.
Where: TypeAlias = "tuple[str, int | str]"
_RANK = {severity: rank for rank, severity in enumerate(SEVERITIES)}


@dataclass(frozen=True)
class Site:
    """Where an evaluation's facts come from, beside the facts themselves; batches count from 1."""

    module: str
    file: str | None
    line: int | None
    kind: str
    chain: tuple[ChainLink, ...] = ()
    batch: int = 1


@dataclass(frozen=True)
class Hit:
    """A rule's level that held for one op in one mode."""

    rule: Rule
    level: Level
    facts: dict[str, Any]
    site: Site


def evaluate(
    rules: Sequence[Rule], cases: Iterable[tuple[dict[str, Any], Site]]
) -> tuple[list[Hit], tuple[RuleStatus, ...]]:
    """Every rule on every case; the best rule of each op in each mode wins (severity, then priority).

    A condition that fails on some facts makes that rule's status an error; the others go on.
    """
    counts = dict.fromkeys((rule.id for rule in rules), 0)
    fired: set[str] = set()
    broken: dict[str, str] = {}
    hits: list[Hit] = []
    by_family: dict[str, list[Rule]] = {}
    for facts, site in cases:
        family = facts["family"]
        if family not in by_family:
            by_family[family] = [rule for rule in rules if rule.takes_family(family)]
        found = []
        for rule in by_family[family]:
            if not rule.applies_to(facts):
                continue
            counts[rule.id] += 1
            try:
                level = next((c.level for c in rule.conditions if c.holds(facts)), None)
            except Exception as error:  # a rule's own fault must not end the audit
                broken.setdefault(rule.id, str(error).splitlines()[0])
                continue
            if level is not None:
                fired.add(rule.id)
                found.append(Hit(rule, level, facts, site))
        if found:
            hits.append(min(found, key=_order))

    def status(rule: Rule) -> RuleStatus:
        evaluated = counts[rule.id]
        if rule.id in broken:
            return RuleStatus(rule=rule.id, status="error", evaluated=evaluated, detail=broken[rule.id])
        if rule.id in fired:
            return RuleStatus(rule=rule.id, status="fired", evaluated=evaluated)
        return RuleStatus(
            rule=rule.id, status="silent" if evaluated else "not_applicable", evaluated=evaluated
        )

    return hits, tuple(status(rule) for rule in rules)


def _order(hit: Hit) -> tuple[int, int]:
    return _RANK[hit.level.severity], -hit.rule.file.priority


def _strength(hit: Hit) -> tuple[int, bool, int, float]:
    """Sort key, the most telling first: a fault in the forward pass comes before what it does to the
    gradients of its line, then the more specific rule, then the larger error."""
    error, facts = hit.facts["error"], hit.facts
    arises = facts["phase"] == "forward" and (facts["amplification"] > 3.0 or bool(facts["refused_by"]))
    severity, priority = _order(hit)
    return severity, not arises, priority, -(math.inf if math.isnan(error) else error)


_EVIDENCE = (
    *("precision", "mode", "absmax", "input_absmax", "headroom", "nonfinite", "nans", "overflowed"),
    *("lost", "lost_share", "error", "inherited", "amplification", "cancellation", "absorbed", "denominator"),
    *(
        "flip_share",
        "constant_name",
        "constant_value",
        "mode_error",
        "gradient_error",
        "confirmed",
        "refusal",
    ),
    *("misaligned", "optimizer", "learning_rate", "updates_lost", "moments_flushed"),
)


def _evidence(hit: Hit) -> Evidence:
    """The facts that say something, and the mode and precision of the run they were seen in."""
    values = {n: hit.facts[n] for n in _EVIDENCE if n in _RUN or hit.facts[n] != VOCABULARY[n].default}
    if hit.site.batch > 1:
        values["batch"] = hit.site.batch
    return Evidence(kind=hit.site.kind, values=values)  # type: ignore[arg-type]


def _where(hit: Hit) -> Where:
    """The line; without one, the op in its module, layer numbers aside: repeated blocks are one place."""
    if hit.site.file is not None and hit.site.line is not None:
        return hit.site.file, hit.site.line
    return re.sub(r"\d+", "*", hit.site.module), hit.facts["op"]


_SERIOUS = ("high", "medium")


def _run_at(hit: Hit) -> tuple[Where, str, str]:
    return _where(hit), hit.facts["precision"], hit.facts["mode"]


def _faults(hits: Sequence[Hit]) -> Iterator[list[Hit]]:
    """The hits of one finding each, all of one place, one severity and one set of modes.

    At a place, the serious hits of one precision are one fault, told by the most specific rule. Precisions
    are merged where rule, severity and modes agree, so that each precision of a finding fails in each of its
    modes.
    """
    faults: dict[tuple[Where, str, str, str | None], list[Hit]] = defaultdict(list)
    worst: dict[tuple[Where, str, str], int] = {}
    for hit in hits:
        if hit.level.severity in _SERIOUS:
            rank = _RANK[hit.level.severity]
            worst[_run_at(hit)] = min(rank, worst.get(_run_at(hit), rank))
    for hit in hits:
        serious = hit.level.severity in _SERIOUS
        # Of a line that fails, lesser faults in the same run are its consequences, and risks no news.
        if hit.level.severity != "info" and _RANK[hit.level.severity] > worst.get(_run_at(hit), 99):
            continue
        apart = None if serious else hit.rule.id
        faults[_where(hit), hit.level.severity, hit.facts["precision"], apart].append(hit)
    merged: dict[tuple[Where, str, str, tuple[str, ...]], list[Hit]] = defaultdict(list)
    for (where, severity, _, _), group in faults.items():
        told = min(group, key=_strength)
        modes = tuple(sorted({h.facts["mode"] for h in group}))
        merged[where, severity, told.rule.id, modes].extend(group)
    yield from merged.values()


def findings_of(hits: Sequence[Hit]) -> list[Finding]:
    """One finding per fault, worst first; other modules that run the line are named in it."""
    taken: dict[str, int] = defaultdict(int)
    failing = {_run_at(hit) for hit in hits if hit.level.severity in _SERIOUS}
    findings = []
    for group in _faults(hits):
        told = min(group, key=_strength)
        modules = list(dict.fromkeys([told.site.module, *(h.site.module for h in group)]))
        precisions = _distinct(group, "precision", ("fp16", "bf16", "tf32"))
        modes = _distinct(group, "mode", ("autocast", "pure"))
        key = _fingerprint(told, min(modules), (*precisions, *modes))
        taken[key] += 1
        findings.append(
            Finding(
                id=hashlib.sha256(f"{key}|{taken[key]}".encode()).hexdigest()[:12],
                rule=told.rule.id,
                name=told.rule.name,
                severity=told.level.severity,
                precisions=precisions,
                modes=modes,
                phase=told.facts["phase"],
                module=told.site.module,
                op=told.facts["op"] or None,
                file=told.site.file,
                line=told.site.line,
                message=fill(told.level.message, told.facts) + _protection(told, failing),
                fix=fill(told.level.fix, told.facts),
                occurrences=len(modules),
                also_at=tuple(modules[1:]),
                chain=told.site.chain,
                evidence=_evidence(told),
            )
        )
    return sorted(findings, key=lambda f: (_RANK[f.severity], f.file or "", f.line or 0))


def _protection(told: Hit, failing: Set[tuple[Where, str, str]]) -> str:
    """Whether stock autocast guards the line already; nothing of TF32, risks and what no mode causes."""
    facts = told.facts
    applies = (
        told.level.severity in _SERIOUS and facts["precision"] != "tf32" and facts["phase"] != "optimizer"
    )
    if not applies or facts["fp32_nonfinite"]:
        return ""
    if (_where(told), facts["precision"], "autocast") in failing:
        return " Stock autocast does not protect it."
    return f" Stock autocast in {facts['precision']} protects it; casting the whole model does not."


def _fingerprint(told: Hit, module: str, runs: tuple[str, ...]) -> str:
    """What a finding is, whatever its numbers: stable when lines above it come and go, in any checkout."""
    file, line = told.site.file, told.site.line
    text = linecache.getline(file, line).strip() if file and line else told.facts["op"]
    return "|".join((told.rule.id, module, Path(file or "").name, told.facts["phase"], text, *runs))


def _distinct(hits: Sequence[Hit], name: str, order: tuple[str, ...]) -> tuple[Any, ...]:
    values = {hit.facts[name] for hit in hits}
    return tuple(value for value in order if value in values)
