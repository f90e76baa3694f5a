"""The audit.json contract: what every reader of an audit (report, gate, other programs) relies on.

The models are frozen and closed (unknown keys are an error), so a change of shape is a change of
`SCHEMA_VERSION`. Times are milliseconds for whole steps (`*_ms`), microseconds for ops and layers
(`*_us`); memory is bytes; exponents are base-2; errors are relative to FP32 (||candidate - fp32|| /
||fp32||) unless a name says otherwise.
"""

from __future__ import annotations

import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = "1.0"

Precision = Literal["fp16", "bf16", "tf32", "fp32"]
LowPrecision = Literal["fp16", "bf16", "tf32"]
Mode = Literal["autocast", "pure"]
Severity = Literal["high", "medium", "low", "info"]
Phase = Literal["forward", "backward", "optimizer", "source"]
Verdict = Literal["pass", "warn", "fail"]
ModeName = Literal["fp32", "tf32", "autocast_fp16", "autocast_bf16", "pure_fp16", "pure_bf16", "plan"]
ModeVerdict = Literal["ok", "degraded", "broken", "not_run", "unsupported"]
EvidenceKind = Literal["measured", "emulated", "static", "predicted", "assumed"]

SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low", "info")


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Tool(Frozen):
    name: Literal["ampaudit"] = "ampaudit"
    version: str


class TensorSpec(Frozen):
    name: str
    shape: tuple[int, ...]
    dtype: str


class FileDigest(Frozen):
    """A file the model was built from. Large files are told by size and time instead of content."""

    path: str
    digest: str = Field(description="sha256:… of the content, or stat:size:mtime for large files")


class SubjectInfo(Frozen):
    source: str = Field(description="path or package the model came from, as the user gave it")
    entry: str = Field(description="what was called or taken: build_model(), a class, a variable")
    model_type: str = Field(description="class name of the root module")
    parameters: int = Field(description="number of parameter elements")
    inputs: tuple[TensorSpec, ...]
    inputs_from: str = Field(description="example_inputs(), --input, --batch, or none")
    loss: str = Field(description="where the loss came from, in words")
    loss_kind: Literal["user", "model_output", "surrogate", "none"]
    training: bool
    capture: Literal["eager", "symbolic"]
    seed: int
    ops: int = Field(description="recorded ATen ops, forward and backward")
    paired_backward: float = Field(description="share of backward ops paired with their forward op, 0..1")
    files: tuple[FileDigest, ...] = Field(default=(), description="the user's files read while it was loaded")


class TargetInfo(Frozen):
    name: str
    kind: Literal["live", "catalogue", "host"]
    architecture: str
    compute_capability: str | None
    precisions: tuple[Precision, ...] = Field(
        description="formats the target computes faster than or as FP32"
    )
    tensor_cores: tuple[LowPrecision, ...]
    memory_bytes: int
    bandwidth: float | None = Field(default=None, description="bytes/s of its memory, from the datasheet")
    product_flops: dict[Precision, float] = Field(
        default_factory=dict, description="FLOP/s of matrix products in each precision, from the datasheet"
    )
    chosen_because: str = Field(description="why this target: the option, a live GPU, or a default")


class Evidence(Frozen):
    kind: EvidenceKind
    values: dict[str, Any] = Field(default_factory=dict)


class ChainLink(Frozen):
    """One op on the way from where a fault arises to where it shows."""

    op: str
    module: str
    file: str | None
    line: int | None
    note: str


class Finding(Frozen):
    id: str = Field(description="stable fingerprint of rule, module, file line and phase")
    rule: str
    name: str
    severity: Severity
    precisions: tuple[LowPrecision, ...]
    modes: tuple[Mode, ...]
    phase: Phase
    module: str
    op: str | None
    file: str | None
    line: int | None
    source: tuple[str, ...] = Field(default=(), description="source excerpt: lines around `line`")
    source_start: int | None = Field(default=None, description="line number of source[0]")
    message: str
    fix: str
    occurrences: int = 1
    also_at: tuple[str, ...] = Field(default=(), description="other module paths with the same finding")
    chain: tuple[ChainLink, ...] = ()
    evidence: Evidence


class Candidate(Frozen):
    safe: bool | None = Field(description="None where it could not be established")
    local_error: float | None = Field(description="what this layer's own rounding adds, relative")
    error: float | None = Field(
        description="relative error of the layer's output in this precision's stock mode"
    )
    absmax: float | None
    overflow: float = Field(description="share of output values beyond the format's largest value")
    underflow: float = Field(description="share of nonzero output values flushed to zero or subnormal")
    time_us: float | None
    time_kind: EvidenceKind | None


class Layer(Frozen):
    module: str
    type: str
    file: str | None
    line: int | None
    precision: Precision
    why: str
    ops: tuple[str, ...] = Field(description="op families that run in this module itself")
    parameters: int
    flops: int = Field(description="forward and backward; a multiply-add counts 2")
    candidates: dict[Precision, Candidate]


class CurvePoint(Frozen):
    log2: int
    overflow: float = Field(description="share of gradient values that overflow FP16 at this scale")
    underflow: float = Field(description="share of nonzero gradient values that become zero at this scale")


class LossScale(Frozen):
    needed: bool
    initial: float | None
    log2: int | None
    safe_log2_range: tuple[int, int] | None
    headroom_binades: float | None = Field(
        description="binades between the largest scaled FP16 gradient and FP16's largest value"
    )
    curve: tuple[CurvePoint, ...]
    growth_interval: int
    confidence: Literal["high", "low"]
    reason: str
    evidence: Evidence


