"""What a reader asks first, answered from the audit: may I, what must I change, what do I gain."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.contract import Audit, Finding, ModeResult
from auditor.plan.worth import rival
from auditor.report import words

SERIOUS = ("high", "medium")
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
    return Answer(words.MODE[name], result.verdict, icon, word[result.verdict], words.sentence(result.reason))


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
    faster = rival(audit.modes)
    if faster is not None:
        title, speed = words.MODE[faster], words.speedup(audit.modes[faster].speedup)
        note += f"; at this size {title} alone is predicted to reach {speed}: casts and launches cost more"
        note += " than 16 bit saves"
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
            words.short_place(f.file, f.line, f.module, audit.subject.source),
            f.fix,
            words.formats(f),
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
