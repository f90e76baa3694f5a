"""Where an audit's numbers come from: the subject, the machine, and what limits their certainty."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator

import torch
from torch.utils._pytree import tree_leaves

from auditor.contract import Environment, Note, SubjectInfo, TargetInfo, TensorSpec
from auditor.measure import Measurements, fp16_line
from auditor.subject.load import LossKind, Subject
from auditor.subject.request import AuditRequest

_LOSS_WORDS = {
    "user": "loss() of the file",
    "model_output": "the output's own .loss",
    "surrogate": "a surrogate: the mean of every output under fixed random signs",
    "none": "none: no floating output",
}
_EMULATED = (
    "16-bit and TF32 results are emulated: each op runs in FP32 on rounded inputs and its result is rounded, "
    "under CUDA's autocast lists. Reduction order and fused kernels differ on a real GPU."
)
_PREDICTED = (
    "Times are predicted by a roofline with assumed efficiencies; they rank modes, they do not measure them."
)
_ONE_BATCH = "Ranges are those of the inputs given; larger values in other batches are not seen."
_BATCHES = (
    "Ranges, findings and the loss scale are those of all {count} batches, the table of modes shows the "
    "worst of them, and the plan, made on the first, was executed on each."
)
_STRESSED = (
    "Every floating input was multiplied by {factor:g} (--stress): verdict and findings are about inputs "
    "that large, not about those given."
)
_SURROGATE = (
    "There was no loss, so gradient evidence is from a surrogate and the loss scale of low confidence."
)
_NO_GRADIENTS = "No parameter received a gradient: there is no evidence on the backward pass."
_EVAL = "The model was audited in eval mode; --train audits the training step."
_BUILT_IN = (
    "The model was built in {dtype}. The FP32 reference is its float32 copy, and the pure {dtype} row is the "
    "model as you built it."
)
_FLOAT64 = (
    "The model computes in float64, which autocast leaves alone: the autocast rows change nothing. Call "
    ".float() on model and inputs to see what lower precision does."
)
_OWN_FP16 = (
    "{where} computes in FP16 whatever precision is asked for (an autocast region or a cast of the model's "
    "own): the BF16 rows include it, and so it needs a loss scale."
)
_EXCUSED = (
    "{modes}: the results are far from FP32's, but no farther than rounding the weights alone takes them. "
    "This model magnifies any rounding (chaotic depth, batch statistics of few values, steep functions); no "
    "line is to blame. Compare a training curve with FP32's before you trust it."
)
_TF32_DEFAULT = (
    "The FP32 row computes everything in FP32; PyTorch lets convolutions use TF32 by default on this GPU, "
    "so a plain run may be nearer to the TF32 row."
)


def subject_info(
    subject: Subject, request: AuditRequest, measured: Measurements, kind: LossKind
) -> SubjectInfo:
    """What was audited, as the report tells it."""
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


def notes_of(
    measured: Measurements, kind: LossKind, target: TargetInfo, subject: Subject, request: AuditRequest
) -> Iterator[Note]:
    """What a reader must know about the certainty of this audit."""
    yield Note(code="emulated", message=_EMULATED)
    yield Note(code="predicted-times", message=_PREDICTED)
    count = len(subject.batches)
    yield (
        Note(code="one-batch", message=_ONE_BATCH)
        if count == 1
        else Note(code="several-batches", message=_BATCHES.format(count=count))
    )
    if request.stress != 1.0:
        yield Note(code="stress", message=_STRESSED.format(factor=request.stress))
    if "tf32" in target.tensor_cores:
        yield Note(code="tf32-default", message=_TF32_DEFAULT)
    if subject.built_in is not None:
        yield Note(code="built-in-half", message=_BUILT_IN.format(dtype=subject.built_in))
    if any(p.dtype == torch.float64 for p in subject.model.parameters()):
        yield Note(code="float64", message=_FLOAT64)
    where = fp16_line(measured.runs["autocast_bf16"])
    if where is not None:
        yield Note(code="own-fp16", message=_OWN_FP16.format(where=where))
    excused = [name.replace("_", " ") for name, run in measured.runs.items() if run.result.excused]
    if excused:
        yield Note(code="ill-conditioned", message=_EXCUSED.format(modes=", ".join(excused)))
    if kind == "surrogate":
        yield Note(code="surrogate-loss", message=_SURROGATE)
    if not measured.reference.gradients:
        detached = (
            " loss() returned a tensor that is cut off from the model (detached?)." if kind == "user" else ""
        )
        yield Note(code="no-gradients", message=_NO_GRADIENTS + detached)
    if target.chosen_because.startswith("no --target"):
        yield Note(code="default-target", message=f"{target.chosen_because}.")
    if not subject.model.training:
        yield Note(code="eval-mode", message=_EVAL)
    if measured.reference_problem:
        yield Note(code="fp32-unsound", message=f"{measured.reference_problem}.")


def environment_of(request: AuditRequest, started: float) -> Environment:
    """The machine and the command; `started` is the monotonic time the audit began."""
    return Environment(
        python=platform.python_version(),
        torch=torch.__version__,
        platform=platform.platform(),
        cpu=platform.processor() or platform.machine(),
        command=request.command,
        seconds=time.monotonic() - started,
    )
