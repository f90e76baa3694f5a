"""Faults in training scripts: each kind on its line, its mended twin silent, healthy scripts silent."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import UsageProblem
from auditor.judge.rules import load_rules
from auditor.lint.check import check_file, check_text

ROOT = Path(__file__).parents[2]
HEALTHY = sorted((ROOT / "tests/data/lint/healthy").glob("*.py"))
RULES = [rule for rule in load_rules() if rule.file.phases == ("source",)]


def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("loops_bench", ROOT / "bench/loops.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


loops = bench()
CASES = sorted(p.name for p in loops.ROOT.iterdir() if p.is_dir())

HEAD = """import torch
from torch import nn
model, other = nn.Linear(4, 4), nn.Linear(4, 4)
opt, opt2 = torch.optim.SGD(model.parameters(), lr=1), torch.optim.SGD(other.parameters(), lr=1)
scaler = torch.amp.GradScaler("cuda")
for i, x in enumerate([]):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x).mean()
"""


def found(text: str) -> list[tuple[str, int, str]]:
    return [(f.rule, f.line or 0, f.severity) for f in check_text(text, "train.py", RULES).findings]


def loop(*lines: str) -> list[tuple[str, int, str]]:
    """Findings of the loop of HEAD (8 lines) followed by `lines`."""
    return found(HEAD + "".join(f"    {line}\n" for line in lines))


STEP = ("scaler.scale(loss).backward()", "scaler.step(opt)", "scaler.update()")


@pytest.mark.parametrize("case", CASES)
def test_the_loop_cases_hold(case: str) -> None:
    score = loops.score(loops.ROOT / case)
    assert (score["localised"], score["alarms"]) == (not score["clean"], [])


def test_every_source_rule_has_a_case_that_fires() -> None:
    fired = {f.rule for case in CASES for f in check_file(loops.ROOT / case / "train.py", RULES).findings} | {
        "AMP306"
    }  # below
    assert fired == {rule.id for rule in RULES}


@pytest.mark.parametrize("path", HEALTHY, ids=lambda p: p.stem)
def test_healthy_scripts_are_silent(path: Path) -> None:
    assert check_file(path, RULES).findings == ()


def test_there_are_twenty_healthy_scripts() -> None:
    assert len(HEALTHY) >= 20


def test_the_plain_recipe_is_silent() -> None:
    assert loop(*STEP) == []


def test_a_backward_without_scale() -> None:
    assert loop("loss.backward()", *STEP[1:]) == [("AMP306", 9, "high")]


def test_clip_before_and_after_unscale() -> None:
    clip = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    assert loop(STEP[0], clip, *STEP[1:]) == [("AMP301", 10, "high")]
    assert loop(STEP[0], "scaler.unscale_(opt)", clip, *STEP[1:]) == []


def test_clip_of_the_other_optimizers_parameters() -> None:
    clip = "nn.utils.clip_grad_value_(other.parameters(), 1.0)"
    assert loop(STEP[0], "scaler.unscale_(opt)", clip, *STEP[1:]) == [("AMP301", 11, "high")]


def test_update_under_a_condition_that_step_does_not_share() -> None:
    assert loop(*STEP[:2], "if i % 2:", "    scaler.update()") == [("AMP303", 10, "high")]


def test_a_scaled_loss_by_name() -> None:
    assert loop("scaled = scaler.scale(loss)", "scaled.backward()", "opt.step()", "scaler.update()") == [
        ("AMP302", 11, "high")
    ]


@pytest.mark.parametrize(
    ("operand", "expected"),
    [
        ("y.half()", [("AMP313", 12, "medium")]),
        ("y.view(-1)", []),  # float32 beside half is promoted
        ("y", []),
    ],
)
def test_a_loss_after_the_region_is_half_only_beside_half(
    operand: str, expected: list[tuple[str, int, str]]
) -> None:
    lines = HEAD.replace("loss = model(x).mean()", "out = model(x)") + f"    diff = out - {operand}\n"
    assert found(f"{lines}    y = x\n    opt.zero_grad()\n    loss = diff.pow(2).sum()\n") == expected


def test_an_update_for_each_optimizer_of_a_dict() -> None:
    text = HEAD.replace("for i, x", 'opts = {"a": opt, "b": opt2}\nfor i, x', 1)
    text += "    scaler.scale(loss).backward()\n    for o in opts.values():\n"
    text += "        scaler.step(o)\n        scaler.update()\n"
    assert [(r, n) for r, n, _ in found(text)] == [("AMP304", 13)]


def test_names_do_not_matter() -> None:
    text = (HEAD + "    " + "\n    ".join((STEP[0], "opt.step()", STEP[2])) + "\n").replace("scaler", "s")
    text = text.replace("opt", "solver").replace("torch.solverim", "torch.optim")
    assert [(r, n) for r, n, _ in found(text)] == [("AMP302", 10)]


def test_a_step_in_a_function_of_the_file() -> None:
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    text = f"def take(o):\n    {clip}\n    scaler.step(o)\n    scaler.update()\n"
    lines = found(text + HEAD + "    scaler.scale(loss).backward()\n    take(opt)\n")
    assert lines == [("AMP301", 2, "high")]


def test_a_scaler_that_is_switched_off_is_no_matter() -> None:
    assert (
        found(
            HEAD.replace('"cuda")\nfor', '"cuda", enabled=False)\nfor')
            + "    loss.backward()\n    opt.step()\n"
        )
        == []
    )


def test_suppression_with_and_without_a_reason(tmp_path: Path) -> None:
    for comment, standing in (("# ampaudit: ignore[AMP302] a probe", 0), ("# ampaudit: ignore[AMP302]", 1)):
        path = tmp_path / f"train{standing}.py"
        path.write_text(
            f"{HEAD}    scaler.scale(loss).backward()\n    opt.step()  {comment}\n    scaler.update()\n"
        )
        checked = check_file(path, RULES)
        assert (len(checked.findings), len(checked.suppressed)) == (standing, 1 - standing)


def test_a_syntax_error_names_its_line() -> None:
    with pytest.raises(UsageProblem, match=r"train\.py:2: not Python"):
        check_text("x = 1\nfor in y:\n", "train.py", RULES)


@given(
    st.lists(
        st.sampled_from(
            [*STEP, "if i:", "else:", "    opt.step()", "continue", "x = 1", "scaler.unscale_(opt)"]
        )
    )
)
def test_any_loop_is_read_or_refused(lines: list[str]) -> None:
    try:
        loop(*lines)
    except UsageProblem as error:
        assert "train.py:" in str(error)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from auditor.cli.main import run; run()", "lint", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )


def test_the_command() -> None:
    bad, good = "bench/loops/clip-without-unscale/train.py", "bench/loops/clip-without-unscale/fixed.py"
    told = run(bad)
    assert told.returncode == 1
    assert told.stdout.startswith(f"{bad}:37: AMP301 high ")
    assert run(good).returncode == 0
    assert run("bench/loops/none.py").returncode == 2
    document = json.loads(run("--format", "json", bad).stdout)
    assert [f["line"] for f in document["findings"]] == [37]
    sarif = json.loads(run("--format", "sarif", bad).stdout)
    schema = json.loads((ROOT / "tests/report/sarif-2.1.0-rtm.5.json").read_text())
    import jsonschema

    jsonschema.validate(sarif, schema)
    assert sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 37
    assert "AMP301" in run("--format", "md", bad).stdout
