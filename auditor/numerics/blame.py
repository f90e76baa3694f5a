"""Which line is to blame for a mode's bad outcome: suspects from the records, confirmed by executing.

A suspect line is confirmed when the same run with only that line promoted to float32 comes out well. Of
several that would do, the latest in the program is the culprit: promoting something upstream also heals
what flows from it, but only because float32 then spreads to the real culprit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.numerics.outcome import Result
from auditor.numerics.shadow import GIVEN, OpRecord

Line = tuple[str, int]
# How many ops upstream of where an error shows its cause is looked for.
_UPSTREAM = 16
Promote = Callable[[frozenset[Line]], Result]


@dataclass(frozen=True)
class Blame:
    """`culprits` maps each blamed line to the record that shows the fault; `confirmed` tells that promoting
    these lines was executed and healed the run. `runs` counts the executions spent."""

    culprits: dict[Line, OpRecord] = field(default_factory=dict)
    confirmed: bool = False
    runs: int = 0


def _line(record: OpRecord) -> Line | None:
    op = record.op
    return (op.file, op.line) if op.file is not None and op.line is not None else None


def is_given(line: Line) -> bool:
    """Whether a place stands for a rounded input or buffer rather than a line: promoting one heals whatever
    flows from it, so it is suspected last."""
    return line[0] == GIVEN


def _error(record: OpRecord) -> float:
    error = record.comparison.error if record.comparison is not None else 0.0
    return math.inf if math.isnan(error) else max(error, record.flip_share)


def jump(record: OpRecord, unit_roundoff: float) -> float:
    """How much worse an op's output is than what came in: error over inherited error or the format's own
    rounding; inf where non-finite values arise."""
    error = _error(record)
    if math.isinf(record.inherited):
        return 1.0
    return error / max(record.inherited, unit_roundoff)


def suspects(
    records: Sequence[OpRecord], unit_roundoff: float, limit: int, given: Mapping[str, int]
) -> dict[Line, OpRecord]:
    """Lines where non-finite values or large errors arise, and the lines that fed them, latest first.

    Each comes with its most telling record: the op with the largest jump. `given` numbers the inputs and
    buffers (by origin, "input:0") that were rounded before the model ran.
    """
    by_id = {record.op.id: record for record in records}
    inexact = [r for r in records if _error(r) > 4 * unit_roundoff]
    # A sum that stops growing loses a little at every step and jumps at none.
    origins = [r for r in inexact if jump(r, unit_roundoff) > 3.0] or inexact
    nonfinite = [r for r in origins if math.isinf(_error(r))]
    # With non-finite values about, errors of finite ones are a side issue: take the first origins only.
    chosen = nonfinite[: limit // 2] if nonfinite else sorted(origins, key=_error, reverse=True)[:limit]
    wanted: dict[int, OpRecord] = {}
    for record in chosen:
        frontier = [record]
        for _ in range(_UPSTREAM):
            for r in frontier:
                wanted.setdefault(r.op.id, r)
            frontier = [
                by_id[p]
                for r in frontier
                for p in r.op.producers
                if p is not None and p in by_id and p not in wanted
            ]
    best: dict[Line, OpRecord] = {}
    order: dict[Line, int] = {}
    for record in wanted.values():
        for origin in record.op.origins:
            if origin is not None and origin in given:
                best.setdefault((GIVEN, given[origin]), record)
                order.setdefault((GIVEN, given[origin]), -1)
        line = _line(record)
        if line is None:
            continue
        if line not in best or jump(record, unit_roundoff) > jump(best[line], unit_roundoff):
            best[line] = record
        forward = record.op.forward_id if record.op.forward_id is not None else record.op.id
        order[line] = max(order.get(line, -1), forward)
    return dict(sorted(best.items(), key=lambda item: -order[item[0]]))


def _told_at(
    line: Line, record: OpRecord, records: Sequence[OpRecord], unit_roundoff: float
) -> tuple[Line, OpRecord]:
    """Where to tell of a healing line: there, unless it merely rounds a value to which a later line adds a
    constant that cancels it (1 - alpha, 1 - tanh(u)^2). No rounding of such a value is harmless, so the
    line to change is the one that cancels."""
    source = [record] if is_given(line) else [r for r in records if _line(r) == line]
    reached = {r.op.id for r in source if _error(r) <= 4 * unit_roundoff}
    if not reached:
        return line, record
    for later in records:
        op = later.op
        if op.phase != "forward" or not reached.intersection(op.producers):
            continue
        steep = jump(later, unit_roundoff) > 3.0
        alone = sum(t.dtype in ("float16", "bfloat16", "float32") for t in op.inputs) == 1
        if steep and op.family == "add" and alone and "other" in op.constants:
            return _line(later) or line, later
        if not steep and _error(later) <= 16 * unit_roundoff:
            reached.add(op.id)
    return line, record


def healed(before: Result, after: Result) -> bool:
    """Whether a what-if run is free of the fault that shows first: non-finite outputs, then inexact outputs,
    then non-finite gradients, then inexact ones. What remains after it is another fault."""
    if after.failed:
        return False
    before_error, after_error = before.output_error or 0.0, after.output_error or 0.0
    if math.isinf(before_error):
        return not math.isinf(after_error)
    if before_error > before.output_allowed:
        return after_error <= before.output_allowed
    if before.verdict == "broken":
        return after.verdict != "broken"
    return after.verdict == "ok"


def find_blame(
    records: Sequence[OpRecord],
    result: Result,
    unit_roundoff: float,
    promote: Promote,
    *,
    given: Mapping[str, int],
    budget_s: float,
    limit: int = 24,
) -> Blame:
    """Lines whose promotion heals the run, found by running it: one line alone if any will do, else the
    smallest part of all suspects that deletion leaves."""
    found = suspects(records, unit_roundoff, limit, given)
    everything = list(found)[:limit]
    if not everything:
        return Blame()
    lines = [line for line in everything if not is_given(line)]
    started = time.monotonic()
    runs = 0

    def heals(chosen: Sequence[Line]) -> bool:
        nonlocal runs
        if time.monotonic() - started > budget_s:
            return False
        runs += 1
        return healed(result, promote(frozenset(chosen)))

    def told(chosen: Sequence[Line]) -> dict[Line, OpRecord]:
        return dict(_told_at(line, found[line], records, unit_roundoff) for line in chosen)

    for line in lines:
        if heals([line]):
            return Blame(told([line]), True, runs)
    if len(lines) > 1 and heals(lines):
        kept = list(lines)
        for line in reversed(lines):  # earliest first: upstream lines are the least likely culprits
            if len(kept) > 1 and heals([k for k in kept if k != line]):
                kept.remove(line)
        return Blame(told(kept), True, runs)
    for line in everything:
        if is_given(line) and heals([line]):
            return Blame(told([line]), True, runs)
    if not lines:
        return Blame(runs=runs)
    first = max(lines, key=lambda line: jump(found[line], unit_roundoff))
    return Blame({first: found[first]}, False, runs)
