"""The stages in order: subject, capture, measure, judge, plan, verify; the result is one Audit."""

from __future__ import annotations

import datetime
import itertools
import linecache
import math
import time
from collections.abc import Callable, Sequence
from functools import cache

import torch

from auditor import __version__
from auditor.batches import widest
from auditor.capture.families import load_families
from auditor.contract import (
    Audit,
    Finding,
    LossScale,
    PlanInfo,
    PlanRegion,
    Tool,
    Verification,
    VerificationAttempt,
)
from auditor.devices import Device, choose_device
from auditor.errors import SubjectProblem
from auditor.judge.evaluate import evaluate, findings_of
from auditor.judge.facts import cases_of, optimizer_cases
from auditor.judge.rules import rules_with
from auditor.judge.suppress import split_suppressed, stale_comments
from auditor.measure import Measurements, fp16_line, measure
from auditor.numerics.optimizer import OptimizerStep, assumed_recipe, optimizer_step, recipe_of
from auditor.numerics.step import Work
from auditor.plan.layers import layers_of
from auditor.plan.loss_scale import loss_scale_of
from auditor.plan.modes import memory_of, modes_of, times_of
from auditor.plan.optable import op_table
from auditor.plan.pictures import range_rows, worst_histograms
from auditor.plan.snippet import training_snippet
from auditor.plan.solve import Solved, solve
from auditor.plan.verdict import verdict_of
from auditor.provenance import environment_of, notes_of, subject_info
from auditor.static import audit_without_inputs
from auditor.subject.inputs import Arguments
from auditor.subject.load import LossKind, Subject, load_subject, loss_of
from auditor.subject.request import AuditRequest
from auditor.verify.batches import verify_on

Progress = Callable[[str, int, int], None]


def audit(request: AuditRequest, progress: Progress) -> Audit:
    """Run the whole audit of `request` in this process. Raises AuditError."""
    progress("loading the model", 0, 1)
    return audit_subject(load_subject(request), request, progress)


def audit_subject(subject: Subject, request: AuditRequest, progress: Progress) -> Audit:
    """Audit a model that is loaded already; `request` says the rest. Raises AuditError."""
    started = time.monotonic()
    device, target = choose_device(request.target, request.device_file)
    rules = rules_with(request.rules)
    if not subject.batches:
        return audit_without_inputs(
            request, subject, target, rules, __version__, environment_of(request, started)
        )
    families = load_families()
    works, loss_kind = _works(subject, request)
    measurements = measure(works, families, subject.loss_scale or 1.0, progress)
    measured = widest(measurements)
    if (
        not any(t.is_floating_point() for t in measured.reference.outputs)
        and not measured.reference.gradients
    ):
        raise SubjectProblem(
            "nothing floating comes out of this model",
            where=request.model,
            next_step="precision matters only to models that compute with floats",
        )
    if measured.reference.outputs and not any(t.numel() for t in measured.reference.outputs):
        raise SubjectProblem(
            "every output is empty, so there is nothing to compare",
            where=request.model,
            next_step="give inputs that hold elements",
        )
    progress("judging", 6, 7)
    kind = loss_kind()

    @cache
    def scale_for(fp16: bool) -> LossScale:
        return _loss_scale(measurements, subject, fp16=fp16, surrogate=kind == "surrogate")

    cases = cases_of(measurements, device, families, scale_for(True).log2)
    optimizer = optimizer_cases(
        optimizer_steps(subject, request, measurements[0]), *_optimizer_place(subject)
    )
    hits, statuses = evaluate(rules, itertools.chain(cases, optimizer))
    findings, suppressed = split_suppressed([_with_source(f) for f in findings_of(hits)])
    progress("executing the plan", 6, 7)
    solved = solve(works[0], measured, families, device, scale_for)
    further = verify_on(works[1:], solved, measured, families)
    own_fp16 = solved.run is not None and fp16_line(solved.run) is not None
    scale = scale_for(solved.base == "fp16" or own_fp16)
    times = times_of(measured, solved, device, families)
    memory = memory_of(subject.model, measured, solved, request.optimizer)
    layers = layers_of(subject.model, measured, solved, findings, times, device)
    verification = _verification(solved, further)
    modes = modes_of(measured, solved, times, memory, device, subject.model)
    verdict, summary = verdict_of(findings, request.mode, target, solved, measured, verification, modes)
    progress("done", 7, 7)
    return Audit(
        tool=Tool(version=__version__),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        subject=subject_info(subject, request, measured, kind),
        target=target,
        mode=request.mode,
        verdict=verdict,
        summary=summary,
        findings=tuple(findings),
        layers=layers,
        loss_scale=scale,
        modes=modes,
        memory=memory,
        plan=_plan(solved, scale, device),
        verification=verification,
        histograms=worst_histograms(measured, findings, scale),
        ranges=range_rows(measured),
        ops=op_table(measured),
        rules=statuses,
        suppressed=suppressed,
        stale=stale_comments({op.file for op in measured.trace.ops if op.file}, suppressed),
        notes=tuple(notes_of(measured, kind, target, subject, request)),
        environment=environment_of(request, started),
    )


