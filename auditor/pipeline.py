"""The stages in order: subject, capture, measure, judge, plan, verify; the result is one Audit."""

from __future__ import annotations

import datetime
import linecache
import math
import platform
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from auditor import __version__
from auditor.capture.families import OpFamilies, load_families
from auditor.contract import (
    Audit,
    Environment,
    Evidence,
    Finding,
    LossScale,
    Memory,
    ModeName,
    ModeResult,
    Note,
    PlanInfo,
    PlanRegion,
    SubjectInfo,
    TargetInfo,
    TensorSpec,
    Tool,
    Verdict,
    Verification,
)
from auditor.devices import Device, choose_device
from auditor.errors import SubjectProblem
from auditor.judge.evaluate import evaluate, findings_of
from auditor.judge.facts import cases_of
from auditor.judge.rules import load_rules
from auditor.measure import Measurements, ModeRun, measure
from auditor.numerics.step import Work
from auditor.plan.layers import layers_of
from auditor.plan.loss_scale import loss_scale_of
from auditor.plan.memory import NOTE, itemise
from auditor.plan.pictures import range_rows, worst_histograms
from auditor.plan.snippet import training_snippet
from auditor.plan.solve import Solved, solve
from auditor.plan.timing import StepTime, optimizer_time_us, step_time
from auditor.subject.load import Subject, load_subject, loss_of
from auditor.subject.request import AuditRequest

Progress = Callable[[str, int, int], None]
_LOSS_WORDS = {
    "user": "loss() of the file",
    "model_output": "the output's own .loss",
    "surrogate": "a surrogate: the mean of every output under fixed random signs",
    "none": "none: no floating output",
}


def audit(request: AuditRequest, progress: Progress) -> Audit:
    """Run the whole audit of `request` in this process. Raises AuditError."""
    started = time.monotonic()
    progress("loading the model", 0, 1)
    device, target = choose_device(request.target)
    rules = load_rules()
    subject = load_subject(request)
    if not subject.batches:
        from auditor.static import audit_without_inputs

        return audit_without_inputs(request, subject, target, rules, __version__, _environment(request, started))
    families = load_families()
    work, loss_kind = _work(subject, request)
    measured, _ = measure(work, families, subject.loss_scale or 1.0, progress)
    if not any(t.is_floating_point() for t in measured.reference.outputs) and not measured.reference.gradients:
        raise SubjectProblem(
            "nothing floating comes out of this model", where=request.model, next_step="precision matters only to models that compute with floats"
        )
    progress("judging", 6, 7)
    hits, statuses = evaluate(rules, cases_of(measured, device, families))
    findings = [_with_source(f) for f in findings_of(hits)]
    kind = loss_kind()

    def scale_for(fp16: bool) -> LossScale:
        return _loss_scale(measured, subject, fp16=fp16, surrogate=kind == "surrogate")

    progress("executing the plan", 6, 7)
    solved = solve(work, measured, families, device, scale_for)
    scale = scale_for(solved.base == "fp16")
    times = _times(measured, solved, device, families)
    memory = _memory(subject.model, measured, solved, request.optimizer)
    layers = layers_of(subject.model, measured, solved, findings, times, device)
    verdict, summary = _verdict(findings, request, target, solved, measured)
    progress("done", 7, 7)
    return Audit(
        tool=Tool(version=__version__),
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        subject=_subject_info(subject, request, measured, kind),
        target=target,
        mode=request.mode,
        verdict=verdict,
        summary=summary,
        findings=tuple(findings),
        layers=layers,
        loss_scale=scale,
        modes=_modes(measured, solved, times, memory, device, subject.model),
        memory=memory,
        plan=_plan(solved, scale, device),
        verification=_verification(solved),
        histograms=worst_histograms(measured, findings, scale),
        ranges=range_rows(measured),
        rules=statuses,
        suppressed=(),
        notes=tuple(_notes(measured, kind, target, subject)),
        environment=_environment(request, started),
    )


