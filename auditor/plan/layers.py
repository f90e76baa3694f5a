"""Per layer: which precision the plan gives it, what each would have cost, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import nn

from auditor.capture.trace import Op
from auditor.contract import Candidate, EvidenceKind, Finding, Layer, ModeName, Precision
from auditor.devices.catalogue_reader import Device
from auditor.measure import Measurements
from auditor.numerics.shadow import OpRecord
from auditor.plan.solve import Solved
from auditor.plan.timing import StepTime

# Families that decide nothing about a layer's precision.
_PLUMBING = frozenset({"view", "cast", "layout", "fill", "other"})
_STOCK: dict[str, tuple[ModeName, ModeName]] = {
    "fp16": ("autocast_fp16", "pure_fp16"),
    "bf16": ("autocast_bf16", "pure_bf16"),
}


@dataclass
class _Sums:
    overflow: int = 0
    lost: int = 0
    numel: int = 0
    error: float = 0.0
    local: float = 0.0
    absmax: float = 0.0
    low: bool = False
    seen: bool = field(default=False)


def _sum_up(records: Sequence[OpRecord]) -> dict[str, _Sums]:
    sums: dict[str, _Sums] = defaultdict(_Sums)
    for record in records:
        if record.comparison is None or record.op.phase != "forward" or not record.op.module_type:
            continue
        s, seen = sums[record.op.module], record.comparison
        s.seen = True
        s.low = s.low or record.op.gives_half
        s.overflow += seen.nonfinite
        s.lost += seen.lost
        s.numel += seen.numel
        s.local = max(s.local, seen.local)
        s.error = seen.error  # the last op's output is the layer's
        s.absmax = max(s.absmax, seen.absmax)
    return sums


def _runs_low(ops: Sequence[Op]) -> dict[str, bool]:
    """Modules whose products, or else whose other ops, run in 16 bit."""
    votes: dict[str, list[bool]] = defaultdict(list)
    weights: dict[str, list[bool]] = defaultdict(list)
    for op in ops:
        if op.phase != "forward" or op.family in _PLUMBING or not op.outputs or not op.module_type:
            continue
        low = op.takes_half
        (weights if op.flops else votes)[op.module].append(low)
    return {m: any(weights[m]) if weights[m] else any(votes[m]) for m in {*votes, *weights}}


def _widened(ops: Sequence[Op]) -> set[str]:
    """Modules into which autocast casts 16-bit tensors up to FP32."""
    return {
        op.module
        for op in ops
        if op.family == "cast"
        and op.phase == "forward"
        and op.takes_half
        and any(t.dtype == "float32" for t in op.outputs)
    }


def _why_protected(families: Sequence[str], pure: _Sums | None, fmt: str, widened: bool) -> str:
    what = " and ".join(f for f in families if f not in _PLUMBING)
    how = "by its own lists and hands on the result" if widened else "for its inputs are FP32"
    if pure is None or not pure.seen:
        return f"autocast leaves {what} in FP32 {how}"
    outcome = (
        f"{pure.overflow} non-finite values" if pure.overflow else f"a relative error of {pure.error:.1e}"
    )
    return (
        f"autocast computes {what} in FP32 {how}; "
        f"cast to {fmt} throughout, this layer would have {outcome} (values up to {pure.absmax:.3g})"
    )


def layers_of(
    model: nn.Module,
    measured: Measurements,
    solved: Solved,
    findings: Sequence[Finding],
    times: Mapping[ModeName, StepTime],
    device: Device,
) -> tuple[Layer, ...]:
    """One row for every module that runs ops of its own, in the order they first run."""
    forward = [op for op in measured.trace.ops if op.phase == "forward" and op.module_type]
    first: dict[str, Op] = {}
    kinds: dict[str, list[str]] = defaultdict(list)
    flops: dict[str, int] = defaultdict(int)
    for op in measured.trace.ops:
        flops[op.module] += op.flops
    for op in forward:
        if op.family in _PLUMBING:
            continue
        first.setdefault(op.module, op)
        if op.family not in kinds[op.module]:
            kinds[op.module].append(op.family)
    sums = {name: _sum_up(run.records) for name, run in measured.runs.items()}
    plan_ops = solved.run.ops if solved.run is not None else measured.trace.ops
    low, widened = _runs_low(plan_ops), _widened(plan_ops)
    absmax: dict[str, float] = defaultdict(float)
    for op in forward:
        if op.id in measured.ranges:
            absmax[op.module] = max(absmax[op.module], measured.ranges[op.id].absmax)
    modules = dict(model.named_modules(remove_duplicate=False))
    bad = {
        fmt: {
            m
            for f in findings
            if fmt in f.precisions and f.severity in ("high", "medium")
            for m in (f.module, *f.also_at)
        }
        for fmt in ("fp16", "bf16", "tf32")
    }
    layers = []
    for path, op in first.items():
        base = solved.base
        precision: Precision = base if base in ("fp16", "bf16") and low.get(path) else "fp32"
        if base == "tf32" and flops[path]:
            precision = "tf32"
        candidates = _candidates(path, sums, times, bad, absmax[path])
        layers.append(
            Layer(
                module=path,
                type=op.module_type,
                file=op.file,
                line=op.line,
                precision=precision,
                why=_why(path, precision, solved, kinds[path], sums, candidates, device, widened),
                ops=tuple(kinds[path]),
                parameters=sum(p.numel() for p in modules[path].parameters(recurse=False))
                if path in modules
                else 0,
                flops=flops[path],
                candidates=candidates,
            )
        )
    return tuple(layers)


def _candidates(
    path: str,
    sums: Mapping[ModeName, Mapping[str, _Sums]],
    times: Mapping[ModeName, StepTime],
    bad: Mapping[str, set[str]],
    absmax: float,
) -> dict[Precision, Candidate]:
    result: dict[Precision, Candidate] = {}
    for fmt, (autocast, pure) in _STOCK.items():
        chosen = sums[autocast].get(path)
        if chosen is None or not chosen.low:
            chosen = sums[pure].get(path) or chosen
        result[fmt] = _candidate(chosen, path in bad[fmt], times.get(autocast), path, absmax)  # type: ignore[index]
    result["tf32"] = _candidate(sums["tf32"].get(path), path in bad["tf32"], times.get("tf32"), path, absmax)
    time = times.get("fp32")
    result["fp32"] = Candidate(
        safe=True,
        local_error=0.0,
        error=0.0,
        absmax=absmax,
        overflow=0.0,
        underflow=0.0,
        time_us=time.modules.get(path) if time else None,
        time_kind="predicted" if time else None,
    )
    return result


def _candidate(s: _Sums | None, bad: bool, time: StepTime | None, path: str, absmax: float) -> Candidate:
    us = time.modules.get(path) if time else None
    kind: EvidenceKind | None = "predicted" if us is not None else None
    if s is None or not s.seen:
        # Nothing was rounded on the way to or in this layer: it ran exactly as in FP32.
        return Candidate(
            safe=not bad,
            local_error=0.0,
            error=0.0,
            absmax=absmax,
            overflow=0.0,
            underflow=0.0,
            time_us=us,
            time_kind=kind,
        )
    return Candidate(
        safe=not bad,
        local_error=s.local,
        error=s.error,
        absmax=s.absmax,
        overflow=s.overflow / s.numel if s.numel else 0.0,
        underflow=s.lost / s.numel if s.numel else 0.0,
        time_us=us,
        time_kind=kind,
    )


def _why(
    path: str,
    precision: Precision,
    solved: Solved,
    kinds: Sequence[str],
    sums: Mapping[ModeName, Mapping[str, _Sums]],
    candidates: Mapping[Precision, Candidate],
    device: Device,
    widened: set[str],
) -> str:
    if path in solved.reasons:
        return f"kept in FP32: {solved.reasons[path]}"
    base = solved.base
    if base not in ("fp16", "bf16"):
        return "TF32 products" if precision == "tf32" else solved.reason
    if precision == base:
        c = candidates[base]
        where = "on tensor cores" if base in device.tensor_cores else "in 16 bit"
        return f"runs {where} with {c.error or 0.0:.1e} relative error (values up to {c.absmax or 0.0:.3g})"
    return _why_protected(kinds, sums[_STOCK[base][1]].get(path), base.upper(), path in widened)