def _works(subject: Subject, request: AuditRequest) -> tuple[list[Work], Callable[[], LossKind]]:
    """The step on each batch, and what kind of loss they turned out to have."""
    kinds: list[LossKind] = []

    def work_on(inputs: Arguments) -> Work:
        def loss(output: object) -> torch.Tensor | None:
            value, kind = loss_of(subject, output, inputs)
            kinds.append(kind)
            return value

        args, kwargs = inputs
        return Work(subject.model, args, kwargs, loss, request.seed)

    return [work_on(inputs) for inputs in subject.batches], lambda: kinds[0] if kinds else "none"


def optimizer_steps(subject: Subject, request: AuditRequest, measured: Measurements) -> list[OptimizerStep]:
    """The optimizer's step on 16-bit parameters, from the first batch's FP32 gradients."""
    recipe = (
        recipe_of(subject.optimizer, subject.model)
        if subject.optimizer is not None
        else assumed_recipe(request.optimizer)
    )
    if recipe is None or measured.reference_problem is not None:
        return []
    parameters = dict(subject.model.named_parameters())
    steps = [
        optimizer_step(recipe, parameters, measured.reference.gradients, precision)
        for precision in ("fp16", "bf16")
    ]
    return [step for step in steps if step is not None]


def _optimizer_place(subject: Subject) -> tuple[str | None, int | None]:
    known = subject.optimizer_line is not None and subject.file is not None
    return (str(subject.file), subject.optimizer_line) if known else (None, None)


def _with_source(finding: Finding) -> Finding:
    if finding.file is None or finding.line is None:
        return finding
    start = max(finding.line - 3, 1)
    lines = [linecache.getline(finding.file, n).rstrip("\n") for n in range(start, finding.line + 4)]
    while lines and not lines[-1].strip():
        lines.pop()
    return finding.model_copy(update={"source": tuple(lines), "source_start": start})


def _loss_scale(
    measurements: Sequence[Measurements], subject: Subject, *, fp16: bool, surrogate: bool
) -> LossScale:
    runs = [measured.runs["autocast_fp16"] for measured in measurements]
    histograms = [r.gradient for run in runs for r in run.records if r.gradient is not None]
    own = runs[0].mode.loss_scale
    failed = any(run.result.failed for run in runs)
    why_not = "the FP16 step did not reach its backward pass" if failed else ""
    return loss_scale_of(
        histograms, run_log2=round(math.log2(own)), fp16=fp16, surrogate=surrogate, why_not=why_not
    )


def _plan(solved: Solved, scale: LossScale, device: Device) -> PlanInfo:
    flops = low = 0
    for op in solved.run.ops if solved.run is not None else ():
        flops += op.flops
        low += op.flops * op.takes_half
    regions = [
        PlanRegion(
            module=path,
            precision=p,
            reason=solved.reasons.get(path, "back to the base below a promoted module"),
        )
        for path, p in solved.regions.items()
    ]
    if solved.fp32_loss:
        regions.append(
            PlanRegion(module="loss", precision="fp32", reason="the loss is computed outside autocast")
        )
    return PlanInfo(
        mode="autocast",
        base=solved.base,
        regions=tuple(regions),
        fp32_loss=solved.fp32_loss,
        flops_low=low / flops if flops else 0.0,
        snippet=training_snippet(solved, scale, "cpu" if device.vendor == "host" else "cuda"),
    )


def _verification(solved: Solved, further: tuple[VerificationAttempt, ...]) -> Verification:
    failed = [attempt for attempt in further if attempt.verdict != "ok"]
    return Verification(
        executed=solved.run is not None,
        holds=solved.run.result.verdict == "ok" and not failed if solved.run is not None else None,
        tolerance=solved.run.allowed if solved.run is not None else 0.0,
        attempts=(*solved.attempts, *further),
        reason=failed[0].reason if failed else solved.reason,
    )
