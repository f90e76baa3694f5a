"""A plan slower than what is plainer is said to be so."""

from __future__ import annotations

from auditor.contract import ModeName, ModeResult
from auditor.plan.worth import rival


def modes(**speedups: float) -> dict[ModeName, ModeResult]:
    return {
        name: ModeResult(verdict="ok", reason="r", speedup=s)  # type: ignore[misc]
        for name, s in speedups.items()
    }


def test_the_plainer_mode_must_be_clearly_faster_and_hold() -> None:
    assert rival(modes(fp32=1.0, tf32=1.75, plan=1.13)) == "tf32"
    assert rival(modes(fp32=1.0, tf32=1.5, plan=1.13)) is None  # within what a prediction may err
    assert rival(modes(fp32=1.0, plan=0.6)) == "fp32"
    broken = {**modes(fp32=1.0, plan=1.13), "tf32": ModeResult(verdict="degraded", reason="r", speedup=3.0)}
    assert rival(broken) is None
    assert rival(modes(fp32=1.0)) is None
