"""A summary that fits a pull-request comment."""

from __future__ import annotations

import re

from auditor.contract import Audit
from auditor.report.words import MODE, MODE_VERDICT_ICON, PRECISION, SEVERITY_ICON, VERDICT_WORD, milliseconds, number, place, size

_SHOWN = 10


def _plain(text: str) -> str:
    """Text that stays text in GitHub's Markdown: no HTML, links, emphasis, tables or mentions."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|@~])", r"\\\1", text.replace("&", "&amp;").replace("\n", " "))


def render_markdown(audit: Audit) -> str:
    out = [
        f"### ampaudit: {_plain(audit.subject.source)} {VERDICT_WORD[audit.verdict]} on {_plain(audit.target.name)}",
        "",
        _plain(audit.summary),
        "",
        "| mode | verdict | output error | gradient error | time | memory |",
        "|---|---|---|---|---|---|",
    ]
    for name, mode in audit.modes.items():
        out.append(
            f"| {MODE[name]} | {MODE_VERDICT_ICON[mode.verdict]} {mode.verdict} | {number(mode.output_error)} "
            f"| {number(mode.gradient_error)} | {milliseconds(mode.time_ms)} | {size(mode.memory_bytes)} |"
        )
    serious = [f for f in audit.findings if f.severity in ("high", "medium")]
    if serious:
        out.append("")
    for finding in serious[:_SHOWN]:
        formats = "/".join(PRECISION[p] for p in finding.precisions)
        out += [
            f"- {SEVERITY_ICON[finding.severity]} **{finding.severity}** {_plain(place(finding))} {finding.name} ({finding.rule}, {formats}): "
            f"{_plain(finding.message)} *Fix:* {_plain(finding.fix)}"
        ]
    if len(serious) > _SHOWN:
        out.append(f"- and {len(serious) - _SHOWN} more")
    out += ["", "<details><summary>Loss scale and plan</summary>", "", _plain(audit.loss_scale.reason), ""]
    if audit.plan is not None:
        out += ["```python", audit.plan.snippet.rstrip(), "```"]
    out += ["", "</details>", ""]
    return "\n".join(out)
