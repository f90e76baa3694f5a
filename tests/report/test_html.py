"""The page from the JSON alone: its numbers, its safety, and what stands on it without JavaScript."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from auditor.contract import Audit, read_audit, write_audit
from auditor.report.html import embedded_json, render_html

VOID = {"meta", "link", "input", "br", "img", "hr"}


class Page(HTMLParser):
    """Elements with their attributes, and the text a reader sees without scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def html(audit: Audit) -> str:
    return render_html(audit)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def _data(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    assert found is not None
    data = json.loads(found[1])
    assert isinstance(data, dict)
    return data


def test_elements_are_closed_in_order(page: Page) -> None:
    assert page.open == []


def test_the_page_follows_from_the_json_alone(audit: Audit, html: str) -> None:
    assert render_html(read_audit(write_audit(audit))) == html


def test_answers_modes_and_findings_stand_without_javascript(page: Page) -> None:
    for words in (
        "Not as it stands; FP16 works with the plan below.",
        "FP16 fails under autocast.",
        "2.25× the speed of FP32",
        "1.52 ms instead of 3.42 ms (predicted)",
        "safe from 2⁹ to 2¹⁸",
        "examples/tiny_translator.py:25",
        "12 of 3,072 results become infinite",
        "scaler.unscale_(optimizer)",
        "The residual is meant to cancel here.",
        "ampaudit examples/tiny_translator.py --target T4",
    ):
        assert words in page.text, words


@pytest.mark.parametrize(
    ("mode", "shown"),
    [
        ("plan", "0.087 % emulated 0.19 % emulated 1.52 ms predicted 2.25×"),
        ("tf32", "This target has no TF32. – – – – –"),
    ],
)
def test_a_mode_shows_the_numbers_of_the_json(page: Page, mode: str, shown: str) -> None:
    assert shown in page.text, mode


def test_the_embedded_layers_are_those_of_the_json(audit: Audit, html: str) -> None:
    data = _data(html)
    text = data["texts"]
    at = [layer.module for layer in audit.layers].index("blocks.1.ff.wo")
    assert data["module"] == [layer.module for layer in audit.layers]
    assert text[data["precision"][at]] == "FP32"
    safe, error, local, absmax, overflow, *_ = data["candidates"]["FP16"][at]
    assert safe is False
    assert [text[i] for i in (error, local, absmax, overflow)] == [
        "non-finite",
        "0.021 %",
        "98,608",
        "0.39 %",
    ]
    assert data["candidates"]["TF32"][at] == []
    assert data["findings"][at] == ["4f0c2a91d3be"]


def test_policy_allows_the_inline_script_and_style_and_nothing_else(html: str, page: Page) -> None:
    policy = next(
        a["content"]
        for t, a in page.elements
        if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None and policy.startswith("default-src 'none'")
    for tag in ("script", "style"):
        found = re.search(rf"<{tag}>(.*?)</{tag}>", html, re.S)
        assert found is not None
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_nothing_is_fetched(page: Page) -> None:
    links = [a[k] or "" for _, a in page.elements for k in ("src", "href", "action", "xlink:href") if k in a]
    assert links and all(link.startswith("#") or link == "data:," for link in links)


def test_no_attribute_runs_script_or_carries_style(page: Page) -> None:
    assert not [name for _, a in page.elements for name in a if name.startswith("on") or name == "style"]


def test_scripts_never_parse_markup(html: str) -> None:
    script = re.search(r"<script>(.*?)</script>", html, re.S)
    assert script is not None
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script[1]
    )


def test_hostile_texts_stay_text(hostile: Audit) -> None:
    html = render_html(hostile)
    page = Page(html)
    assert page.open == []
    assert [tag for tag, _ in page.elements].count("script") == 2  # the program and the data
    assert "img" not in [tag for tag, _ in page.elements]
    assert not [name for _, a in page.elements for name in a if name.startswith("on")]
    assert "\u2028" not in html[html.index('id="data"') :]
    assert _data(html)["module"][0] == hostile.layers[0].module
    assert "{{7*7}}" in page.text


def test_embedded_json_cannot_end_its_element() -> None:
    assert embedded_json("</script>&\u2028") == '"\\u003c/script\\u003e\\u0026\\u2028"'


def test_a_bare_audit_renders(audit: Audit) -> None:
    """What an audit without inputs has: no modes, no memory, no plan, no curve."""
    bare = audit.model_copy(
        update={
            "modes": {},
            "memory": None,
            "plan": None,
            "findings": (),
            "layers": (),
            "histograms": (),
            "ranges": (),
            "rules": (),
            "suppressed": (),
            "notes": (),
            "loss_scale": audit.loss_scale.model_copy(update={"curve": (), "log2": None, "initial": None}),
            "verification": audit.verification.model_copy(
                update={"executed": False, "holds": None, "attempts": ()}
            ),
        }
    )
    page = Page(render_html(bare))
    assert page.open == []
    assert "Not established" in page.text
    assert "There is no plan" in page.text


def test_ten_thousand_layers_stay_small(deep: Callable[[int], Audit]) -> None:
    html = render_html(deep(10_000))
    assert len(html) < 3_000_000
    assert len(Page(html).elements) < 2_000
