"""What the page shows beside its answers: pure functions from Audit to what the template draws."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.contract import SEVERITIES, Audit, ChainLink, Finding, ModeName, ModeResult, RuleStatus
from auditor.report import words
from auditor.report.answers import SERIOUS

_MOST_FINDINGS = 200
_MOST_OPEN = 5


@dataclass(frozen=True)
class ModeRow:
    name: ModeName
    title: str
    hint: str
    result: ModeResult
    time_share: float
    memory_share: float


def mode_rows(audit: Audit) -> tuple[ModeRow, ...]:
    """Every mode in the order of the contract, the plan last. Shares are percent of the largest."""
    present = [(name, audit.modes[name]) for name in words.MODE if name in audit.modes]
    slowest = max((r.time_ms or 0.0 for _, r in present), default=0.0) or 1.0
    largest = max((r.memory_bytes or 0 for _, r in present), default=0) or 1
    return tuple(
        ModeRow(
            name=name,
            title=words.MODE[name],
            hint=words.MODE_HINT[name],
            result=result,
            time_share=round(100 * (result.time_ms or 0.0) / slowest, 1),
            memory_share=round(100 * (result.memory_bytes or 0) / largest, 1),
        )
        for name, result in present
    )


@dataclass(frozen=True)
class SourceLine:
    number: int
    text: str
    culprit: bool


@dataclass(frozen=True)
class Link:
    op: str
    module: str
    place: str
    note: str


@dataclass(frozen=True)
class Card:
    finding: Finding
    icon: str
    place: str
    full_place: str
    formats: tuple[str, ...]
    modes: str
    source: tuple[SourceLine, ...]
    evidence: tuple[tuple[str, str], ...]
    chain: tuple[Link, ...]
    open: bool


def cards(audit: Audit) -> tuple[tuple[Card, ...], int]:
    """The findings as they are shown, worst first, and how many more audit.json holds."""
    ranked = sorted(audit.findings, key=lambda f: SEVERITIES.index(f.severity))
    shown = ranked[:_MOST_FINDINGS]
    return tuple(card(f, audit, index < _MOST_OPEN) for index, f in enumerate(shown)), len(ranked) - len(
        shown
    )


def card(finding: Finding, audit: Audit, unfold: bool) -> Card:
    first = finding.source_start or 1
    mode_words = {"autocast": "autocast", "pure": "the whole model cast"}
    return Card(
        finding=finding,
        icon=words.SEVERITY_ICON[finding.severity],
        place=words.short_place(finding.file, finding.line, finding.module, audit.subject.source),
        full_place=words.place(finding),
        formats=words.formats(finding),
        modes=words.listed([mode_words[m] for m in finding.modes]),
        source=tuple(
            SourceLine(first + i, text, first + i == finding.line) for i, text in enumerate(finding.source)
        ),
        evidence=tuple(
            (words.EVIDENCE.get(k, k.replace("_", " ")), words.value(v))
            for k, v in finding.evidence.values.items()
        ),
        chain=tuple(_link(link, audit) for link in finding.chain),
        open=unfold and finding.severity in SERIOUS,
    )


def _link(link: ChainLink, audit: Audit) -> Link:
    where = words.short_place(link.file, link.line, "", audit.subject.source) if link.file else ""
    return Link(link.op, link.module or "(root)", where, link.note)


def severity_counts(audit: Audit) -> tuple[tuple[str, str, int], ...]:
    """(severity, icon, how many), the severities that occur, worst first."""
    counts = [(s, words.SEVERITY_ICON[s], sum(f.severity == s for f in audit.findings)) for s in SEVERITIES]
    return tuple(c for c in counts if c[2])


@dataclass(frozen=True)
class RuleGroup:
    title: str
    meaning: str
    rules: tuple[str, ...]


def rule_groups(audit: Audit) -> tuple[RuleGroup, ...]:
    """Fired, silent, not applicable and failed rules: four different things, each shown even when empty."""
    meanings = {
        "fired": ("fired", "found something"),
        "silent": ("silent", "were checked on this model and found nothing"),
        "not_applicable": ("not applicable", "had nothing to be checked on"),
        "error": ("could not run", "failed themselves, so they say nothing about this model"),
    }

    def shown(rule: RuleStatus) -> str:
        times = f" ({rule.evaluated:,})" if rule.evaluated else ""
        return rule.rule + times + (f": {rule.detail}" if rule.detail else "")

    return tuple(
        RuleGroup(title, meaning, tuple(shown(rule) for rule in audit.rules if rule.status == status))
        for status, (title, meaning) in meanings.items()
    )
