"""What a capture writes down about each op, whichever tier (eager run, symbolic trace) took it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import fx

    from auditor.capture.graph import NotedCall


HALF = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """Shape and dtype of one tensor; `dtype` is torch's own name, such as "float16"."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def numel(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, slots=True)
class Op:
    """One executed ATen op.

    `target` is the overload ("aten.addmm.default"), `family` its class in rules/ops.toml.
    `producers[i]` is the id of the op that made `inputs[i]`, or None for parameters, buffers and model
    inputs, whose names are then in `origins[i]` ("param:encoder.weight", "buffer:...", "input:0").
    `flops` counts a multiply-add as 2. `forward_id` pairs a backward op with the forward op whose
    gradient it computes. `constants` are the scalars that matter numerically (eps, exponent, fill, min...).
    """

    id: int
    target: str
    family: str
    phase: Literal["forward", "backward"]
    module: str
    module_type: str
    file: str | None
    line: int | None
    inputs: tuple[TensorMeta, ...]
    outputs: tuple[TensorMeta, ...]
    producers: tuple[int | None, ...]
    origins: tuple[str | None, ...]
    constants: Mapping[str, float | int | bool] = field(default_factory=dict)
    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    forward_id: int | None = None

    @property
    def takes_half(self) -> bool:
        """Whether any input is float16 or bfloat16."""
        return any(t.dtype in HALF for t in self.inputs)

    @property
    def gives_half(self) -> bool:
        """Whether any output is float16 or bfloat16."""
        return any(t.dtype in HALF for t in self.outputs)

    @property
    def name(self) -> str:
        """The overload's packet: "aten.addmm"."""
        return self.target.rsplit(".", 1)[0]


@dataclass(frozen=True)
class Trace:
    """One recorded run: its ops in order, and the calls noted for its graph (none if not asked for)."""

    ops: tuple[Op, ...]
    calls: tuple[NotedCall, ...] = ()

    @cached_property
    def graph(self) -> fx.Graph:
        """The run, forward and backward, as one graph; each call node's meta["op"] is its Op."""
        from auditor.capture.graph import graph_of

        return graph_of(self.calls, self.ops)
