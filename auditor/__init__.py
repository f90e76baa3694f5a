"""ampaudit: which layers may run in FP16, BF16, TF32 or FP32, with evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from auditor.gate.inprocess import GateFailed, check

__version__ = "0.1.0"
__all__ = ["GateFailed", "__version__", "check"]


def __getattr__(name: str) -> Any:
    """`auditor.check` brings torch along; importing the package does not."""
    if name in ("GateFailed", "check"):
        from auditor.gate import inprocess

        return getattr(inprocess, name)
    raise AttributeError(f"module 'auditor' has no attribute {name!r}")
