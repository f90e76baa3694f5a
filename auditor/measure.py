"""Gather everything an audit judges: the FP32 step, the candidate modes, and who is to blame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from auditor.capture.arguments import tensors_in
from auditor.capture.families import OpFamilies
from auditor.capture.trace import Op, Trace
from auditor.contract import Mode as ModeKind
from auditor.contract import ModeName
from auditor.errors import SubjectProblem, memory_problem, out_of_memory
from auditor.numerics.blame import Blame, Line, find_blame, is_given
from auditor.numerics.formats import FORMATS
from auditor.numerics.histogram import BinadeHistogram, binade_histogram
from auditor.numerics.outcome import Result, Sensitivity, judge_outcome, output_tolerance, sensitivity_of
from auditor.numerics.shadow import OpRecord, Shadow
from auditor.numerics.step import Failure, Mode, Outcome, Work, run_step
from auditor.subject.guard import user_traceback

Progress = Callable[[str, int, int], None]
STOCK: tuple[tuple[ModeName, str, dict[str, Any]], ...] = (
    ("autocast_fp16", "fp16", {"autocast": torch.float16}),
    ("autocast_bf16", "bf16", {"autocast": torch.bfloat16}),
    ("tf32", "tf32", {"tf32": True}),
    ("pure_fp16", "fp16", {"pure": torch.float16}),
    ("pure_bf16", "bf16", {"pure": torch.bfloat16}),
)
# A what-if run costs as much as the mode itself; so many plain steps' worth of them are spent per mode.
BLAME_BUDGET_S = 60.0


@dataclass(frozen=True)
class ModeRun:
    """One mode's step: what ran, how it compares, and the lines to blame when it came out badly."""

    mode: Mode
    precision: str
    ops: tuple[Op, ...]
    records: tuple[OpRecord, ...]
    result: Result
    blame: Blame
    saved_bytes: int
    outcome_failure: Failure | None
    allowed: float

    @property
    def kind(self) -> ModeKind:
        """ "pure" when the whole model was cast, else "autocast"; TF32 counts as the latter."""
        return "pure" if self.mode.pure is not None else "autocast"


@dataclass(frozen=True)
class Measurements:
    """`ranges` are histograms of what each op of the FP32 trace produced, `weights` and `weight_gradients`
    those of the parameters; `integer_inputs` are origins ("input:0") of floating inputs holding integers."""

    trace: Trace
    reference: Outcome
    reference_problem: str | None
    ranges: dict[int, BinadeHistogram]
    weights: dict[str, BinadeHistogram]
    weight_gradients: dict[str, BinadeHistogram]
    integer_inputs: frozenset[str]
    sensitivity: dict[str, Sensitivity]
    runs: dict[ModeName, ModeRun] = field(default_factory=dict)


def run_reference(work: Work, families: OpFamilies, *, sensitivity: bool = True) -> Measurements:
    """The recorded FP32 step with the range of everything, and (in two more steps) how sensitive it is to
    rounded weights. Raises SubjectProblem when the step fails."""
    _refuse_nan(work)
    ranges: dict[int, BinadeHistogram] = {}

    def observe(op: Op, _args: Any, _kwargs: Any, out: Any) -> None:
        if op.family in ("view", "fill") or not op.bytes_written:
            return
        for tensor in tensors_in(out):
            if tensor.is_floating_point() and tensor.layout == torch.strided:
                histogram = binade_histogram(tensor)
                ranges[op.id] = ranges[op.id].merge(histogram) if op.id in ranges else histogram

    outcome, recorder = run_step(work, Mode("fp32"), families, None, observe=observe, graph=True)
    if outcome.failure is not None:
        raise _cannot_run(outcome.failure, work)
    return Measurements(
        trace=recorder.trace(),
        reference=outcome,
        reference_problem=_nonfinite_reference(outcome),
        ranges=ranges,
        weights={n: binade_histogram(p) for n, p in work.model.named_parameters() if p.is_floating_point()},
        weight_gradients={n: binade_histogram(g) for n, g in outcome.gradients.items()},
        integer_inputs=_integer_inputs(work),
        sensitivity=_sensitivities(work, outcome, families) if sensitivity else {},
    )


