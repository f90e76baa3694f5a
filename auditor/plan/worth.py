"""Whether the plan is worth its casts at all."""

from __future__ import annotations

from collections.abc import Mapping

from auditor.contract import ModeName, ModeResult

# Predicted times are uncertain by a quarter or more each; a difference below this is none.
_CLEARLY = 1.5
_PLAINER: tuple[ModeName, ...] = ("tf32", "fp32")


def rival(modes: Mapping[ModeName, ModeResult]) -> ModeName | None:
    """The plainer mode that holds and is predicted clearly faster than the plan, if any: on small models
    casts and kernel launches cost more than 16 bit saves."""
    plan = modes.get("plan")
    if plan is None or plan.speedup is None:
        return None
    for name in _PLAINER:
        other = modes.get(name)
        if other is None or other.verdict != "ok" or other.speedup is None:
            continue
        if other.speedup > _CLEARLY * plan.speedup:
            return name
    return None