class ModeResult(Frozen):
    verdict: ModeVerdict
    reason: str = Field(description="one sentence; never empty")
    loss_error: float | None = None
    output_error: float | None = None
    gradient_error: float | None = None
    gradient_cosine: float | None = None
    nonfinite: int | None = None
    time_ms: float | None = None
    time_kind: EvidenceKind | None = None
    memory_bytes: int | None = None
    memory_kind: EvidenceKind | None = None
    speedup: float | None = None


class MemoryItem(Frozen):
    """Bytes of one mode's training step, itemised."""

    parameters: int
    master_weights: int
    gradients: int
    optimizer_state: int
    saved_activations: int
    autocast_weight_copies: int
    total: int


class Memory(Frozen):
    optimizer: str
    modes: dict[ModeName, MemoryItem]
    evidence: Evidence
    note: str


class Histogram(Frozen):
    """Binade counts of one tensor: counts[i] values have exponent `start + i` (2^e <= |x| < 2^(e+1))."""

    name: str
    role: Literal["activation", "weight", "activation_gradient", "weight_gradient"]
    module: str
    op: str | None
    start: int
    counts: tuple[int, ...]
    zeros: int
    nonfinite: int
    absmax: float
    why: str = Field(description="why this tensor is shown")


class RangeRow(Frozen):
    """Exponent range of one role in one layer, for the range ladder. Exponents are floor(log2|x|)."""

    module: str
    role: Literal["activation", "weight", "activation_gradient", "weight_gradient"]
    low: int
    median: int
    high: int


class OpTable(Frozen):
    """The recorded ops in the order they ran, as columns of equal length. `module`, `type`, `op`, `family`,
    `phase` and `file` are indices into `texts`; `forward` is the row of a backward op's forward op.
    Errors are relative to FP32 under autocast: `error` of the op's result, `local` what its own rounding
    added; None where the op was not compared, infinite where the result was."""

    texts: tuple[str, ...]
    op: tuple[int, ...]
    family: tuple[int, ...]
    phase: tuple[int, ...]
    module: tuple[int, ...]
    type: tuple[int, ...]
    file: tuple[int, ...]
    line: tuple[int | None, ...]
    forward: tuple[int | None, ...]
    flops: tuple[int, ...]
    bytes: tuple[int, ...] = Field(description="read and written, in FP32")
    absmax: tuple[float | None, ...] = Field(description="largest magnitude in FP32")
    fp16_error: tuple[float | None, ...]
    fp16_local: tuple[float | None, ...]
    bf16_error: tuple[float | None, ...]
    bf16_local: tuple[float | None, ...]


class PlanRegion(Frozen):
    module: str
    precision: Precision
    reason: str


class PlanInfo(Frozen):
    mode: Mode
    base: Precision = Field(description="precision of every module without a region of its own")
    regions: tuple[PlanRegion, ...]
    flops_low: float = Field(description="share of FLOPs that run in 16 bit under the plan, 0..1")
    snippet: str = Field(description="Python for this model's training loop")


class VerificationAttempt(Frozen):
    regions: int
    verdict: ModeVerdict
    reason: str


class Verification(Frozen):
    executed: bool
    holds: bool | None
    tolerance: float
    attempts: tuple[VerificationAttempt, ...]
    reason: str


class Suppressed(Frozen):
    finding: Finding
    reason: str
    expires: datetime.date | None = Field(default=None, description="the last day on which it holds")
    by: Literal["source", "config"] = "source"


class StaleSuppression(Frozen):
    """A suppression that silences nothing any more, and should go."""

    where: str = Field(description="file:line, or the key in the configuration")
    rules: tuple[str, ...]
    why: str


CheckOutcome = Literal["pass", "fail", "inconclusive"]


class Check(Frozen):
    """One condition of a gate's policy. Inconclusive is what could not be established: never a pass."""

    name: str
    outcome: CheckOutcome
    expected: str
    operator: str
    actual: str
    near: bool = Field(default=False, description="so near the limit that another machine may differ")
    note: str = ""
    findings: tuple[str, ...] = Field(default=(), description="ids of the findings that fail it")


class GateResult(Frozen):
    name: str = Field(description="the model's name in the configuration, or its path")
    outcome: CheckOutcome
    checks: tuple[Check, ...]
    baseline: str | None = None
    cached: bool = False


class Note(Frozen):
    """Something a reader must know about the certainty of this audit."""

    code: str
    message: str


class RuleStatus(Frozen):
    rule: str
    status: Literal["fired", "silent", "not_applicable", "error"]
    evaluated: int
    detail: str = ""


class Environment(Frozen):
    python: str
    torch: str
    platform: str
    cpu: str
    command: tuple[str, ...]
    seconds: float


class Audit(Frozen):
    schema_version: str = SCHEMA_VERSION
    tool: Tool
    created: str
    subject: SubjectInfo
    target: TargetInfo
    mode: Mode = Field(description="the mode the verdict speaks of")
    verdict: Verdict
    summary: str = Field(description="the verdict in one or two sentences")
    findings: tuple[Finding, ...]
    layers: tuple[Layer, ...]
    loss_scale: LossScale
    modes: dict[ModeName, ModeResult]
    memory: Memory | None
    plan: PlanInfo | None
    verification: Verification
    histograms: tuple[Histogram, ...]
    ranges: tuple[RangeRow, ...]
    ops: OpTable | None = None
    rules: tuple[RuleStatus, ...]
    suppressed: tuple[Suppressed, ...]
    stale: tuple[StaleSuppression, ...] = ()
    gate: GateResult | None = None
    notes: tuple[Note, ...]
    environment: Environment


def read_audit(text: str) -> Audit:
    """Parse audit.json; raises pydantic.ValidationError when it is not one."""
    return Audit.model_validate_json(text)


def write_audit(audit: Audit) -> str:
    return audit.model_dump_json(indent=1) + "\n"
