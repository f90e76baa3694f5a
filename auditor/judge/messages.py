"""Message templates of rules: `{fact}` or `{fact:.3g}`, filled with the facts as people read them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from auditor.judge.vocabulary import VOCABULARY

_PLACEHOLDER = re.compile(r"\{(\w+)(?::([^{}]*))?\}")


def placeholders(template: str) -> list[str]:
    """The facts a template names. Raises ValueError on a brace or a format that means nothing here.

    A name the vocabulary lacks is returned like any other: the caller knows how to say where it stands.
    """
    rest = _PLACEHOLDER.sub("", template)
    if "{" in rest or "}" in rest:
        raise ValueError(
            f"a placeholder is {{fact}} or {{fact:.3g}}; a brace is left over in {rest.strip()!r}"
        )
    names = []
    for name, form in _PLACEHOLDER.findall(template):
        names.append(name)
        if form and name in VOCABULARY:
            try:
                format(VOCABULARY[name].default, form)
            except ValueError as error:
                raise ValueError(f"{{{name}:{form}}}: {error}") from None
    return names


def shown(value: Any, unit: str = "") -> str:
    """A number as people read it: thousands separated, shares in per cent, three digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if unit == "share":
        return f"{100 * value:.3g} %"
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return {math.inf: "infinity", -math.inf: "-infinity"}.get(value, "NaN")
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.2g}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def fill(template: str, facts: Mapping[str, Any]) -> str:
    """The template with its facts in place, on one line.

    One pass: what a fact says (an error text of the user's code) is never read as a template.
    """

    def fact(match: re.Match[str]) -> str:
        name, form = match.groups()
        return format(facts[name], form) if form else shown(facts[name], VOCABULARY[name].unit)

    return " ".join(_PLACEHOLDER.sub(fact, template).split())