def _work(subject: Subject, request: AuditRequest) -> tuple[Work, Callable[[], Any]]:
    inputs = subject.batches[0]
    kinds: list[Any] = []

    def loss(output: Any) -> torch.Tensor | None:
        value, kind = loss_of(subject, output, inputs)
        kinds.append(kind)
        return value

    args, kwargs = inputs
    return Work(subject.model, args, kwargs, loss, request.seed), lambda: kinds[0] if kinds else "none"


def _with_source(finding: Finding) -> Finding:
    if finding.file is None or finding.line is None:
        return finding
    start = max(finding.line - 3, 1)
    lines = [linecache.getline(finding.file, n).rstrip("\n") for n in range(start, finding.line + 4)]
    while lines and not lines[-1].strip():
        lines.pop()
    return finding.model_copy(update={"source": tuple(lines), "source_start": start})


def _loss_scale(measured: Measurements, subject: Subject, *, fp16: bool, surrogate: bool) -> LossScale:
    run = measured.runs["autocast_fp16"]
    histograms = [r.gradient for r in run.records if r.gradient is not None]
    own = run.mode.loss_scale
    why_not = "the FP16 step did not reach its backward pass" if run.result.failed else ""
    return loss_scale_of(histograms, run_log2=round(math.log2(own)), fp16=fp16, surrogate=surrogate, why_not=why_not)


def _times(measured: Measurements, solved: Solved, device: Device, families: OpFamilies) -> dict[str, StepTime]:
    times = {"fp32": step_time(measured.trace.ops, device, families, tf32=False)}
    for name, run in measured.runs.items():
        if not run.result.failed:
            times[name] = step_time(run.ops, device, families, tf32=name == "tf32")
    if solved.run is not None:
        times["plan"] = step_time(solved.run.ops, device, families, tf32=False)
    return times


def _elements(model: nn.Module) -> tuple[int, int]:
    parameters = [p for p in model.parameters()]
    return sum(p.numel() for p in parameters), sum(p.numel() for p in parameters if p.requires_grad)


def _weight_copies(run: ModeRun) -> int:
    """Bytes of the 16-bit copies autocast makes of parameters, from the casts that were executed."""
    return sum(
        op.bytes_written
        for op in run.ops
        if op.family == "cast" and op.phase == "forward" and op.origins and (op.origins[0] or "").startswith("param:")
    )


def _memory(model: nn.Module, measured: Measurements, solved: Solved, optimizer: str) -> Memory:
    total, trainable = _elements(model)
    items = {}
    runs: dict[ModeName, ModeRun] = dict(measured.runs)
    if solved.run is not None:
        runs["plan"] = solved.run
    items["fp32"] = itemise(
        parameters=total, trainable=trainable, saved_activations=measured.reference.saved_bytes, weight_copies=0, pure=False, optimizer=optimizer,
    )  # fmt: skip
    for name, run in runs.items():
        if run.result.failed:
            continue
        copies = 0 if run.mode.pure is not None else _weight_copies(run)
        # Copies of weights are saved for backward too; they are shown on their own.
        saved = max(run.saved_bytes - copies, 0)
        items[name] = itemise(
            parameters=total, trainable=trainable, saved_activations=saved, weight_copies=copies, pure=run.mode.pure is not None, optimizer=optimizer,
        )  # fmt: skip
    if "plan" not in items:
        items["plan"] = items["fp32"]
    return Memory(
        optimizer=optimizer,
        modes=items,  # type: ignore[arg-type]
        evidence=Evidence(kind="measured", values={"saved_activations": "bytes autograd kept, measured", "rest": "computed from element counts"}),
        note=NOTE,
    )


