"""The report as a reader uses it, in Chromium."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from auditor.contract import Audit

pytestmark = pytest.mark.browser
Open = Callable[..., Any]
NODES = "document.querySelectorAll('*').length"


def _rows(page: Any) -> list[str]:
    return [text.strip() for text in page.locator("#layer-rows button").all_inner_texts()]


def test_renders_without_complaint_or_network(open_report: Open, audit: Audit) -> None:
    opened = open_report(audit)
    assert opened.page.locator("h1").inner_text() == "TinyTranslator"
    assert _rows(opened.page)[0] == "embed"
    assert opened.page.locator("#count").inner_text() == "13 of 13 layers"
    assert opened.complaints == []
    assert len(opened.requests) == 1  # the file itself


def test_answers_are_there_without_javascript(open_report: Open, audit: Audit) -> None:
    page = open_report(audit, java_script_enabled=False).page
    assert page.locator("#verdict").is_visible()
    assert page.locator("table.modes tbody tr").count() == 7
    assert page.get_by_text("12 of 3,072 results become infinite").is_visible()
    assert page.locator("noscript p").is_visible()
    assert not page.locator("#layer-table").is_visible()
    assert not page.locator("#theme").is_visible()


def test_layers_are_filtered_and_the_fragment_keeps_it(open_report: Open, audit: Audit) -> None:
    page = open_report(audit).page
    page.locator("#search").fill("attention.qkv")
    assert _rows(page) == ["blocks.0.attention.qkv", "blocks.1.attention.qkv"]
    page.locator("#search").fill("")
    page.locator("#unsafe").select_option("FP16")
    assert _rows(page) == ["blocks.1.ff.wo"]
    assert page.locator("#count").inner_text() == "1 of 13 layers"
    assert "unsafe=FP16" in page.url
    page.reload()
    assert _rows(page) == ["blocks.1.ff.wo"]


def test_layers_are_sorted_by_time(open_report: Open, audit: Audit) -> None:
    page = open_report(audit).page
    page.locator("[data-sort=time]").click()
    assert _rows(page)[0] == "head"
    header = page.locator("th", has=page.locator("[data-sort=time]"))
    assert header.get_attribute("aria-sort") == "descending"
    page.locator("[data-sort=time]").click()
    assert _rows(page)[0] == "embed"


def test_a_layer_link_shows_its_numbers(open_report: Open, audit: Audit) -> None:
    page = open_report(audit, "#layer=blocks.1.ff.wo").page
    detail = page.locator("#layer-detail")
    assert detail.is_visible()
    row = detail.locator("tbody tr").first.inner_text().split("\t")
    assert row[:5] == ["FP16", "unsafe", "non-finite", "0.021 %", "98,608"]
    detail.get_by_role("link", name="product overflow").click()
    assert page.locator(".finding.chosen").get_attribute("id") == "finding=4f0c2a91d3be"


def test_a_finding_link_unfolds_it(open_report: Open, audit: Audit) -> None:
    page = open_report(audit, "#finding=c2e9b0a4f711").page
    finding = page.locator("[id='finding=c2e9b0a4f711']")
    assert finding.get_attribute("open") is not None
    assert finding.get_by_text("Use 1e-6 or more.").is_visible()


def test_findings_of_one_severity(open_report: Open, audit: Audit) -> None:
    page = open_report(audit).page
    page.locator("[data-severity=medium][aria-pressed]").click()
    assert page.locator(".finding:visible").count() == 1
    page.locator("[data-severity=''][aria-pressed]").click()
    assert page.locator(".finding:visible").count() == 4


def test_keyboard(open_report: Open, audit: Audit) -> None:
    page = open_report(audit).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.locator("#layer-rows button").first.focus()
    for _ in range(12):
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "head"
    page.keyboard.press("Enter")
    assert page.locator("#layer-detail h3 code").inner_text() == "head"


def test_theme_follows_the_system_and_the_toggle(open_report: Open, audit: Audit) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light = open_report(audit, color_scheme="light").page
    dark = open_report(audit, color_scheme="dark").page
    assert light.evaluate(background) != dark.evaluate(background)
    assert light.locator("#theme").inner_text() == "Dark theme"
    light.locator("#theme").click()
    assert light.evaluate(background) == dark.evaluate(background)


@pytest.mark.parametrize("width", [390, 768, 1400])
def test_the_page_never_scrolls_sideways(open_report: Open, audit: Audit, width: int) -> None:
    page = open_report(audit, "#layer=blocks.1.ff.wo", width=width).page
    for folded in page.locator("details").all():
        folded.evaluate("node => { node.open = true; }")
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_ten_thousand_layers_stay_few_nodes(open_report: Open, deep: Audit) -> None:
    opened = open_report(deep)
    page = opened.page
    assert page.evaluate(NODES) < 2000
    page.locator("#layer-view").evaluate("view => { view.scrollTop = view.scrollHeight; }")
    page.get_by_text("stack.9999.linear", exact=True).wait_for()
    assert page.evaluate(NODES) < 2000
    page.locator("#search").fill("stack.77.")
    assert _rows(page) == ["stack.77.linear"]
    assert opened.complaints == []


def test_a_link_to_a_layer_deep_in_the_table(open_report: Open, deep: Audit) -> None:
    page = open_report(deep, "#layer=blocks.1.ff.wo").page
    assert page.locator("#layer-rows tr.chosen").is_visible()
    assert page.locator("#layer-rows tr.chosen").get_attribute("aria-rowindex") == "5002"


def test_hostile_texts_do_nothing(open_report: Open, hostile: Audit) -> None:
    opened = open_report(hostile)
    opened.page.locator("#layer-rows button").first.click()
    assert opened.page.locator("#layer-detail h3 code").text_content() == hostile.layers[0].module
    assert opened.page.title().startswith("Precision audit of")
    assert opened.page.locator("img").count() == 0
    assert opened.complaints == []
    assert len(opened.requests) == 1


def test_print_unfolds_everything(open_report: Open, audit: Audit) -> None:
    page = open_report(audit).page
    assert page.pdf()[:5] == b"%PDF-"
    assert page.locator("details:not([open])").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_axe_finds_nothing(open_report: Open, audit: Audit, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    page = open_report(audit, "#layer=blocks.1.ff.wo", width=width, color_scheme=scheme).page
    found = axe.Axe().run(page).response["violations"]
    assert [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found] == []
