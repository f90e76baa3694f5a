"""What the page says, worked out from the audit: pure functions from Audit to what the template shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.contract import SEVERITIES, Audit, ChainLink, Finding, ModeName, ModeResult
from auditor.report import words

SERIOUS = ("high", "medium")
_MOST_FINDINGS = 200
_MOST_OPEN = 5
_MOST_TODO = 8


@dataclass(frozen=True)
class Answer:
    """May I train in this format, in the audit's mode."""

    name: str
    verdict: str
    icon: str
    word: str
    reason: str


@dataclass(frozen=True)
class Header:
    headline: str
    answers: tuple[Answer, ...]
    change: str
    change_note: str
    scale: str
    scale_note: str
    gain: str
    gain_note: str


def _mode(audit: Audit, name: str) -> ModeResult | None:
    return audit.modes.get(name)  # type: ignore[call-overload, no-any-return]


def _answer(audit: Audit, fmt: str) -> Answer:
    name = f"{audit.mode}_{fmt}"
    result = _mode(audit, name)
    if fmt not in audit.target.precisions:
        return Answer(
            words.MODE[name],
            "unsupported",
            "–",
            "no gain",
            f"{audit.target.name} computes it no faster than FP32.",
        )
    if result is None:
        return Answer(words.MODE[name], "not_run", "–", "not known", "This mode was not run.")
    word = {"ok": "yes", "degraded": "with care", "broken": "no", "not_run": "not known", "unsupported": "no"}
    icon = words.MODE_VERDICT_ICON[result.verdict]
    return Answer(words.MODE[name], result.verdict, icon, word[result.verdict], sentence(result.reason))


def _headline(audit: Audit, answers: dict[str, Answer]) -> str:
    reference, plan = _mode(audit, "fp32"), _mode(audit, "plan")
    how = "under autocast" if audit.mode == "autocast" else "with the whole model cast"
    good = [words.PRECISION[f] for f, a in answers.items() if a.verdict == "ok"]
    bad = [words.PRECISION[f] for f, a in answers.items() if a.verdict in ("broken", "degraded")]
    if reference is not None and reference.verdict == "broken":
        return "Mend the model first: it is not sound in FP32."
    if good and bad:
        return f"Train in {words.listed(good, 'or')} {how}; {words.listed(bad)} needs changes first."
    if good:
        return f"Yes: train in {words.listed(good, 'or')} {how}."
    if (
        bad
        and plan is not None
        and plan.verdict == "ok"
        and audit.plan
        and audit.plan.base in ("fp16", "bf16")
    ):
        return f"Not as it stands; {words.PRECISION[audit.plan.base]} works with the plan below."
    if bad:
        return f"No: {words.listed(bad)} {'do' if len(bad) > 1 else 'does'} not hold {how}."
    if all(a.verdict == "unsupported" for a in answers.values()):
        return f"{audit.target.name} gains nothing from 16 bit."
    return "Not established: the 16-bit modes were not run."


def header(audit: Audit) -> Header:
    answers = {fmt: _answer(audit, fmt) for fmt in ("fp16", "bf16")}
    change, change_note = _change(audit)
    scale = audit.loss_scale
    if scale.needed and scale.log2 is not None:
        start = words.power(scale.log2)
        low, high = scale.safe_log2_range or (scale.log2, scale.log2)
        scale_note = f"to start from; safe from {words.power(low)} to {words.power(high)}"
    else:
        start, scale_note = (
            ("none needed", "for the plan's format") if not scale.needed else ("not known", scale.reason)
        )
    gain, gain_note = _gain(audit)
    return Header(
        headline=_headline(audit, answers),
        answers=tuple(answers.values()),
        change=change,
        change_note=change_note,
        scale=start,
        scale_note=scale_note,
        gain=gain,
        gain_note=gain_note,
    )


