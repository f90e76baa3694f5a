"""Several batches widen the evidence, and the plan made on the first is executed on the others."""

from pathlib import Path

import pytest
import torch

from auditor.contract import Audit, Finding
from auditor.errors import UsageProblem
from auditor.pipeline import audit
from auditor.subject.request import AuditRequest

NET = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x):
        return self.second(self.first(x))
"""


def test_a_later_batch_may_break_the_plan(tmp_path: Path) -> None:
    (tmp_path / "net_of_batches.py").write_text(NET)
    for name, size in (("a", 1.0), ("b", 2.0), ("c", 1e6)):
        torch.save((torch.full((3, 4), size),), tmp_path / f"{name}.pt")
    model, paths = str(tmp_path / "net_of_batches.py"), {n: str(tmp_path / f"{n}.pt") for n in "abc"}

    def verified(*names: str) -> tuple[bool | None, list[str]]:
        request = AuditRequest(model=model, batches=tuple(paths[n] for n in names), target="V100-SXM2-32GB")
        verification = audit(request, lambda *_: None).verification
        return verification.holds, [a.verdict for a in verification.attempts]

    assert verified("a", "b") == (True, ["ok", "ok"])
    # 1e6 is infinite in FP16: stock autocast breaks on c, the plan mended for that holds on a only.
    assert verified("a", "c") == (False, ["broken", "ok", "broken"])


def test_findings_ranges_and_modes_are_those_of_every_batch(tmp_path: Path) -> None:
    (tmp_path / "net_of_batches.py").write_text(NET)
    for name, size in (("a", 1.0), ("b", 2.0**18)):
        torch.save((torch.full((3, 4), size),), tmp_path / f"{name}.pt")

    def audited(names: str, **more: float) -> Audit:
        batches = tuple(str(tmp_path / f"{n}.pt") for n in names)
        return audit(
            AuditRequest(model=str(tmp_path / "net_of_batches.py"), batches=batches, **more), lambda *_: None
        )

    one, both = audited("a"), audited("ab")
    assert one.modes["autocast_fp16"].verdict == "ok" and not serious(one)
    # 2^18 is infinite in FP16 and three binades beyond its largest value, but nothing to BF16.
    assert both.modes["autocast_fp16"].verdict == "broken" and both.modes["autocast_bf16"].verdict == "ok"
    assert serious(both) and all(f.evidence.values["batch"] == 2 for f in serious(both))

    def highest(found: Audit) -> int:
        return max(r.high for r in found.ranges if r.module == "first" and r.role == "activation")

    assert highest(both) > highest(one)
    assert "several-batches" in {n.code for n in both.notes} and "one-batch" in {n.code for n in one.notes}
    # The same, from one batch whose inputs are multiplied.
    stressed = audited("a", stress=2.0**18)
    assert {(f.rule, f.line) for f in serious(stressed)} == {(f.rule, f.line) for f in serious(both)}
    assert "stress" in {n.code for n in stressed.notes} and "262144" in stressed.subject.inputs_from


def serious(found: Audit) -> list[Finding]:
    return [f for f in found.findings if f.severity in ("high", "medium")]


def test_stress_needs_a_floating_input(tmp_path: Path) -> None:
    (tmp_path / "ids_only.py").write_text(
        "import torch\nmodel = torch.nn.Embedding(8, 4)\nexample_inputs = (torch.arange(8),)\n"
    )
    with pytest.raises(UsageProblem, match="--stress scales floating inputs"):
        audit(AuditRequest(model=str(tmp_path / "ids_only.py"), stress=2.0), lambda *_: None)
