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

from auditor.contract import Audit, Finding
from auditor.report import charts, words

_TEMPLATES = "auditor.reports"


@cache
def _text(name: str) -> str:
    return (files(_TEMPLATES) / "templates" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(autoescape=True, loader=FunctionLoader(_text), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(number=words.number, size=words.size, ms=words.milliseconds, place=words.place)
    return environment


def _sha256(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(value: Any) -> Markup:
    """JSON that cannot end its script element or break a line in any parser."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _layer_rows(audit: Audit) -> list[dict[str, Any]]:
    """What the layer table needs, already worded; the page only filters, sorts and shows."""
    by_module: dict[str, list[str]] = {}
    for finding in audit.findings:
        for module in (finding.module, *finding.also_at):
            by_module.setdefault(module, []).append(finding.id)
    step = sum(c.time_us or 0.0 for layer in audit.layers for p, c in layer.candidates.items() if p == "fp32") or 1.0
    rows = []
    for layer in audit.layers:
        rows.append(
            {
                "module": layer.module or "(root)",
                "type": layer.type,
                "place": f"{layer.file.rsplit('/', 1)[-1]}:{layer.line}" if layer.file else "",
                "precision": layer.precision,
                "why": layer.why,
                "ops": ", ".join(layer.ops),
                "share": (layer.candidates["fp32"].time_us or 0.0) / step if "fp32" in layer.candidates else 0.0,
                "findings": by_module.get(layer.module, []),
                "candidates": {
                    p: {"safe": c.safe, "error": words.number(c.error), "absmax": words.number(c.absmax, 3)}
                    for p, c in layer.candidates.items()
                },
            }
        )
    return rows


def _todo(audit: Audit) -> list[Finding]:
    return [f for f in audit.findings if f.severity in ("high", "medium")][:8]


def render_html(audit: Audit) -> str:
    """The whole page as text. Every number on it is one of the audit's."""
    script = _text("report.js")
    style = _text("report.css")
    plan = audit.modes.get("plan")
    formats = [p for p in ("fp16", "bf16") if p in audit.target.precisions] or ["fp16", "bf16"]
    return _environment().get_template("report.html.j2").render(
        audit=audit,
        words=words,
        plan=plan,
        formats=formats,
        todo=_todo(audit),
        serious=[f for f in audit.findings if f.severity in ("high", "medium")],
        minor=[f for f in audit.findings if f.severity in ("low", "info")],
        curve=charts.scale_curve(audit.loss_scale),
        histograms=[charts.histogram_bars(h) for h in audit.histograms],
        ladder=charts.range_ladder(audit),
        memory=charts.memory_bars(audit),
        rows=_layer_rows(audit),
        data=_embedded(_layer_rows(audit)),
        style=Markup(style),
        script=Markup(script),
        style_hash=_sha256(style),
        script_hash=_sha256(script),
    )  # fmt: skip
