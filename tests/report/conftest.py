"""One audit of a small transformer, as audit.json holds it, and audits made from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from auditor.contract import Audit, Evidence, read_audit

SAMPLE = Path(__file__).with_name("sample_audit.json")
HOSTILE = (
    "</script><script>alert(1)</script>\"'<img src=x onerror=alert(2)>\u2028javascript:alert(3)&amp;{{7*7}}"
)


@pytest.fixture(scope="session")
def audit() -> Audit:
    return read_audit(SAMPLE.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def hostile(audit: Audit) -> Audit:
    """The sample with a hostile text wherever a user's text may stand."""
    finding = audit.findings[0]
    link = finding.chain[0].model_copy(
        update={"op": HOSTILE, "module": HOSTILE, "file": HOSTILE, "note": HOSTILE}
    )
    bad = finding.model_copy(
        update={
            "module": HOSTILE,
            "file": HOSTILE,
            "source": (HOSTILE, HOSTILE),
            "message": HOSTILE,
            "fix": HOSTILE,
            "op": HOSTILE,
            "also_at": (HOSTILE,),
            "chain": (link, link),
            "evidence": Evidence(kind="emulated", values={HOSTILE: HOSTILE}),
        }
    )
    layer = audit.layers[0].model_copy(
        update={"module": HOSTILE, "type": HOSTILE, "why": HOSTILE, "file": HOSTILE}
    )
    assert audit.plan is not None
    return audit.model_copy(
        update={
            "summary": HOSTILE,
            "subject": audit.subject.model_copy(
                update={"source": HOSTILE, "model_type": HOSTILE, "loss": HOSTILE}
            ),
            "findings": (bad, *audit.findings[1:]),
            "layers": (layer, *audit.layers[1:]),
            "plan": audit.plan.model_copy(update={"snippet": HOSTILE}),
            "ranges": tuple(r.model_copy(update={"module": HOSTILE}) for r in audit.ranges[:2]),
            "histograms": tuple(
                h.model_copy(update={"name": HOSTILE, "why": HOSTILE}) for h in audit.histograms
            ),
            "environment": audit.environment.model_copy(update={"command": (HOSTILE,)}),
        }
    )


@pytest.fixture(scope="session")
def deep(audit: Audit) -> Callable[[int], Audit]:
    """The sample with as many layers as asked for."""

    def build(layers: int) -> Audit:
        copies = (
            audit.layers[i % len(audit.layers)].model_copy(update={"module": f"stack.{i}.linear"})
            for i in range(layers)
        )
        return audit.model_copy(update={"layers": tuple(copies)})

    return build
