"""Shadow execution: a run in a candidate precision, compared with its float32 twin op by op."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from auditor.capture.arguments import Call, map_leaves, tensors_in
from auditor.capture.families import OpFamilies
from auditor.capture.storages import storage_id
from auditor.capture.trace import Op
from auditor.numerics.compare import Comparison, compare
from auditor.numerics.emulate import (
    LOW,
    Emulator,
    Executed,
    Refusal,
    widened_dtypes,
)
from auditor.numerics.histogram import BinadeHistogram, binade_histogram
from auditor.numerics.suspicion import Suspicion, examine
from auditor.numerics.twins import WIDER, Twins

# Stands for the file of a place that is no line: an input or buffer rounded before the model ran.
GIVEN = "<given>"


@dataclass(slots=True)
class OpRecord:
    """What one op did in a candidate run. Errors are relative L2 errors against the float32 twin.

    `low`: the op took or gave 16-bit tensors, or was a TF32 product. `inherited`: the largest error among
    its inputs, inf where an input is non-finite against a finite twin.
    """

    op: Op
    low: bool
    refusal: Refusal | None = None
    inherited: float = 0.0
    comparison: Comparison | None = None
    suspicion: Suspicion | None = None
    flips: int = 0
    flip_share: float = 0.0
    gradient: BinadeHistogram | None = None


@dataclass
class _Pending:
    low: bool = False
    refusal: Refusal | None = None
    inherited: float = 0.0
    comparison: Comparison | None = None
    suspicion: Suspicion | None = None
    flips: int = 0
    flip_share: float = 0.0
    wide: bool = False
    twins: list[torch.Tensor] = field(default_factory=list)


class Shadow:
    """`execute` and `observe` for a Recorder; `records` holds one entry per op that computed something.

    `gradients=True` also keeps the binade histogram of the twin of every 16-bit gradient. Ops on `promoted`
    (file, line) places run as if that line had been upcast; those on `examined` places are looked at more
    closely, operands at hand.
    """

    def __init__(
        self,
        families: OpFamilies,
        *,
        tf32: bool = False,
        gradients: bool = False,
        promoted: frozenset[tuple[str, int]] = frozenset(),
        examined: frozenset[tuple[str, int]] = frozenset(),
    ) -> None:
        self.twins = Twins()
        self.records: list[OpRecord] = []
        self._families = families
        self._emulate = Emulator(families, tf32=tf32)
        self._gradients = gradients
        self._promoted = promoted
        self._examined = examined
        self._pending = _Pending()
        self._wide_ops: set[int] = set()
        self.given: dict[str, int] = {}
        self._announced: dict[str, Refusal] = {}

    def adopt(self, origin: str, tensor: torch.Tensor, exact: torch.Tensor) -> None:
        """Give a parameter, buffer or input that was cast ("buffer:pos", say) its float32 original as twin.

        One that became infinite counts as sound until an op uses it: that op's line is what can be mended.
        """
        error = compare(tensor, exact, exact).error
        self.twins.put(tensor, exact.clone(), error if math.isfinite(error) else 0.0)
        if not origin.startswith("param:"):
            self.given[origin] = len(self.given)
            if (GIVEN, self.given[origin]) in self._promoted:
                self._emulate.unrounded.put(tensor, exact.clone(), 0.0)

    def value(self, tensor: torch.Tensor) -> torch.Tensor:
        """What the run holds in `tensor`, widened; unrounded where a promoted line made it."""
        return self._emulate.unrounded.get(tensor)

    def autocast_refused(self, name: str, why: str) -> None:
        """Autocast refuses the op `name` that comes next; it runs in float32 so that the rest is seen."""
        self._announced[name] = Refusal("autocast", why)

    def execute(self, call: Call) -> Any:
        self._pending = pending = _Pending()
        name, inputs = call.overload.name, call.inputs
        free = name in self._families.free
        if call.overload.is_view or (free and not inputs):
            return call.run()
        # A factory asked for 16 bit (arange, zeros) is low by its result alone.
        pending.low = any(t.dtype in LOW for t in inputs) or any(d in LOW for d in call.dtypes())
        tainted = any(self.twins.has(t) for t in inputs)
        written = call.written()
        if tainted or pending.low:
            for t in written:
                self.twins.own(t)
        random = torch.get_rng_state() if call.overload.random else None
        pending.inherited = max([self.twins.error(t) for t in inputs], default=0.0) if tainted else 0.0
        twin_args, twin_kwargs = self._twin_arguments(call) if tainted or pending.low else (None, None)
        promoted = call.place in self._promoted
        # A gradient is as wide as its forward op was; what a wider consumer hands back is cast on the way.
        follow = None if call.forward is None or not self._promoted else call.forward in self._wide_ops
        executed = self._emulate(call, promoted=promoted, keep=follow)
        pending.wide = executed.kept
        pending.refusal = self._announced.pop(name, executed.refusal)
        outputs = tensors_in(executed.out)
        pending.low = pending.low or executed.wide is not None or any(t.dtype in LOW for t in outputs)
        if not (tainted or pending.low) or free:
            return executed.out
        if twin_args is None:
            twin_args, twin_kwargs = call.args, call.kwargs
        twin = self._run_twin(call, executed, twin_args, twin_kwargs, random)
        if twin is not None:
            self._compare(call, executed, outputs, tensors_in(twin), written)
        return executed.out

    def _twin_arguments(self, call: Call) -> tuple[Any, Any]:
        twins = map_leaves(torch.Tensor, self.twins.get, (call.args, call.kwargs))
        return widened_dtypes(twins) if call.overload.takes_dtype else twins  # type: ignore[no-any-return]

    def _run_twin(self, call: Call, executed: Executed, twin_args: Any, twin_kwargs: Any, random: Any) -> Any:
        """The same op on the twins, or None where the twins cannot follow (other shapes, an error)."""
        if call.overload.name == "aten._to_copy":
            wanted = executed.out.dtype
            return twin_args[0].to(WIDER.get(wanted, wanted), copy=True)
        after = torch.get_rng_state() if random is not None else None
        if random is not None:
            torch.set_rng_state(random)
        try:
            return call.func(*twin_args, **twin_kwargs)
        except (RuntimeError, IndexError, ValueError, NotImplementedError):
            for t in tensors_in(executed.out):
                self.twins.drop(t)
            return None
        finally:
            if after is not None:
                torch.set_rng_state(after)

    def _compare(
        self,
        call: Call,
        executed: Executed,
        outputs: list[torch.Tensor],
        twins: list[torch.Tensor],
        written: list[torch.Tensor],
    ) -> None:
        pending = self._pending
        examined = call.place in self._examined
        wide = tensors_in(executed.wide) if executed.wide is not None else outputs
        written_storages = {storage_id(t) for t in written}
        input_storages = {storage_id(t) for t in call.inputs}
        for index, (out, twin) in enumerate(zip(outputs, twins, strict=False)):
            if out.layout != torch.strided:
                continue  # sparse gradients: taken as exact
            if out.shape != twin.shape:
                self.twins.drop(out)
                pending.flips += out.numel()
                pending.flip_share = 1.0
                continue
            before_rounding = wide[index] if index < len(wide) else out
            storage = storage_id(out)
            result = None
            if out.is_floating_point() and out.numel():
                result = compare(out, before_rounding, twin)
                if pending.comparison is None or result.error > pending.comparison.error:
                    pending.comparison = result
                if examined and pending.suspicion is None:
                    pending.suspicion = examine(call.overload.name, out, twin, call.inputs, self.twins)
                pending.twins.append(twin)
            elif not out.is_floating_point() and not out.is_complex() and out.numel():
                differ = int((out != twin).sum())
                pending.flips += differ
                pending.flip_share = max(pending.flip_share, differ / out.numel())
            error = result.error if result is not None else pending.flip_share
            if storage in written_storages:
                self.twins.note_error(out, error)
            elif storage not in input_storages:
                self.twins.put(out, twin, error)

    def observe(self, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        pending = self._pending
        if pending.wide:
            self._wide_ops.add(op.id)
        computed = pending.comparison is not None or pending.flips or pending.refusal is not None
        if not computed:
            return
        record = OpRecord(
            op=op,
            low=pending.low,
            refusal=pending.refusal,
            inherited=pending.inherited,
            comparison=pending.comparison,
            suspicion=pending.suspicion,
            flips=pending.flips,
            flip_share=pending.flip_share,
        )
        if self._gradients and op.phase == "backward" and op.gives_half:
            for twin in pending.twins:
                histogram = binade_histogram(twin)
                record.gradient = histogram if record.gradient is None else record.gradient.merge(histogram)
        pending.twins = []
        self.records.append(record)
