import json

from auditor.contract import Audit
from auditor.gate.diff import difference
from auditor.report.diff import render_json, render_markdown, render_text


def changed(audit: Audit) -> Audit:
    first, *rest = audit.findings
    new = first.model_copy(update={"id": "ffffffffffff", "name": "<b>@new</b>"})
    regraded = rest[0].model_copy(update={"severity": "high"})
    layer = audit.layers[0].model_copy(update={"precision": "fp16"})
    plan = audit.modes["plan"]
    assert plan.memory_bytes is not None
    row = audit.ranges[0].model_copy(update={"high": audit.ranges[0].high + 2})
    return audit.model_copy(
        update={
            "findings": (new, regraded, *rest[1:]),
            "layers": (layer, *audit.layers[1:]),
            "modes": {**audit.modes, "plan": plan.model_copy(update={"memory_bytes": 2 * plan.memory_bytes})},
            "ranges": (row, *audit.ranges[1:]),
        }
    )


def test_nothing_has_changed(audit: Audit) -> None:
    diff = difference(audit, audit)
    assert diff.empty and "nothing has changed" in render_text(diff)


def test_every_kind_of_change_is_told(audit: Audit) -> None:
    diff = difference(audit, changed(audit))
    assert [f.id for f in diff.added] == ["ffffffffffff"]
    assert [f.id for f in diff.removed] == [audit.findings[0].id]
    assert [(r.finding.id, r.before) for r in diff.worse] == [
        (audit.findings[1].id, audit.findings[1].severity)
    ]
    assert [(c.module, c.after) for c in diff.layers] == [(audit.layers[0].module, "fp16")]
    assert [m.mode for m in diff.modes] == ["plan"]
    assert diff.ranges[0].after[1] - diff.ranges[0].before[1] == 2
    back = difference(changed(audit), audit)
    assert [r.finding.id for r in back.better] == [audit.findings[1].id]
    assert json.loads(render_json(diff))["added"][0]["id"] == "ffffffffffff"


def test_markdown_is_short_and_escaped(audit: Audit) -> None:
    many = tuple(
        audit.findings[0].model_copy(update={"id": f"{i:012x}", "name": "<b>@new</b>"}) for i in range(500)
    )
    text = render_markdown(difference(audit, changed(audit).model_copy(update={"findings": many})))
    assert len(text.splitlines()) < 60 and "<b>" not in text and "\\@new" in text
