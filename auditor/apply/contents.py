"""What a plan.json holds. Imports nothing, so that the command writes one without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def plan_of(audit: Mapping[str, Any]) -> dict[str, Any]:
    """The contents of plan.json from those of audit.json, which must have a plan."""
    plan, scale = audit["plan"], audit["loss_scale"]
    fp32_loss = bool(plan.get("fp32_loss"))
    # The loss is shown among the regions but is no module.
    listed = [r for r in plan["regions"] if not (fp32_loss and r["module"] == "loss")]
    return {
        "made_by": f"ampaudit {audit['tool']['version']}",
        "model": audit["subject"]["model_type"],
        "target": audit["target"]["name"],
        "base": plan["base"],
        "regions": {r["module"]: r["precision"] for r in listed},
        "fp32_loss": fp32_loss,
        "loss_scale": {
            "needed": scale["needed"],
            "initial": scale["initial"],
            "growth_interval": scale["growth_interval"],
        },
        "verified": bool(audit["verification"]["holds"]),
    }
