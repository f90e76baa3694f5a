"""The pull-request comment: short, and nothing in it but text."""

from __future__ import annotations

import re

from auditor.contract import Audit
from auditor.report.markdown import render_markdown


def test_short_and_complete(audit: Audit) -> None:
    text = render_markdown(audit)
    assert len(text.splitlines()) < 60
    assert "| the plan | ✔ ok | 0.087 % | 0.19 % | 1.52 ms (predicted) | 2.25× |" in text
    assert "**high** examples/tiny\\_translator.py:25" in text
    assert "scaler.update()" in text


def test_stays_short_with_many_findings_and_regions(audit: Audit) -> None:
    assert audit.plan is not None
    plan = audit.plan.model_copy(update={"snippet": "x = 1\n" * 500})
    text = render_markdown(audit.model_copy(update={"findings": audit.findings * 40, "plan": plan}))
    assert len(text.splitlines()) < 60
    assert "- and 70 more" in text
    assert "# … 478 more lines are in report.html" in text


def test_hostile_texts_stay_text(hostile: Audit) -> None:
    text = render_markdown(hostile)
    outside = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.S | re.M)
    assert not re.search(r"(?<!\\)<(?!/?(details|summary)>)", outside)


def test_a_fence_in_the_code_does_not_end_the_block(audit: Audit) -> None:
    assert audit.plan is not None
    plan = audit.plan.model_copy(update={"snippet": "'''\n```\n</details>\n"})
    assert "````python" in render_markdown(audit.model_copy(update={"plan": plan}))
