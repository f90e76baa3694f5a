"""Reports opened in a real Chromium, as a reader opens them: from a file, with no network."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor.contract import Audit, Evidence, read_audit
from auditor.report.html import render_html

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SAMPLE = Path(__file__).parents[1] / "report" / "sample_audit.json"
HOSTILE = (
    "</script><script>document.title='owned'</script>\"'<img src=x onerror=\"document.title='owned'\">\u2028"
)


@pytest.fixture(scope="session")
def audit() -> Audit:
    return read_audit(SAMPLE.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def deep(audit: Audit) -> Audit:
    """Ten thousand layers, the finding's module among them at number 5,000."""
    layers = [
        audit.layers[i % len(audit.layers)].model_copy(update={"module": f"stack.{i}.linear"})
        for i in range(10_000)
    ]
    layers[5000] = layers[5000].model_copy(update={"module": audit.findings[0].module})
    return audit.model_copy(update={"layers": tuple(layers)})


@pytest.fixture(scope="session")
def hostile(audit: Audit) -> Audit:
    finding = audit.findings[0].model_copy(
        update={
            "module": HOSTILE,
            "message": HOSTILE,
            "source": (HOSTILE,),
            "evidence": Evidence(kind="static", values={HOSTILE: HOSTILE}),
        }
    )
    layer = audit.layers[0].model_copy(update={"module": HOSTILE, "type": HOSTILE, "why": HOSTILE})
    return audit.model_copy(update={"findings": (finding,), "layers": (layer,), "summary": HOSTILE})


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the playwright package")
    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
    )
    if found is None:
        pytest.skip("needs a Chromium on the PATH")
    with playwright.sync_playwright() as session:
        browser = session.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Opened:
    """A report in the browser, with everything it complained about or asked the network for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def open_report(chromium: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    contexts = []

    def open_(audit: Audit, fragment: str = "", *, width: int = 1400, **options: Any) -> Opened:
        path = tmp_path / "report.html"
        path.write_text(render_html(audit), encoding="utf-8")
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, reduced_motion="reduce", **options
        )
        contexts.append(context)
        opened = Opened(context.new_page())
        opened.page.on(
            "console", lambda m: opened.complaints.append(m.text) if m.type in ("error", "warning") else None
        )
        opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        opened.page.on(
            "request", lambda r: opened.requests.append(r.url) if not r.url.startswith("data:") else None
        )
        opened.page.goto(path.as_uri() + fragment)
        return opened

    yield open_
    for context in contexts:
        context.close()
