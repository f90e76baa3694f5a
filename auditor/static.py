"""The audit of a model without inputs: static findings only, and it says so."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from auditor.capture.symbolic import StaticOp, trace_symbolically
from auditor.contract import (
    Audit,
    Environment,
    ModeName,
    ModeResult,
    Note,
    SubjectInfo,
    TargetInfo,
    Tool,
    Verification,
)
from auditor.errors import UsageProblem
from auditor.judge.evaluate import Site, evaluate, findings_of
from auditor.judge.facts import constant_facts, format_facts
from auditor.judge.rules import Rule
from auditor.judge.vocabulary import defaults
from auditor.plan.loss_scale import no_loss_scale
from auditor.subject.load import Subject
from auditor.subject.request import AuditRequest

_FAMILIES = {
    "add": "add",
    "sub": "add",
    "rsub": "add",
    "mul": "mul",
    "truediv": "div",
    "div": "div",
    "clamp": "clamp",
    "clamp_min": "clamp",
    "masked_fill": "mask_fill",
    "masked_fill_": "mask_fill",
    "where": "mask_fill",
    "pow": "power",
    "full": "fill",
}
_NOT_RUN: tuple[ModeName, ...] = (
    "fp32",
    "tf32",
    "autocast_fp16",
    "autocast_bf16",
    "pure_fp16",
    "pure_bf16",
    "plan",
)


_STATIC = (
    "There were no inputs: these findings come from the model's source alone. "
    "Give --input, --batch or example_inputs() for a real audit."
)


def _facts(op: StaticOp, precision: str) -> dict[str, Any]:
    facts = {**defaults(), **format_facts(precision)}
    facts.update(
        op=op.name,
        family=_FAMILIES.get(op.name, "other"),
        module_type=op.module_type,
        precision=precision,
        mode="pure",
        low=True,
        low_output=True,
    )
    facts.update(constant_facts(op.constants, precision))
    return facts


def audit_without_inputs(
    request: AuditRequest,
    subject: Subject,
    target: TargetInfo,
    rules: Sequence[Rule],
    version: str,
    environment: Environment,
) -> Audit:
    """Raises UsageProblem when torch.fx cannot trace the model: then it needs inputs."""
    try:
        ops = trace_symbolically(subject.model)
    except Exception as error:
        raise UsageProblem(
            f"no inputs, and torch.fx cannot follow the model without them: {str(error).splitlines()[0]}",
            where=request.model,
            next_step="offer example_inputs() in the file, or give --input or --batch",
        ) from error
    cases = [
        (_facts(op, precision), Site(op.module, op.file, op.line, "static"))
        for op in ops
        for precision in ("fp16", "bf16")
    ]
    hits, statuses = evaluate(rules, cases)
    reason = "no inputs were given, so nothing was run"
    return Audit(
        tool=Tool(version=version),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        subject=SubjectInfo(
            source=subject.source,
            entry=subject.entry,
            model_type=type(subject.model).__name__,
            parameters=sum(p.numel() for p in subject.model.parameters()),
            inputs=(),
            inputs_from="none",
            loss="none: nothing was run",
            loss_kind="none",
            training=subject.model.training,
            capture="symbolic",
            seed=request.seed,
            ops=len(ops),
            paired_backward=0.0,
        ),
        target=target,
        mode=request.mode,
        verdict="warn",
        summary="Inconclusive: without inputs only constants were looked at; nothing was measured.",
        findings=tuple(findings_of(hits)),
        layers=(),
        loss_scale=no_loss_scale(reason, "static"),
        modes={name: ModeResult(verdict="not_run", reason=reason) for name in _NOT_RUN},
        memory=None,
        plan=None,
        verification=Verification(executed=False, holds=None, tolerance=0.0, attempts=(), reason=reason),
        histograms=(),
        ranges=(),
        rules=statuses,
        suppressed=(),
        notes=(Note(code="static-only", message=_STATIC),),
        environment=environment,
    )
