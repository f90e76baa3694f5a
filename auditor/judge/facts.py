"""From what was measured to the facts rules judge: one set of facts per op and mode."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from auditor.capture.families import OpFamilies
from auditor.capture.trace import Op
from auditor.contract import ChainLink
from auditor.devices.catalogue_reader import Device
from auditor.devices.roofline import misaligned
from auditor.judge.evaluate import Site
from auditor.judge.vocabulary import defaults
from auditor.measure import Measurements, ModeRun, unsound_ops
from auditor.numerics.blame import jump
from auditor.numerics.formats import FORMATS
from auditor.numerics.optimizer import OptimizerStep
from auditor.numerics.shadow import OpRecord
from auditor.plan.timing import product_of

_DTYPE = {"fp16": "float16", "bf16": "bfloat16"}
_INTEGER_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "bool")
_KEEPS_INTEGERS = frozenset(
    {"view", "layout", "add", "mul", "cast", "position", "lookup", "clamp", "fill", "sign", "accumulate"}
)
# Scalars that are no values of the computation.
_NOT_VALUES = frozenset(
    {"dim", "dim0", "dim1", "start", "end", "step", "index", "keepdim", "reduction", "correction", "seed"}
)


def integer_ops(ops: Sequence[Op], integer_inputs: frozenset[str]) -> set[int]:
    """Ids of ops whose floating results are integers by origin: ranges, casts of integer tensors, integer
    model inputs, and sums and products of these with whole constants."""
    found: set[int] = set()
    for op in ops:
        if op.phase != "forward" or op.family not in _KEEPS_INTEGERS:
            continue
        whole = all(
            float(v).is_integer()
            for k, v in op.constants.items()
            if k not in _NOT_VALUES and not isinstance(v, bool)
        )
        sources = [
            t.dtype in _INTEGER_DTYPES or (p in found) or (o in integer_inputs)
            for t, p, o in zip(op.inputs, op.producers, op.origins, strict=True)
        ]
        if whole and ((sources and all(sources)) or (op.family == "position" and not sources)):
            found.add(op.id)
    return found


def format_facts(precision: str) -> dict[str, Any]:
    fmt = FORMATS[precision]
    return {
        "unit_roundoff": fmt.unit_roundoff,
        "format_max": fmt.max,
        "format_smallest": fmt.smallest,
        "exact_integers": fmt.exact_integer_limit,
    }


def constant_facts(constants: Mapping[str, float | int | bool], precision: str) -> dict[str, Any]:
    """The constant that the format treats worst: overflowing, vanishing, or merely present."""
    fmt = FORMATS[precision]
    best: dict[str, Any] = {}
    for name, value in constants.items():
        if isinstance(value, bool) or name in _NOT_VALUES or value == 0 or not math.isfinite(value):
            continue
        size = abs(float(value))
        described = {"has_constant": True, "constant_name": name, "constant_value": float(value)}
        if size >= fmt.overflow_threshold:
            return {**described, "constant_overflows": True}
        if size <= fmt.smallest / 2:
            best = {**described, "constant_vanishes": True}
        elif not best:
            best = described
    return best


def _flushed_in(record: OpRecord) -> bool:
    return record.comparison is not None and (record.comparison.flushed > 0 or record.comparison.lost > 0)


def facts_of(
    run: ModeRun,
    record: OpRecord,
    constants: Mapping[str, Any],
    *,
    culprit: bool,
    integers: bool,
    device: Device,
    families: OpFamilies,
) -> dict[str, Any]:
    """The facts of one op in one mode, every name of the vocabulary present; `constants` are its
    constant_facts."""
    op = record.op
    fmt = FORMATS[run.precision]
    facts = defaults()
    facts.update(
        op=op.name,
        family=op.family,
        phase=op.phase,
        module_type=op.module_type,
        precision=run.precision,
        mode=run.kind,
        low=record.low,
        low_output=any(t.dtype == _DTYPE.get(run.precision) for t in op.outputs),
        line_known=op.line is not None,
        verdict=run.result.verdict,
        culprit=culprit,
        confirmed=culprit and run.blame.confirmed,
        mode_error=run.result.output_error or 0.0,
        gradient_error=run.result.gradient_error or 0.0,
        flips=record.flips,
        flip_share=record.flip_share,
        inherited=record.inherited,
        integers=integers,
        product=op.name in families.products,
        tensor_cores=run.precision in device.tensor_cores,
        numel=sum(t.numel for t in op.outputs),
    )
    facts.update(format_facts(run.precision))
    facts.update(constants)
    product = product_of(op)
    if product is not None:
        facts["misaligned"] = ", ".join(misaligned(product, run.precision))
    seen = record.comparison
    if seen is not None:
        facts.update(
            numel=seen.numel,
            absmax=seen.absmax,
            headroom=math.log2(fmt.max / seen.absmax) if seen.absmax > 0 else 99.0,
            nonfinite=seen.nonfinite,
            nans=seen.nans,
            overflowed=seen.overflowed,
            origin=not math.isinf(record.inherited),
            flushed=seen.flushed,
            lost=seen.lost,
            lost_share=seen.lost / seen.numel if seen.numel else 0.0,
            error=seen.error,
            local=seen.local,
            amplification=jump(record, fmt.unit_roundoff),
            roundoffs=seen.error / fmt.unit_roundoff,
        )
    if record.suspicion is not None:
        closer = record.suspicion
        facts.update(
            input_absmax=closer.input_absmax,
            cancellation=closer.cancellation,
            absorbed=closer.absorbed,
            denominator=min(closer.denominator, 1e300),
            vanished_denominators=closer.vanished_denominators,
            masked_rows=closer.masked_rows,
        )
    if record.refusal is not None:
        facts.update(refused_by=record.refusal.by, refusal=record.refusal.why)
    return facts


def _chain(
    record: OpRecord, run: ModeRun, consumers: Mapping[int, Sequence[OpRecord]]
) -> tuple[ChainLink, ...]:
    """The way of the damage downstream: from op to the consumer it harms most, a few links."""
    links: list[ChainLink] = []
    current: OpRecord | None = record
    lines: set[tuple[str | None, int | None]] = set()
    while current is not None and len(links) < 8:
        op = current.op
        if (op.file, op.line) not in lines:
            lines.add((op.file, op.line))
            error = current.comparison.error if current.comparison else 0.0
            note = "non-finite" if math.isinf(error) else f"relative error {error:.2g}"
            links.append(ChainLink(op=op.name, module=op.module, file=op.file, line=op.line, note=note))
        following = consumers.get(op.id, ())
        harmed = [r for r in following if r.comparison is not None and r.comparison.error >= run.allowed / 4]
        current = harmed[0] if harmed else None
    return tuple(links)


def _gradient_facts(run: ModeRun, record: OpRecord, log2_scale: int | None) -> dict[str, Any]:
    """What becomes of an op's FP16 gradients at the recommended loss scale."""
    if record.gradient is None or log2_scale is None:
        return {}
    shift = log2_scale - round(math.log2(run.mode.loss_scale))
    return {
        "flushed_at_scale": record.gradient.flush_share(FORMATS["fp16"], shift),
        "overflow_at_scale": record.gradient.overflow_share(FORMATS["fp16"], shift),
    }


