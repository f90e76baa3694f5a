"""The gate before step 0 of a trainer: Lightning's callback, and one call for Accelerate."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from auditor.contract import Audit
from auditor.errors import UsageProblem
from auditor.gate.inprocess import GateFailed, check

if TYPE_CHECKING:
    Callback: Any = object
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        try:
            from pytorch_lightning import Callback
        except ImportError:
            Callback = None


class _Step(nn.Module):
    """A Lightning module's training_step as the forward of a module."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = copy.deepcopy(module)  # Lightning leaves the trainer out of a copy

    def forward(self, batch: Any) -> Any:
        return self.module.training_step(batch, 0)  # type: ignore[operator]


def _loss(output: Any) -> Any:
    return output["loss"] if isinstance(output, Mapping) else output


class PrecisionGate(Callback if Callback is not None else object):  # type: ignore[misc]
    """Audits the first batch's training_step before step 0 and stops the run when the policy is not met.

    Takes the keyword arguments of `auditor.check`. One process audits; all learn the outcome.
    """

    def __init__(self, **options: Any) -> None:
        if Callback is None:
            raise UsageProblem("the callback needs Lightning", next_step="pip install lightning")
        super().__init__()
        self._options = options
        self.audit: Audit | None = None

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self.audit is not None or trainer.global_step:
            return
        problem = None
        if trainer.is_global_zero:
            try:
                self.audit = check(_Step(pl_module), (batch,), loss=_loss, **self._options)
            except GateFailed as failed:
                self.audit, problem = failed.audit, str(failed)
        problem = trainer.strategy.broadcast(problem)
        if problem is not None:
            raise GateFailed(self.audit) if self.audit is not None else RuntimeError(problem)


def check_prepared(accelerator: Any, model: nn.Module, batch: Any, **options: Any) -> Audit | None:
    """`auditor.check` for a model `accelerator.prepare` returned, on the main process; every process raises
    when the policy is not met. Returns the audit on the main process, None on the others."""
    from accelerate.utils import broadcast_object_list

    audit, outcome = None, [None]
    if accelerator.is_main_process:
        plain = accelerator.unwrap_model(model, keep_fp32_wrapper=False)
        try:
            audit = check(plain, batch, **options)
        except GateFailed as failed:
            audit, outcome = failed.audit, [str(failed)]  # type: ignore[list-item]
    if accelerator.num_processes > 1:
        broadcast_object_list(outcome)
    if outcome[0] is not None:
        raise GateFailed(audit) if audit is not None else RuntimeError(outcome[0])
    return audit


__all__ = ["PrecisionGate", "check_prepared"]
