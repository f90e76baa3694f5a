"""The HTML report: one offline file from one audit."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from auditor.contract import Audit
from auditor.report import answers, charts, views, words
from auditor.report.layers import layer_table
from auditor.report.ops import op_columns
from auditor.report.series import depth_curve, roofline, scale_window
from auditor.report.tree import module_tree


@cache
def _text(name: str) -> str:
    return (files("auditor.reports") / "templates" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(_text),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=words.number, percent=words.percent, size=words.size, ms=words.milliseconds,
        times=words.speedup, sentence=words.sentence, listed=words.listed,
    )  # fmt: skip
    return environment


def _hash_source(text: str) -> str:
    """The content-security-policy's name for an inline script or style."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def embedded_json(value: Any) -> Markup:
    """JSON that can neither end its script element nor break a line in any parser."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def render_html(audit: Audit) -> str:
    """The whole page as text. Every number on it is one of the audit's."""
    script, style = _text("report.js") + _text("ops.js"), _text("report.css")
    steps, more_steps = answers.todo(audit)
    cards, more_cards = views.cards(audit)
    return _environment().get_template("report.html.j2").render(
        audit=audit,
        words=words,
        header=answers.header(audit),
        steps=steps,
        todo_intro=answers.todo_intro(audit),
        more_steps=more_steps,
        modes=views.mode_rows(audit),
        cards=cards,
        more_cards=more_cards,
        severities=views.severity_counts(audit),
        strip=charts.precision_strip(audit),
        rule_groups=views.rule_groups(audit),
        curve=charts.scale_curve(audit.loss_scale),
        histograms=[charts.histogram_picture(h) for h in audit.histograms],
        ladder=charts.range_ladder(audit),
        memory=charts.memory_rows(audit),
        tree=module_tree(audit),
        depth=depth_curve(audit.ops),
        roofline=roofline(audit),
        scale_window=scale_window(audit),
        data=embedded_json(layer_table(audit)),
        ops=embedded_json(op_columns(audit)) if audit.ops is not None else None,
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; style-src {_hash_source(style)}; script-src {_hash_source(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'",
    )  # fmt: skip
