"""The plan on further batches: what held on the first must hold on the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from auditor.capture.families import OpFamilies
from auditor.contract import VerificationAttempt
from auditor.measure import Measurements, run_mode, run_reference
from auditor.numerics.step import Work
from auditor.plan.solve import Solved


def verify_on(
    works: Sequence[Work], solved: Solved, measured: Measurements, families: OpFamilies
) -> tuple[VerificationAttempt, ...]:
    """One attempt per further batch, each against its own FP32 step, with the first batch's tolerance."""
    if solved.run is None:
        return ()
    attempts = []
    for number, work in enumerate(works, start=2):
        reference = replace(
            run_reference(work, families, sensitivity=False), sensitivity=measured.sensitivity
        )
        run = run_mode(work, solved.run.mode, solved.run.precision, reference, families)
        attempts.append(
            VerificationAttempt(
                regions=sum(p == "fp32" for p in solved.regions.values()) + solved.fp32_loss,
                verdict=run.result.verdict,
                reason=f"batch {number}: {run.result.reason}",
            )
        )
    return tuple(attempts)
