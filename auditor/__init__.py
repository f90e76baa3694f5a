"""ampaudit: which layers may run in FP16, BF16, TF32 or FP32, with evidence."""

from typing import Any

__version__ = "0.1.0"

# Imported when first asked for, so that `import auditor` and the command's help cost nothing.
_LAZY = ("apply_plan", "make_grad_scaler", "PlanError")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from auditor.apply import plan

        return getattr(plan, name)
    raise AttributeError(f"module 'auditor' has no attribute {name!r}")