def _refuse_nan(work: Work) -> None:
    """NaN given is NaN everywhere, and nobody's fault but the giver's."""
    inputs = [t for t in tree_leaves((work.args, work.kwargs)) if isinstance(t, torch.Tensor)]
    given = {
        **{f"input {i}": t for i, t in enumerate(inputs)},
        **{f"parameter {name}": p for name, p in work.model.named_parameters()},
    }
    for name, tensor in given.items():
        # One pass tells most tensors: a sum is NaN where an element is, or infinities of both signs meet.
        if tensor.is_floating_point() and tensor.layout == torch.strided:
            total = tensor.detach().sum()
            if bool(torch.isnan(total)) and bool(torch.isnan(tensor).any()):
                raise SubjectProblem(
                    f"{name} holds NaN already, so nothing can be learnt from a step",
                    next_step="give a batch, or a checkpoint, without NaN",
                )


def _sensitivities(work: Work, reference: Outcome, families: OpFamilies) -> dict[str, Sensitivity]:
    found = {
        fmt: sensitivity_of(
            run_step(work, Mode(f"weights in {fmt}", weights=fmt), families, None)[0], reference
        )
        for fmt in ("fp16", "bf16")
    }
    # TF32 has FP16's mantissa, and weights hardly ever lie where the exponent range matters.
    return {**found, "tf32": found["fp16"]}


def _cannot_run(failure: Failure, work: Work) -> SubjectProblem:
    given = ", ".join(
        f"{tuple(t.shape)} {str(t.dtype)[6:]}"
        for t in tree_leaves((work.args, work.kwargs))
        if isinstance(t, torch.Tensor)
    )
    where = f"{failure.file}:{failure.line}" if failure.file else None
    if out_of_memory(failure.exception):
        return memory_problem(where)
    frames = user_traceback(failure.exception)
    return SubjectProblem(
        f"the model fails in FP32: {type(failure.exception).__name__}: {failure.text}"
        + (f"\n{frames}" if frames else ""),
        where=where,
        next_step=f"the inputs given were: {given or 'none'}; check --input, --batch or example_inputs()",
    )


def _nonfinite_reference(outcome: Outcome) -> str | None:
    if outcome.loss is not None and outcome.loss != outcome.loss:
        return "the loss is NaN already in FP32"
    bad = sum(int((~torch.isfinite(t)).any()) for t in outcome.outputs if t.is_floating_point())
    if bad:
        return f"{bad} of {len(outcome.outputs)} outputs hold NaN or infinite values already in FP32"
    grads = [n for n, g in outcome.gradients.items() if not bool(torch.isfinite(g).all())]
    return f"the gradient of {grads[0]} is non-finite already in FP32" if grads else None


def fp16_line(run: ModeRun) -> str | None:
    """Where a run computes in FP16 ("file:line", or the module), None where it does not: a run under BF16
    does so when the model's own autocast region or cast says so."""
    for op in run.ops:
        if op.phase == "forward" and any(t.dtype == "float16" for t in op.outputs):
            return f"{op.file}:{op.line}" if op.file else op.module or "the model"
    return None


def unsound_ops(measured: Measurements) -> list[Op]:
    """Where an unsound FP32 step goes wrong: the first ops, forward or else backward, that make non-finite
    values of finite ones. Filling a mask with -inf is no fault."""
    bad = {i for i, histogram in measured.ranges.items() if histogram.nonfinite}
    found = [
        op
        for op in measured.trace.ops
        if op.id in bad and op.family != "mask_fill" and not bad.intersection(op.producers)
    ]
    forward = [op for op in found if op.phase == "forward"]
    return (forward or found)[:1] if measured.reference_problem else []