def _modes(
    measured: Measurements, solved: Solved, times: dict[str, StepTime], memory: Memory, device: Device, model: nn.Module
) -> dict[ModeName, ModeResult]:
    total, trainable = _elements(model)
    # AdamW reads and writes parameter, gradient and two state values (Loshchilov and Hutter, 2019).
    optimizer = {width: optimizer_time_us(trainable, 7 * width, device) for width in (2, 4)}

    def milliseconds(name: str) -> float | None:
        if name not in times:
            return None
        return (times[name].total_us + optimizer[2 if name.startswith("pure") else 4]) / 1e3

    base = milliseconds("fp32")
    problem = measured.reference_problem

    def row(name: ModeName, **values: Any) -> ModeResult:
        ms = milliseconds(name)
        item = memory.modes.get(name)
        return ModeResult(
            time_ms=ms,
            time_kind="predicted" if ms is not None else None,
            memory_bytes=item.total if item else None,
            memory_kind="measured" if item else None,
            speedup=base / ms if base and ms else None,
            **values,
        )

    modes: dict[ModeName, ModeResult] = {
        "fp32": row(
            "fp32", verdict="broken" if problem else "ok", reason=problem or "the reference", loss_error=0.0, output_error=0.0, gradient_error=0.0,
            gradient_cosine=1.0 if measured.reference.gradients else None, nonfinite=0,
        )
    }  # fmt: skip
    runs: dict[ModeName, ModeRun] = dict(measured.runs)
    if solved.run is not None:
        runs["plan"] = solved.run
    for name in ("tf32", "autocast_fp16", "autocast_bf16", "pure_fp16", "pure_bf16", "plan"):
        run = runs.get(name)  # type: ignore[call-overload]
        if run is None:
            stand_in = modes["tf32" if solved.base == "tf32" else "fp32"]
            modes["plan"] = stand_in.model_copy(update={"reason": solved.reason})
            continue
        result = run.result
        modes[name] = row(  # type: ignore[index]
            name,  # type: ignore[arg-type]
            verdict=result.verdict,
            reason=result.reason,
            loss_error=result.loss_error,
            output_error=result.output_error,
            gradient_error=result.gradient_error,
            gradient_cosine=result.gradient_cosine,
            nonfinite=result.nonfinite,
        )
    return modes


def _plan(solved: Solved, scale: LossScale, device: Device) -> PlanInfo:
    flops = low = 0
    for op in solved.run.ops if solved.run is not None else ():
        flops += op.flops
        low += op.flops * any(t.dtype in ("float16", "bfloat16") for t in op.inputs)
    regions = [
        PlanRegion(module=path, precision=p, reason=solved.reasons.get(path, "back to the base below a promoted module"))
        for path, p in solved.regions.items()
    ]
    if solved.fp32_loss:
        regions.append(PlanRegion(module="loss", precision="fp32", reason="the loss is computed outside autocast"))
    return PlanInfo(
        mode="autocast",
        base=solved.base,
        regions=tuple(regions),
        flops_low=low / flops if flops else 0.0,
        snippet=training_snippet(solved, scale, "cpu" if device.vendor == "host" else "cuda"),
    )


def _verification(solved: Solved) -> Verification:
    return Verification(
        executed=solved.run is not None,
        holds=solved.run.result.verdict == "ok" if solved.run is not None else None,
        tolerance=solved.run.allowed if solved.run is not None else 0.0,
        attempts=solved.attempts,
        reason=solved.reason,
    )


