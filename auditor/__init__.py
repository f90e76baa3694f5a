"""ampaudit: which layers may run in FP16, BF16, TF32 or FP32, with evidence."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from auditor.apply.plan import PlanError, apply_plan, make_grad_scaler
    from auditor.gate.inprocess import GateFailed, check

__version__ = "0.1.0"
__all__ = ["GateFailed", "PlanError", "__version__", "apply_plan", "check", "make_grad_scaler"]

_HOME = {
    **dict.fromkeys(("GateFailed", "check"), "auditor.gate.inprocess"),
    **dict.fromkeys(("PlanError", "apply_plan", "make_grad_scaler"), "auditor.apply.plan"),
}


def __getattr__(name: str) -> Any:
    """These bring torch along; importing the package does not."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'auditor' has no attribute {name!r}")
