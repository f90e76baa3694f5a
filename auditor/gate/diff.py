"""What changed between two audits of a model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from auditor.contract import (
    SEVERITIES,
    Audit,
    Finding,
    Frozen,
    ModeName,
    ModeVerdict,
    Precision,
    Severity,
    Verdict,
)


class Side(Frozen):
    source: str
    created: str
    target: str
    verdict: Verdict
    version: str


class Regraded(Frozen):
    """The same finding under another severity."""

    finding: Finding
    before: Severity


class LayerChange(Frozen):
    """None: the layer is not there."""

    module: str
    before: Precision | None
    after: Precision | None


class RangeChange(Frozen):
    """Largest and smallest exponents (floor log2) that moved by a binade or more."""

    module: str
    role: str
    before: tuple[int, int]
    after: tuple[int, int]


class ModeChange(Frozen):
    mode: ModeName
    verdict: tuple[ModeVerdict | None, ModeVerdict | None]
    time_ms: tuple[float | None, float | None]
    memory_bytes: tuple[int | None, int | None]
    gradient_error: tuple[float | None, float | None]


class LossScaleChange(Frozen):
    """log2 of the recommended start; None where none is needed or known."""

    before: int | None
    after: int | None


class Diff(Frozen):
    old: Side
    new: Side
    added: tuple[Finding, ...]
    removed: tuple[Finding, ...]
    worse: tuple[Regraded, ...]
    better: tuple[Regraded, ...]
    layers: tuple[LayerChange, ...]
    ranges: tuple[RangeChange, ...]
    modes: tuple[ModeChange, ...]
    loss_scale: LossScaleChange | None

    @property
    def empty(self) -> bool:
        parts = (self.added, self.removed, self.worse, self.better, self.layers, self.ranges, self.modes)
        return not any(parts) and self.loss_scale is None and self.old.verdict == self.new.verdict


_SAME = 0.01  # times and errors that differ by less are the same


def difference(old: Audit, new: Audit) -> Diff:
    """Findings by fingerprint, layers and ranges by module, modes by name."""
    before, after = ({f.id: f for f in audit.findings} for audit in (old, new))
    common = [(before[i], after[i]) for i in after if i in before]
    scales = tuple(a.loss_scale.log2 if a.loss_scale.needed else None for a in (old, new))
    return Diff(
        old=_side(old),
        new=_side(new),
        added=tuple(f for i, f in after.items() if i not in before),
        removed=tuple(f for i, f in before.items() if i not in after),
        worse=tuple(_regraded(common, 1)),
        better=tuple(_regraded(common, -1)),
        layers=tuple(_layers(old, new)),
        ranges=tuple(_ranges(old, new)),
        modes=tuple(_modes(old, new)),
        loss_scale=LossScaleChange(before=scales[0], after=scales[1]) if scales[0] != scales[1] else None,
    )


def _side(audit: Audit) -> Side:
    return Side(
        source=audit.subject.source,
        created=audit.created,
        target=audit.target.name,
        verdict=audit.verdict,
        version=audit.tool.version,
    )


def _regraded(pairs: Iterable[tuple[Finding, Finding]], sign: int) -> Iterator[Regraded]:
    for was, now in pairs:
        step = SEVERITIES.index(was.severity) - SEVERITIES.index(now.severity)
        if step * sign > 0:
            yield Regraded(finding=now, before=was.severity)


def _layers(old: Audit, new: Audit) -> Iterator[LayerChange]:
    before, after = ({x.module: x.precision for x in audit.layers} for audit in (old, new))
    for module in dict.fromkeys([*before, *after]):
        if before.get(module) != after.get(module):
            yield LayerChange(module=module, before=before.get(module), after=after.get(module))


def _ranges(old: Audit, new: Audit) -> Iterator[RangeChange]:
    before = {(r.module, r.role): (r.low, r.high) for r in old.ranges}
    for row in new.ranges:
        was = before.get((row.module, row.role))
        if was is not None and was != (row.low, row.high):
            yield RangeChange(module=row.module, role=row.role, before=was, after=(row.low, row.high))


def _modes(old: Audit, new: Audit) -> Iterator[ModeChange]:
    for name in dict.fromkeys([*old.modes, *new.modes]):
        was, now = old.modes.get(name), new.modes.get(name)
        change = ModeChange(
            mode=name,
            verdict=(was.verdict if was else None, now.verdict if now else None),
            time_ms=(was.time_ms if was else None, now.time_ms if now else None),
            memory_bytes=(was.memory_bytes if was else None, now.memory_bytes if now else None),
            gradient_error=(was.gradient_error if was else None, now.gradient_error if now else None),
        )
        figures = (change.time_ms, change.memory_bytes, change.gradient_error)
        if change.verdict[0] != change.verdict[1] or not all(_same(*pair) for pair in figures):
            yield change


def _same(a: float | None, b: float | None) -> bool:
    if a is None or b is None or not (math.isfinite(a) and math.isfinite(b)):
        return a is b or a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b))
    return math.isclose(a, b, rel_tol=_SAME)