def _change(audit: Audit) -> tuple[str, str]:
    """What stands in the way of the plan's format, and what only in that of another."""
    everything = relevant(audit)
    base = audit.plan.base if audit.plan else None
    needed = [f for f in everything if base not in ("fp16", "bf16") or base in f.precisions]
    held = [r for r in audit.plan.regions if r.precision == "fp32"] if audit.plan else []
    if needed:
        instead = (
            f"or keep {words.count(len(held), 'module')} in FP32, as the plan does"
            if held
            else "listed under What to do now"
        )
        return words.count(len(needed), "line"), instead
    if everything and base is not None:
        others = "FP16" if base == "bf16" else "BF16"
        lines = words.count(len(everything), "line")
        return "nothing", f"to train in {words.PRECISION[base]}; {others} needs {lines} changed"
    if held:
        return "nothing", f"the plan keeps {words.count(len(held), 'module')} in FP32"
    return "nothing", "no line stands in the way of the plan"


def _gain(audit: Audit) -> tuple[str, str]:
    plan, reference = _mode(audit, "plan"), _mode(audit, "fp32")
    if plan is None or reference is None or plan.speedup is None:
        return "not known", "times were neither measured nor predicted"
    took, before = words.milliseconds(plan.time_ms), words.milliseconds(reference.time_ms)
    note = f"a step takes {took} instead of {before} ({plan.time_kind})"
    if plan.memory_bytes is not None and reference.memory_bytes is not None:
        held, before = words.size(plan.memory_bytes), words.size(reference.memory_bytes)
        note += f" and {held} instead of {before} ({plan.memory_kind})"
    return f"{words.speedup(plan.speedup)} the speed of FP32", note


def relevant(audit: Audit) -> list[Finding]:
    """Serious findings in the audit's mode and in a 16-bit format the target gains from: those to mend."""
    formats = {f for f in ("fp16", "bf16") if f in audit.target.precisions}
    return [
        f
        for f in audit.findings
        if f.severity in SERIOUS and audit.mode in f.modes and formats & set(f.precisions)
    ]


@dataclass(frozen=True)
class Step:
    id: str
    place: str
    fix: str
    formats: tuple[str, ...]
    icon: str
    severity: str


def todo(audit: Audit) -> tuple[tuple[Step, ...], int]:
    """The lines to mend, worst first, and how many more there are."""
    needed = relevant(audit)
    steps = tuple(
        Step(
            f.id,
            place(f.file, f.line, f.module, audit),
            f.fix,
            _formats(f),
            words.SEVERITY_ICON[f.severity],
            f.severity,
        )
        for f in needed[:_MOST_TODO]
    )
    return steps, len(needed) - len(steps)


def todo_intro(audit: Audit) -> str:
    needed = relevant(audit)
    base = audit.plan.base if audit.plan else None
    if not needed:
        how = "torch.autocast" if audit.mode == "autocast" else "casting the whole model"
        return f"No line of this model stands in the way of {how} on this target."
    if base in ("fp16", "bf16") and not any(base in f.precisions for f in needed):
        other = "FP16" if base == "bf16" else "BF16"
        return (
            f"{words.PRECISION[base]} needs none of these changes; {other} needs them all, the worst first."
        )
    return "Mend these lines, the worst first; each leads to its evidence."


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
        place=place(finding.file, finding.line, finding.module, audit),
        full_place=words.place(finding),
        formats=_formats(finding),
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
    where = place(link.file, link.line, "", audit) if link.file else ""
    return Link(link.op, link.module or "(root)", where, link.note)


def _formats(finding: Finding) -> tuple[str, ...]:
    return tuple(words.PRECISION[p] for p in finding.precisions)


def place(file: str | None, line: int | None, module: str, audit: Audit) -> str:
    """file:line as short as it stays clear; the module where there is no file."""
    if file is None:
        return module or "the whole model"
    short = words.short_path(file, words.source_file(audit.subject.source))
    return f"{short}:{line}" if line else short


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

    def shown(status: str) -> Sequence[str]:
        of = [r for r in audit.rules if r.status == status]
        return [
            f"{r.rule} ({r.evaluated:,})" if r.evaluated else r.rule + (f": {r.detail}" if r.detail else "")
            for r in of
        ]

    return tuple(
        RuleGroup(title, meaning, tuple(shown(status))) for status, (title, meaning) in meanings.items()
    )


def sentence(text: str) -> str:
    """`text` with a full stop and, unless it starts with code or a name, a capital first letter."""
    text = text.strip()
    if not text:
        return text
    start = text.split()[0].rstrip(",;")
    return (text[0].upper() if start.isalpha() else text[0]) + text[1:] + ("" if text[-1] in ".!?" else ".")