def cases_of(
    measurements: Sequence[Measurements], device: Device, families: OpFamilies, log2_scale: int | None
) -> Iterator[tuple[dict[str, Any], Site]]:
    """(facts, site) of every op that computed something, in every low-precision mode that ran, on every
    batch. `log2_scale` is the recommended loss scale's exponent, None when none could be established.
    """
    for number, measured in enumerate(measurements, start=1):
        for facts, site in _cases_of_batch(measured, device, families, log2_scale):
            yield facts, site if number == 1 else replace(site, batch=number)


def _cases_of_batch(
    measurements: Measurements, device: Device, families: OpFamilies, log2_scale: int | None
) -> Iterator[tuple[dict[str, Any], Site]]:
    for op in unsound_ops(measurements):
        facts = {**defaults(), "op": op.name, "family": op.family, "phase": op.phase}
        facts["fp32_nonfinite"] = measurements.ranges[op.id].nonfinite
        for precision, mode in itertools.product(("fp16", "bf16"), ("autocast", "pure")):
            yield (
                {**facts, "precision": precision, "mode": mode},
                Site(op.module, op.file, op.line, "measured"),
            )
    for run in measurements.runs.values():
        integers = integer_ops(run.ops, measurements.integer_inputs)
        consumers: dict[int, list[OpRecord]] = {}
        for record in run.records:
            for producer in record.op.producers:
                if producer is not None:
                    consumers.setdefault(producer, []).append(record)
        unit = FORMATS[run.precision].unit_roundoff
        told = {id(record) for record in run.blame.culprits.values()}
        for record in run.records:
            line = (record.op.file, record.op.line)
            shows = (
                id(record) in told or jump(record, unit) > 3.0 or _flushed_in(record) or bool(record.flips)
            )
            constants = constant_facts(record.op.constants, run.precision)
            shows = shows or bool(constants.get("constant_vanishes") or constants.get("constant_overflows"))
            culprit = line in run.blame.culprits and shows
            facts = facts_of(
                run,
                record,
                constants,
                culprit=culprit,
                integers=record.op.id in integers,
                device=device,
                families=families,
            )
            facts.update(_gradient_facts(run, record, log2_scale))
            chain = _chain(record, run, consumers) if culprit else ()
            yield facts, Site(record.op.module, record.op.file, record.op.line, "emulated", chain)
        failure = run.outcome_failure
        if failure is not None:
            facts = defaults()
            facts.update(
                precision=run.precision,
                mode=run.kind,
                verdict=run.result.verdict,
                refused_by=_refusal_kind(failure.text),
                refusal=failure.text.splitlines()[0] if failure.text else type(failure.exception).__name__,
                family="other",
                module_type=failure.module_type,
                op="this line" if failure.line else "the step",
            )
            yield facts, Site(failure.module, failure.file, failure.line, "emulated")


def optimizer_cases(
    steps: Sequence[OptimizerStep], file: str | None, line: int | None
) -> Iterator[tuple[dict[str, Any], Site]]:
    """(facts, site) of an optimizer step on parameters held in 16 bit, `file` and `line` where it is made."""
    for step in steps:
        facts = defaults()
        facts.update(
            family="optimizer",
            phase="optimizer",
            op=f"{step.name}.step",
            precision=step.precision,
            mode="pure",
            low=True,
            line_known=line is not None,
            optimizer=step.name,
            learning_rate=step.lr,
            assumed=step.assumed,
            nonfinite=step.nonfinite,
            updates_lost=step.lost / step.moved if step.moved else 0.0,
            moments_flushed=step.flushed / step.moments if step.moments else 0.0,
        )
        facts.update(format_facts(step.precision))
        facts.update(constant_facts({"eps": step.eps}, step.precision))
        yield facts, Site("", file, line, "assumed" if step.assumed else "emulated")


def _refusal_kind(text: str) -> str:
    lowered = text.lower()
    if any(words in lowered for words in ("not implemented for", "unsupported dtype", "powers of two")):
        return "no-half-kernel"
    if any(
        word in lowered
        for word in ("dtype", "scalar type", "same type", "data type", "c10::half", "bfloat16")
    ):
        return "dtype-mismatch"
    return "error"