def _verdict(
    findings: list[Finding], request: AuditRequest, target: TargetInfo, solved: Solved, measured: Measurements
) -> tuple[Verdict, str]:
    """fail: a high finding in the chosen mode in a 16-bit format of the target; warn: a medium one."""
    formats = [p for p in ("fp16", "bf16") if p in target.precisions]
    count = [f for f in findings if request.mode in f.modes and set(f.precisions) & set(formats)]
    if measured.reference_problem:
        return "fail", f"The model is not sound in FP32: {measured.reference_problem}."
    names = {"fp16": "FP16", "bf16": "BF16", "tf32": "TF32", "fp32": "FP32"}
    prefix: ModeName
    good: list[str] = []
    bad: list[str] = []
    for fmt in formats:
        prefix = f"{request.mode}_{fmt}"  # type: ignore[assignment]
        (good if measured.runs[prefix].result.verdict == "ok" else bad).append(names[fmt])
    how = "under autocast" if request.mode == "autocast" else "with the whole model cast"
    if not formats:
        first = f"{target.name} has no 16-bit format that is faster than FP32"
    elif not bad:
        first = f"{' and '.join(good)} hold {how}" if len(good) > 1 else f"{good[0]} holds {how}"
    elif not good:
        first = f"{' and '.join(bad)} fail {how}" if len(bad) > 1 else f"{bad[0]} fails {how}"
    else:
        first = f"{good[0]} holds {how}; {bad[0]} fails"
    promoted = sum(p == "fp32" for p in solved.regions.values()) + solved.fp32_loss
    if solved.run is None:
        second = f"The plan is {names[solved.base]}: {solved.reason}"
    elif promoted:
        second = f"The plan that holds is {names[solved.base]} autocast with {promoted} region{'s' * (promoted > 1)} in FP32"
    else:
        second = f"The plan is {names[solved.base]} autocast as it is"
    summary = f"{first}. {second}."
    if any(f.severity == "high" for f in count):
        return "fail", summary
    return ("warn" if any(f.severity == "medium" for f in count) else "pass"), summary


def _subject_info(subject: Subject, request: AuditRequest, measured: Measurements, kind: Any) -> SubjectInfo:
    args, kwargs = subject.batches[0]
    named = [*((str(i), t) for i, t in enumerate(args)), *kwargs.items()]
    specs = [
        TensorSpec(name=name, shape=tuple(t.shape), dtype=str(t.dtype)[6:])
        for name, value in named
        for t in tree_leaves(value)
        if isinstance(t, torch.Tensor)
    ]
    backward = [op for op in measured.trace.ops if op.phase == "backward" and op.family != "view"]
    paired = sum(op.forward_id is not None for op in backward)
    return SubjectInfo(
        source=subject.source,
        entry=subject.entry,
        model_type=type(subject.model).__name__,
        parameters=sum(p.numel() for p in subject.model.parameters()),
        inputs=tuple(specs),
        inputs_from=subject.inputs_from,
        loss=_LOSS_WORDS[kind],
        loss_kind=kind,
        training=subject.model.training,
        capture="eager",
        seed=request.seed,
        ops=len(measured.trace.ops),
        paired_backward=paired / len(backward) if backward else 1.0,
    )


def _notes(measured: Measurements, kind: Any, target: TargetInfo, subject: Subject) -> list[Note]:
    notes = [
        Note(code="emulated", message="16-bit and TF32 results are emulated: each op runs in FP32 on rounded inputs and its result is rounded, under CUDA's autocast lists. Reduction order and fused kernels differ on a real GPU."),
        Note(code="predicted-times", message="Times are predicted by a roofline with assumed efficiencies; they rank modes, they do not measure them."),
        Note(code="one-batch", message="Ranges are those of the inputs given; larger values in other batches are not seen."),
    ]  # fmt: skip
    if kind == "surrogate":
        notes.append(Note(code="surrogate-loss", message="There was no loss, so gradients come from a surrogate: the loss scale is an estimate of low confidence."))
    if kind == "none" or not measured.reference.gradients:
        notes.append(Note(code="no-gradients", message="No parameter received a gradient: there is no evidence on the backward pass."))
    if target.chosen_because.startswith("no --target"):
        notes.append(Note(code="default-target", message=f"{target.chosen_because}."))
    if not subject.model.training:
        notes.append(Note(code="eval-mode", message="The model was audited in eval mode, as it was handed over; --train audits the training step."))
    if measured.reference_problem:
        notes.append(Note(code="fp32-unsound", message=f"{measured.reference_problem}."))
    return notes


def _environment(request: AuditRequest, started: float) -> Environment:
    return Environment(
        python=platform.python_version(),
        torch=torch.__version__,
        platform=platform.platform(),
        cpu=platform.processor() or platform.machine(),
        command=request.command,
        seconds=time.monotonic() - started,
    )
