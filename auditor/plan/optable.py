"""Every op of the FP32 step with what autocast made of it, as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from auditor.capture.trace import Op
from auditor.contract import OpTable
from auditor.measure import Measurements
from auditor.numerics.compare import Comparison

_INSERTED = "cast"  # a family autocast adds ops of: they have no row of their own


def op_table(measured: Measurements) -> OpTable:
    """Ops of views are left out: they compute nothing."""
    ops = [op for op in measured.trace.ops if op.family != "view"]
    rows = {op.id: row for row, op in enumerate(ops)}
    texts: dict[str, int] = {}
    fp16, bf16 = (_compared(measured, ops, mode) for mode in ("autocast_fp16", "autocast_bf16"))

    def told(of: Callable[[Op], str]) -> tuple[int, ...]:
        return tuple(texts.setdefault(of(op), len(texts)) for op in ops)

    columns: dict[str, Any] = {
        "op": told(lambda op: op.target),
        "family": told(lambda op: op.family),
        "phase": told(lambda op: op.phase),
        "module": told(lambda op: op.module),
        "type": told(lambda op: op.module_type),
        "file": told(lambda op: op.file or ""),
        "line": tuple(op.line for op in ops),
        "forward": tuple(None if op.forward_id is None else rows.get(op.forward_id) for op in ops),
        "flops": tuple(op.flops for op in ops),
        "bytes": tuple(op.bytes_read + op.bytes_written for op in ops),
        "absmax": tuple(_short(h.absmax) if (h := measured.ranges.get(op.id)) else None for op in ops),
    }
    for name, compared in (("fp16", fp16), ("bf16", bf16)):
        columns[f"{name}_error"] = tuple(_short(c.error) if c else None for c in compared)
        columns[f"{name}_local"] = tuple(_short(c.local) if c else None for c in compared)
    return OpTable(texts=tuple(texts), **columns)


def _compared(measured: Measurements, ops: Sequence[Op], mode: Any) -> list[Comparison | None]:
    """What became of each op in `mode`: the n-th run of an overload by a module in a phase is the same op in
    both steps, whatever casts autocast put between."""
    run = measured.runs.get(mode)
    seen: dict[tuple[str, str, str], list[Comparison | None]] = defaultdict(list)
    for record in run.records if run is not None else ():
        if record.op.family != _INSERTED:
            seen[_same(record.op)].append(record.comparison)
    taken: dict[tuple[str, str, str], int] = defaultdict(int)
    found: list[Comparison | None] = []
    for op in ops:
        runs, turn = seen.get(_same(op), []), taken[_same(op)]
        taken[_same(op)] += 1
        found.append(runs[turn] if turn < len(runs) else None)
    return found


def _same(op: Op) -> tuple[str, str, str]:
    return op.phase, op.module, op.target


def _short(value: float) -> float:
    """Four significant digits: what a reader compares, at a third of the bytes."""
    return float(f"{value:.4g}")
