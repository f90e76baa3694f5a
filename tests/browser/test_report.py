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
def test_the_page_never_scrolls_sideways(open_report: Open, full: Audit, width: int) -> None:
    page = open_report(full, "#layer=blocks.1.ff.wo", width=width).page
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


def _ops(page: Any) -> list[str]:
    return [
        text.strip()
        for text in page.locator("#op-rows tr:not(.space) td:first-child .note").all_inner_texts()
    ]


def test_ops_are_filtered_and_sorted_and_the_fragment_keeps_it(open_report: Open, full: Audit) -> None:
    page = open_report(full).page
    assert page.locator("#op-count").inner_text() == "90 of 90 ops"
    page.locator("#op-family").select_option("matmul")
    page.locator("#op-phase").select_option("forward")
    assert page.locator("#op-count").inner_text() == "30 of 90 ops"
    page.locator("[data-op-sort=flops]").click()
    assert _ops(page)[0] == "forward · matmul · net.py:59"  # the last even row below 60
    assert "family=matmul" in page.url and "opsort=-flops" in page.url
    page.reload()
    assert _ops(page)[0] == "forward · matmul · net.py:59"
    page.locator("#op-search").fill("no such op")
    assert page.locator("#op-count").inner_text() == "0 of 90 ops"


def test_what_overflowed_sorts_first_and_unknown_last(open_report: Open, full: Audit) -> None:
    page = open_report(full).page
    page.locator("[data-op-sort=fp16_error]").click()
    first = page.locator("#op-rows tr:not(.space)").first
    assert "net.py:60" in first.inner_text() and "non-finite" in first.inner_text()
    page.locator("[data-op-sort=bf16_error]").click()
    page.locator("#op-view").evaluate("view => { view.scrollTop = view.scrollHeight; }")
    page.get_by_text("backward · add · net.py:90").wait_for()


def test_ten_thousand_ops_stay_few_nodes_and_a_small_file(
    open_report: Open, many_ops: Audit, tmp_path: Any
) -> None:
    opened = open_report(many_ops)
    page = opened.page
    assert (tmp_path / "report.html").stat().st_size < 1_500_000
    assert page.evaluate(NODES) < 2500
    page.locator("#op-view").evaluate("view => { view.scrollTop = view.scrollHeight; }")
    page.get_by_text("net.py:10000").wait_for()
    assert page.locator("#op-rows tr").count() < 60
    assert opened.complaints == []


def test_the_filtered_ops_are_saved(open_report: Open, full: Audit) -> None:
    page = open_report(full).page
    page.locator("#op-search").fill("add.tensor")
    with page.expect_download() as saved:
        page.locator("#op-csv").click()
    lines = saved.value.path().read_text().splitlines()
    assert len(lines) == 46 and lines[0].startswith("op,family,phase")


def test_the_loss_scale_is_tried_by_keyboard(open_report: Open, full: Audit) -> None:
    page = open_report(full).page
    if not page.locator("#scale-pick").count():
        pytest.skip("the sample has no histogram of all gradients")
    before = page.locator("#scale-normal").get_attribute("x")
    page.locator("#scale-pick").focus()
    page.keyboard.press("Home")
    assert page.locator("#scale-said").inner_text().startswith("2⁰:")
    assert page.locator("#scale-normal").get_attribute("x") != before


def test_every_section_of_a_full_audit_is_there(open_report: Open, full: Audit) -> None:
    page = open_report(full).page
    for section in ("gate", "ops", "depth", "roofline"):
        assert page.locator(f"section[aria-labelledby={section}]").is_visible()
    gate = page.locator("section[aria-labelledby=gate]")
    assert "near the limit" in gate.inner_text() and "it expired on 2020-01-01" in gate.inner_text().lower()
    page.locator("#tree > summary").click()
    page.locator("#tree a").first.click()
    assert page.locator("#layer-detail").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_axe_finds_nothing(open_report: Open, full: Audit, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    page = open_report(full, "#layer=blocks.1.ff.wo", width=width, color_scheme=scheme).page
    page.locator("#tree").evaluate("tree => { tree.open = true; }")
    found = axe.Axe().run(page).response["violations"]
    assert [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found] == []
