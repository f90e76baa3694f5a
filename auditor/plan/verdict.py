"""The verdict: may this model train in the chosen mode on the chosen target?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from auditor.contract import Finding, Mode, ModeName, ModeResult, TargetInfo, Verdict, Verification
from auditor.judge.grade import grade
from auditor.measure import Measurements
from auditor.plan.solve import Solved
from auditor.plan.worth import rival

_NAMES = {"fp16": "FP16", "bf16": "BF16", "tf32": "TF32", "fp32": "FP32"}


def verdict_of(
    findings: Sequence[Finding],
    mode: Mode,
    target: TargetInfo,
    solved: Solved,
    measured: Measurements,
    verification: Verification,
    modes: Mapping[ModeName, ModeResult],
) -> tuple[Verdict, str]:
    """(verdict, one or two sentences). fail: a high finding in the chosen mode in a 16-bit format of the
    target, a plan that fails on one of the batches, or a model unsound in FP32; warn: a medium one."""
    if measured.reference_problem:
        return "fail", f"The model is not sound in FP32: {measured.reference_problem}."
    formats = [p for p in ("fp16", "bf16") if p in target.precisions]
    summary = f"{_outcome(formats, mode, target, measured)}. {_advice(solved)}.{_worth(modes)}"
    if verification.holds is False:
        return "fail", f"{summary} It fails on your data: {verification.reason}."
    return grade(findings, mode, formats), summary


def _worth(modes: Mapping[ModeName, ModeResult]) -> str:
    name = rival(modes)
    if name is None:
        return ""
    speeds = f"{modes[name].speedup:.2f} times FP32's speed against {modes['plan'].speedup:.2f}"
    return (
        f" At this size {_NAMES[name]} alone is predicted to be faster ({speeds}): casts and kernel launches "
        "cost more than 16 bit saves."
    )


def _outcome(formats: Sequence[str], mode: Mode, target: TargetInfo, measured: Measurements) -> str:
    if not formats:
        return f"{target.name} has no 16-bit format that is faster than FP32"
    how = "under autocast" if mode == "autocast" else "with the whole model cast"
    runs: dict[str, ModeName] = {fmt: f"{mode}_{fmt}" for fmt in formats}  # type: ignore[misc]
    good = [_NAMES[f] for f in formats if measured.runs[runs[f]].result.verdict == "ok"]
    bad = [_NAMES[f] for f in formats if _NAMES[f] not in good]
    if not bad:
        return f"{' and '.join(good)} hold{'s' * (len(good) == 1)} {how}"
    if not good:
        return f"{' and '.join(bad)} fail{'s' * (len(bad) == 1)} {how}"
    return f"{good[0]} holds {how}; {bad[0]} fails"


def _advice(solved: Solved) -> str:
    promoted = sum(p == "fp32" for p in solved.regions.values()) + solved.fp32_loss
    if solved.run is None:
        return f"The plan is {_NAMES[solved.base]}: {solved.reason}"
    if promoted:
        plural = "s" * (promoted > 1)
        return f"The plan that holds is {_NAMES[solved.base]} autocast with {promoted} region{plural} in FP32"
    return f"The plan is {_NAMES[solved.base]} autocast as it is"
