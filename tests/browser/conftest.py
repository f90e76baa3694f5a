"""Reports opened in a real Chromium, as a reader opens them: from a file, with no network."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor.contract import Audit, Check, Evidence, GateResult, OpTable, StaleSuppression, read_audit
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


def op_table(rows: int, text: str = "blocks.1.ff.wo") -> OpTable:
    """Two thirds forward, the last forward row infinite in FP16; `text` stands wherever a user's text may."""
    texts = (
        "aten.addmm.default",
        "aten.add.Tensor",
        "matmul",
        "add",
        "forward",
        "backward",
        text,
        "Linear",
        "net.py",
    )
    turn = rows * 2 // 3
    error = tuple(1e-4 * (i % 7 + 1) for i in range(rows))
    return OpTable(
        texts=texts,
        op=tuple(i % 2 for i in range(rows)),
        family=tuple(2 + i % 2 for i in range(rows)),
        phase=tuple(4 if i < turn else 5 for i in range(rows)),
        module=(6,) * rows,
        type=(7,) * rows,
        file=(8,) * rows,
        line=tuple(range(1, rows + 1)),
        forward=(None,) * rows,
        flops=tuple(1000 * (i + 1) for i in range(rows)),
        bytes=(4000,) * rows,
        absmax=(2.5,) * rows,
        fp16_error=tuple(float("inf") if i == turn - 1 else e for i, e in enumerate(error)),
        fp16_local=error,
        bf16_error=(*error[:-1], None),
        bf16_local=error,
    )


@pytest.fixture(scope="session")
def full(audit: Audit) -> Audit:
    """The sample with ops, the target's peaks and a gate: every section there is."""
    target = audit.target.model_copy(
        update={"bandwidth": 2e12, "product_flops": {"fp32": 2e13, "fp16": 3e14, "bf16": 3e14}}
    )
    checks = (
        Check(
            name="findings of severity high", outcome="fail", expected="0", operator="==", actual="1",
            findings=(audit.findings[0].id,),
        ),
        Check(
            name="range margin", outcome="inconclusive", expected="1", operator=">=", actual="none", near=True
        ),
    )  # fmt: skip
    gate = GateResult(name="net", outcome="fail", checks=checks)
    stale = StaleSuppression(where="net.py:3", rules=("AMP101",), why="it expired on 2020-01-01")
    return audit.model_copy(update={"ops": op_table(90), "target": target, "gate": gate, "stale": (stale,)})


@pytest.fixture(scope="session")
def many_ops(audit: Audit) -> Audit:
    """Ten thousand ops in two thousand layers."""
    layers = tuple(
        audit.layers[i % len(audit.layers)].model_copy(update={"module": f"stack.{i}.linear"})
        for i in range(2000)
    )
    return audit.model_copy(update={"ops": op_table(10_000), "layers": layers})


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
    return audit.model_copy(
        update={"findings": (finding,), "layers": (layer,), "summary": HOSTILE, "ops": op_table(30, HOSTILE)}
    )


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
