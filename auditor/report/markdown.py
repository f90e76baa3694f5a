"""A summary that fits a pull-request comment: under 60 lines, details folded."""

from __future__ import annotations

import re

from auditor.contract import Audit, Finding
from auditor.report import answers, views, words

_MOST_FINDINGS = 10
_MOST_SNIPPET = 22


def escaped(text: str) -> str:
    """Text that stays text in GitHub's Markdown: no HTML, links, emphasis, tables, mentions or new lines."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|@~$])", r"\\\1", " ".join(text.split()).replace("&", "&amp;"))


def _fenced(code: str) -> list[str]:
    """A code block whose fence is longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall("`+", code)), default=0)
    fence = "`" * max(longest + 1, 3)
    lines = code.rstrip().splitlines()
    if len(lines) > _MOST_SNIPPET:
        lines = [*lines[:_MOST_SNIPPET], f"# … {len(lines) - _MOST_SNIPPET} more lines are in report.html"]
    return [f"{fence}python", *lines, fence]


def _item(finding: Finding, audit: Audit) -> str:
    formats = "/".join(words.formats(finding))
    where = escaped(words.short_place(finding.file, finding.line, finding.module, audit.subject.source))
    name = escaped(f"{finding.name} ({finding.rule}, {formats})")
    severity = f"{words.SEVERITY_ICON[finding.severity]} **{finding.severity}**"
    return f"- {severity} {where} {name}: {escaped(finding.message)} *Fix:* {escaped(finding.fix)}"


def render_markdown(audit: Audit) -> str:
    source, target = escaped(audit.subject.source), escaped(audit.target.name)
    out = [
        f"### ampaudit: {source} {words.VERDICT_WORD[audit.verdict]} on {target}",
        "",
        escaped(audit.summary),
        "",
        "| mode | verdict | output error | gradient error | step time | speed | memory |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in views.mode_rows(audit):
        mode = row.result
        out.append(
            f"| {row.title} "
            f"| {words.MODE_VERDICT_ICON[mode.verdict]} {words.MODE_VERDICT[mode.verdict]} "
            f"| {words.percent(mode.output_error)} | {words.percent(mode.gradient_error)} "
            f"| {_labelled(words.milliseconds(mode.time_ms), mode.time_kind)} "
            f"| {words.speedup(mode.speedup)} "
            f"| {_labelled(words.size(mode.memory_bytes), mode.memory_kind)} |"
        )
    serious = [f for f in audit.findings if f.severity in answers.SERIOUS]
    if serious:
        out += ["", *(_item(f, audit) for f in serious[:_MOST_FINDINGS])]
    if len(serious) > _MOST_FINDINGS:
        out.append(f"- and {len(serious) - _MOST_FINDINGS} more")
    out += [
        "",
        "<details><summary>Loss scale and plan</summary>",
        "",
        escaped(words.sentence(audit.loss_scale.reason)),
        "",
    ]
    if audit.plan is not None:
        out += _fenced(audit.plan.snippet)
    out += ["", "</details>"]
    return "\n".join(out) + "\n"


def _labelled(amount: str, kind: str | None) -> str:
    return f"{amount} ({kind})" if kind else amount