def _integer_inputs(work: Work) -> frozenset[str]:
    tensors = [t for t in tree_leaves((work.args, work.kwargs)) if isinstance(t, torch.Tensor)]
    return frozenset(
        f"input:{i}"
        for i, t in enumerate(tensors)
        if t.is_floating_point() and t.numel() and float(t.abs().max()) > 256 and bool((t == t.round()).all())
    )


def run_mode(work: Work, mode: Mode, precision: str, measured: Measurements, families: OpFamilies) -> ModeRun:
    """One candidate mode beside its float32 twin; bad outcomes are traced to lines."""
    sensitivity = measured.sensitivity[precision]

    def execute(
        promoted: frozenset[Line] = frozenset(),
        examined: frozenset[Line] = frozenset(),
        *,
        gradients: bool = False,
    ) -> tuple[Shadow, Outcome, Sequence[Op], Result]:
        shadow = Shadow(families, tf32=mode.tf32, gradients=gradients, promoted=promoted, examined=examined)
        outcome, recorder = run_step(work, mode, families, shadow)
        refused = len({(r.op.file, r.op.line) for r in shadow.records if r.refusal is not None})
        decided = [r.flip_share for r in shadow.records if r.op.family == "decision"]
        result = judge_outcome(
            outcome, measured.reference, precision, refused, sensitivity, max(decided, default=0.0)
        )
        return shadow, outcome, recorder.ops, result

    gradients = precision == "fp16" and mode.pure is None
    shadow, outcome, ops, result = execute(gradients=gradients)
    refused = any(r.refusal is not None for r in shadow.records)
    found = Blame()
    if result.verdict != "ok" and not refused and not result.failed:
        unit = FORMATS[precision].unit_roundoff
        found = find_blame(
            shadow.records,
            result,
            unit,
            lambda lines: execute(lines)[3],
            given=shadow.given,
            budget_s=BLAME_BUDGET_S,
        )
        found = replace(found, culprits=_at_lines(found.culprits))
        # Once more with the culprits' operands at hand, for what only they can tell.
        shadow, outcome, ops, result = execute(examined=frozenset(found.culprits), gradients=gradients)
        by_id = {record.op.id: record for record in shadow.records}
        culprits = {line: by_id.get(record.op.id, record) for line, record in found.culprits.items()}
        found = replace(found, culprits=culprits)
    return ModeRun(
        mode=mode,
        precision=precision,
        ops=tuple(ops),
        records=tuple(shadow.records),
        result=result,
        blame=found,
        saved_bytes=outcome.saved_bytes,
        outcome_failure=outcome.failure,
        allowed=output_tolerance(precision, sensitivity),
    )


def _at_lines(culprits: Mapping[Line, OpRecord]) -> dict[Line, OpRecord]:
    """Blame on a rounded input or buffer is told at the line that uses it first."""
    places = {}
    for line, record in culprits.items():
        op = record.op
        used_at = (op.file, op.line) if op.file is not None and op.line is not None else line
        places[used_at if is_given(line) else line] = record
    return places


def measure(
    works: Sequence[Work], families: OpFamilies, loss_scale: float, progress: Progress
) -> list[Measurements]:
    """The FP32 step and every stock mode, on each batch. FP16 runs with `loss_scale`, as the user's training
    would. Of the batches after the first, the FP32 outputs and gradients are not kept."""
    measurements: list[Measurements] = []
    for number, work in enumerate(works, start=1):
        of = f" (batch {number} of {len(works)})" if len(works) > 1 else ""
        progress("FP32 step" + of, 0, len(STOCK) + 2)
        measured = run_reference(work, families)
        for index, (name, precision, how) in enumerate(STOCK):
            progress(name.replace("_", " ") + of, index + 1, len(STOCK) + 2)
            scale = loss_scale if precision == "fp16" else 1.0
            measured.runs[name] = run_mode(
                work, Mode(name, loss_scale=scale, **how), precision, measured, families
            )
        if measurements:
            measured = replace(measured, reference=replace(measured.reference, outputs=(), gradients={}))
        measurements.append(measured)
    return measurements
