"""The page's answers, worked out from the audit."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.contract import Audit
from auditor.report import answers, views, words


def _with_modes(audit: Audit, precisions: tuple[str, ...], **verdicts: str) -> Audit:
    modes: dict[str, Any] = dict(audit.modes)
    for name, verdict in verdicts.items():
        modes[name] = modes[name].model_copy(update={"verdict": verdict})
    target = audit.target.model_copy(update={"precisions": precisions})
    return audit.model_copy(update={"modes": modes, "target": target})


BOTH = ("fp16", "bf16", "tf32", "fp32")


@pytest.mark.parametrize(
    ("precisions", "verdicts", "headline"),
    [
        (BOTH, {"autocast_fp16": "ok"}, "Yes: train in FP16 or BF16 under autocast."),
        (BOTH, {}, "Train in BF16 under autocast; FP16 needs changes first."),
        (("fp16", "fp32"), {}, "Not as it stands; FP16 works with the plan below."),
        (("fp16", "fp32"), {"plan": "broken"}, "No: FP16 does not hold under autocast."),
        (
            BOTH,
            {"autocast_bf16": "broken", "plan": "broken"},
            "No: FP16 and BF16 do not hold under autocast.",
        ),
        (("fp32",), {}, "T4 gains nothing from 16 bit."),
        (BOTH, {"fp32": "broken"}, "Mend the model first: it is not sound in FP32."),
        (
            BOTH,
            {"autocast_fp16": "not_run", "autocast_bf16": "not_run"},
            "Not established: the 16-bit modes were not run.",
        ),
    ],
)
def test_headline(audit: Audit, precisions: tuple[str, ...], verdicts: dict[str, str], headline: str) -> None:
    assert answers.header(_with_modes(audit, precisions, **verdicts)).headline == headline


def test_what_to_change_is_what_stands_in_the_way_of_the_plan(audit: Audit) -> None:
    assert answers.header(audit).change == "1 line"
    assert audit.plan is not None
    bf16 = audit.model_copy(update={"plan": audit.plan.model_copy(update={"base": "bf16", "regions": ()})})
    header = answers.header(bf16)
    assert (header.change, header.change_note) == ("nothing", "to train in BF16; FP16 needs 1 line changed")


def test_findings_of_another_mode_are_not_to_do(audit: Audit) -> None:
    assert [f.rule for f in answers.relevant(audit)] == ["AMP101"]  # AMP122 concerns pure BF16 alone


def test_gain_without_times_is_not_known(audit: Audit) -> None:
    plan = audit.modes["plan"].model_copy(update={"speedup": None})
    assert (
        answers.header(audit.model_copy(update={"modes": {**audit.modes, "plan": plan}})).gain == "not known"
    )


def test_rules_fall_into_four_groups(audit: Audit) -> None:
    groups = {group.title: group.rules for group in views.rule_groups(audit)}
    assert groups == {
        "fired": ("AMP101 (118)", "AMP112 (20)", "AMP122 (12)"),
        "silent": ("AMP115 (44)",),
        "not applicable": ("AMP130",),
        "could not run": ("AMP199 (3): no such fact: entropy",),
    }


def test_the_culprit_line_is_marked(audit: Audit) -> None:
    card = views.cards(audit)[0][0]
    assert [(line.number, line.text.strip()) for line in card.source if line.culprit] == [
        (25, "return self.wo(h)")
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [("all well", "All well."), ("bf16: held", "bf16: held."), ("loss() of it", "loss() of it."), ("", "")],
)
def test_sentence_leaves_code_as_it_is(text: str, shown: str) -> None:
    assert words.sentence(text) == shown
