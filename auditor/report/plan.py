"""plan.json: what `auditor.apply_plan` and `auditor.make_grad_scaler` read."""

from __future__ import annotations

import json

from auditor.apply.contents import plan_of
from auditor.contract import Audit
from auditor.errors import UsageProblem


def render_plan(audit: Audit) -> str:
    """Raises UsageProblem for an audit that made no plan (one without inputs)."""
    if audit.plan is None:
        raise UsageProblem(
            "this audit made no plan", where="--format plan", next_step="give inputs to the model"
        )
    return json.dumps(plan_of(audit.model_dump(mode="json")), indent=1) + "\n"
