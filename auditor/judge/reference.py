"""The rule reference, docs/rules.md, written from rules/: `python -m auditor.judge.reference`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from auditor.judge.rules import Rule, load_rules
from auditor.judge.vocabulary import VOCABULARY

_HEAD = """# Rules

<!-- Generated from rules/*.toml by `python -m auditor.judge.reference`: edit those, then run it again. -->

A rule is a condition over the facts of one op in one mode, and what to say when it holds; the first of its
levels that holds gives the severity. **high** and **medium** need a run that really came out broken or
degraded and an op that is to blame for it, or an op that raises; **low** is a risk this batch did not
exercise; **info** is worth knowing. Of the rules that fire on one op the most serious is told, and among
equals the one with the highest priority.
"""

_FACTS = """## Facts

What a condition (`when`) and a message may name. A rule of your own is a file of the same form as those in
`rules/`; its conditions are written in [CEL](https://cel.dev).
"""

_TYPES = {bool: "true or false", int: "integer", float: "number", str: "text"}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _fenced(text: str, language: str) -> str:
    return f"```{language}\n{text.strip()}\n```"


def _section(rule: Rule) -> str:
    file = rule.file
    families = "every op" if file.families == ("*",) else ", ".join(file.families)
    scope = f"{families}; {', '.join(file.phases)}; {', '.join(file.precisions)}; {', '.join(file.modes)}"
    parts = [
        f"### {file.id} {file.name}",
        f"Looks for: {file.summary}. {file.doc.what}",
        f"**Why.** {file.doc.why}",
        _fenced(file.doc.example, "python"),
        "Use instead:",
        _fenced(file.doc.instead, "python"),
        f"Applies to: {scope}. Priority {file.priority}.",
    ]
    for level in file.level:
        parts += [f"**{level.severity}** when", _fenced(level.when, "cel")]
    # Levels that differ only in severity share their advice.
    parts += [f"**Fix.** {fix}" for fix in dict.fromkeys(level.fix for level in file.level)]
    parts.append("References: " + "; ".join(file.doc.references) + ".")
    return "\n\n".join(parts)


def render(rules: Sequence[Rule]) -> str:
    """The reference as Markdown: an index, a section a rule, and the facts."""
    index = _table(
        ("rule", "name", "looks for", "severities"),
        [
            (
                rule.id,
                f"[{rule.name}](#{rule.id.lower()}-{rule.name})",
                rule.summary,
                ", ".join(dict.fromkeys(level.severity for level in rule.file.level)),
            )
            for rule in rules
        ],
    )
    facts = _table(
        ("fact", "type", "meaning"),
        [(f"`{name}`", _TYPES[type(fact.default)], fact.meaning) for name, fact in VOCABULARY.items()],
    )
    return "\n\n".join([_HEAD.strip(), index, *map(_section, rules), _FACTS.strip(), facts]) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/rules.md")
    target.write_text(render(load_rules()), encoding="utf-8")
