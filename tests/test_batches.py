"""Several batches: the plan made on the first is executed on the others."""

from pathlib import Path

import torch

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
    assert verified("a", "c") == (False, ["ok", "broken"])  # 1e6 is infinite in FP16
