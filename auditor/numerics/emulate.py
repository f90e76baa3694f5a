"""One op as a GPU would compute it, on any machine.

A 16-bit op is its inputs widened, computed in float32 and the result rounded: what tensor cores and CUDA's
half kernels do. A TF32 product rounds its float32 operands to 10 mantissa bits first. PyTorch itself says
which dtype comes out (by its meta kernels) and which mixtures of dtypes it refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

from auditor.capture.arguments import Call, map_leaves, tensors_in
from auditor.capture.families import OpFamilies
from auditor.numerics.rounding import round_to
from auditor.numerics.twins import WIDER, Twins, widened

LOW = (torch.float16, torch.bfloat16)
RefusedBy = Literal["autocast", "no-half-kernel", "dtype-mismatch", "constant"]


@dataclass(frozen=True, slots=True)
class Refusal:
    by: RefusedBy
    why: str


@dataclass(frozen=True, slots=True)
class Executed:
    """`out` is what the GPU would hold; `wide` the same before its last rounding, None if nothing rounded.

    `kept`: the result was kept unrounded beside `out`, in a what-if run.
    """

    out: Any
    wide: Any
    refusal: Refusal | None = None
    kept: bool = False


class Emulator:
    """Executes ops for one mode. `tf32` rounds the operands of float32 products.

    A `promoted` op is computed as if its line had been upcast to float32: its result is kept unrounded
    beside the 16-bit tensor, and so are the results of what follows, as type promotion would have it, until
    a matrix product or a cast takes the 16-bit value. Such a what-if run tells whether a line is a culprit.
    """

    def __init__(self, families: OpFamilies, *, tf32: bool) -> None:
        self._families = families
        self._tf32 = tf32
        self._planned: dict[Any, tuple[torch.dtype, ...] | Refusal | None] = {}
        self.unrounded = Twins()

    def __call__(self, call: Call, *, promoted: bool = False, keep: bool | None = None) -> Executed:
        """`keep` says whether the result stays unrounded; None leaves it to `promoted` and the inputs."""
        name = call.overload.name
        low = next((t.dtype for t in call.inputs if t.dtype in LOW), None)
        product = name in self._families.products
        if self._tf32 and product and low is None and not promoted:
            return self._tf32_product(call)
        if name in self._families.casts:
            return self._cast(call, promoted, keep)
        if name in self._families.fills and not self._any_unrounded(call):
            return self._fill(call, promoted)
        if call.overload.is_view or name in self._families.free:
            return Executed(call.run(), None)
        if low is None:
            return self._plain(call, promoted)
        if keep is None:
            keep = promoted or (not product and self._any_unrounded(call))
        return self._half(call, low, keep)

    def _any_unrounded(self, call: Call) -> bool:
        return bool(self.unrounded) and any(self.unrounded.has(t) for t in call.inputs)

    def _plain(self, call: Call, promoted: bool) -> Executed:
        """No 16-bit input; a factory asked for a 16-bit result still rounds."""
        if promoted and any(d in LOW for d in call.dtypes()):
            random = torch.get_rng_state()
            wide_args, wide_kwargs = widened_dtypes((call.args, call.kwargs))
            wide = call.func(*wide_args, **wide_kwargs)
            torch.set_rng_state(random)
            out = call.run()
            self._keep(out, wide)
            return Executed(out, None, kept=True)
        return Executed(call.run(), None)

    def _keep(self, out: Any, wide: Any) -> None:
        for narrow, exact in zip(tensors_in(out), tensors_in(wide), strict=False):
            if narrow.dtype in LOW and narrow.shape == exact.shape:
                self.unrounded.put(narrow, exact.clone(), 0.0)

    def _cast(self, call: Call, promoted: bool, keep: bool | None) -> Executed:
        args = call.args
        source = args[1] if len(args) > 1 and isinstance(args[1], torch.Tensor) else args[0]
        if keep is False or not (promoted or self.unrounded.has(source)):
            return Executed(call.run(), None)
        exact = self.unrounded.get(source)
        if source is args[0] and source.dtype in LOW:
            out = exact.to(call.kwargs.get("dtype") or source.dtype, copy=True)
        else:
            out = call.run()
        if out.dtype in LOW:
            self.unrounded.drop(out)
            if promoted:
                self._keep(out, exact.expand(out.shape))
        return Executed(out, None, kept=promoted)

    def _tf32_product(self, call: Call) -> Executed:
        operands = {id(t) for t in call.inputs if t.dtype == torch.float32 and t.dim() > 1}

        def rounded(t: torch.Tensor) -> torch.Tensor:
            return round_to(t, "tf32") if id(t) in operands else t

        args, kwargs = map_leaves(torch.Tensor, rounded, (call.args, call.kwargs))
        out = call.func(*args, **kwargs)
        return Executed(out, out)

    def _fill(self, call: Call, promoted: bool) -> Executed:
        # Filling is exact in every kernel, and only the real one refuses a constant beyond the format.
        func, args, kwargs = call.func, call.args, call.kwargs
        if promoted:
            wide_args, wide_kwargs = widened_dtypes(map_leaves(torch.Tensor, widened, (args, kwargs)))
            wide = func(*wide_args, **wide_kwargs)
            asked = next((d for d in call.dtypes() if d in LOW), None)
            low = asked or next((t.dtype for t in tensors_in(args) if t.dtype in LOW), wide.dtype)
            out = args[0].copy_(wide) if call.written() and args[0].dtype in LOW else wide.to(low)
            self._keep(out, wide)
            return Executed(out, None, kept=True)
        try:
            return Executed(call.run(), None)
        except RuntimeError as error:
            if "without overflow" not in str(error):
                raise
            refusal = Refusal("constant", str(error))
        clipped = [_beyond_to_inf(a) for a in args]
        return Executed(func(*clipped, **{k: _beyond_to_inf(v) for k, v in kwargs.items()}), None, refusal)

    def _half(self, call: Call, low: torch.dtype, keep: bool) -> Executed:
        name, inputs = call.overload.name, call.inputs
        refusal = None
        planned = self._plan(call)
        if isinstance(planned, Refusal):
            refusal, planned = planned, None
        if name in self._families.refused_in_half(low):
            kind = "Half" if low == torch.float16 else "BFloat16"
            refusal = Refusal("no-half-kernel", f"CUDA has no {kind} kernel for {name}")
        # Where dtypes clash, the run goes on as if the line had been mended, in the half type.
        mended = low if refusal is not None and refusal.by == "dtype-mismatch" else None
        if refusal is None and not keep and name in self._families.sequential:
            return self._one_by_one(call)
        written = call.written()
        temporary = {id(t): self.unrounded.get(t) if keep else widened(t) for t in inputs}
        for t in written:
            if t.dtype not in LOW:
                temporary[id(t)] = t
        original = {id(temporary[id(t)]): t for t in written}
        arguments = map_leaves(torch.Tensor, lambda t: temporary[id(t)], (call.args, call.kwargs))
        wide_args, wide_kwargs = widened_dtypes(arguments) if call.overload.takes_dtype else arguments
        wide = call.func(*wide_args, **wide_kwargs)
        for t in written:
            if t.dtype in LOW:
                t.copy_(temporary[id(t)])
        numbers = iter(range(len(planned or ())))

        def rounded(leaf: torch.Tensor) -> torch.Tensor:
            number = next(numbers, None)
            dtype = _fallback_dtype(leaf, inputs) if planned is None or number is None else planned[number]
            if mended is not None and leaf.dtype == torch.float32:
                dtype = mended
            if id(leaf) in original:
                return original[id(leaf)]
            return leaf if leaf.dtype == dtype or dtype not in WIDER else leaf.to(dtype)

        out = map_leaves(torch.Tensor, rounded, wide)
        if keep:
            self._keep(out, wide)
            return Executed(out, None, kept=True)
        for t in written:
            self.unrounded.drop(t)
        return Executed(out, wide, refusal)

    def _one_by_one(self, call: Call) -> Executed:
        """The CPU's own 16-bit kernel, rounding each addition as atomicAdd does; `wide` sums exactly."""
        copies = map_leaves(
            torch.Tensor, lambda t: t.to(WIDER.get(t.dtype, t.dtype), copy=True), (call.args, call.kwargs)
        )
        wide_args, wide_kwargs = widened_dtypes(copies)
        wide = call.func(*wide_args, **wide_kwargs)
        for t in call.written():
            self.unrounded.drop(t)
        return Executed(call.run(), wide)

    def _plan(self, call: Call) -> tuple[torch.dtype, ...] | Refusal | None:
        """Output dtypes by PyTorch's meta kernel, its refusal, or None where it has no meta kernel."""
        kinds = tuple([(t.dtype, t.dim() == 0) for t in call.inputs])
        key = (call.func, kinds, tuple(call.dtypes()))
        if key not in self._planned:
            self._planned[key] = self._ask_meta(call)
        return self._planned[key]

    def _ask_meta(self, call: Call) -> tuple[torch.dtype, ...] | Refusal | None:
        name = call.overload.name
        floats = {t.dtype for t in call.inputs if t.is_floating_point() and t.dim() > 0}
        if len(floats) > 1 and name in self._families.same_dtype:
            names = sorted(str(d).removeprefix("torch.") for d in floats)
            return Refusal(
                "dtype-mismatch", f"{name} needs tensors of one dtype but got {' and '.join(names)}"
            )

        def meta(t: torch.Tensor) -> torch.Tensor:
            return torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device="meta")

        args, kwargs = map_leaves(torch.Tensor, meta, (call.args, call.kwargs))
        on_meta = {k: torch.device("meta") if isinstance(v, torch.device) else v for k, v in kwargs.items()}
        try:
            out = call.func(*args, **on_meta)
        except NotImplementedError:
            return None
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            text = str(error).splitlines()[0]
            if "Low precision dtypes not supported" in text:
                return Refusal("no-half-kernel", text)
            if len(floats) > 1 and "type" in text:
                return Refusal("dtype-mismatch", text)
            return None
        return tuple(t.dtype for t in tensors_in(out))


def _beyond_to_inf(value: Any) -> Any:
    if isinstance(value, (int, float)) and abs(value) > torch.finfo(torch.float16).max:
        return float("inf") if value > 0 else float("-inf")
    return value


def widened_dtypes(arguments: Any) -> Any:
    """The arguments with every 16-bit dtype among them (`dtype=`, `input_dtype`) widened."""
    return map_leaves(torch.dtype, lambda dtype: WIDER.get(dtype, dtype), arguments)


def _fallback_dtype(out: torch.Tensor, inputs: list[torch.Tensor]) -> torch.dtype:
    if out.dtype != torch.float32:
        return out.dtype
    floats = {t.dtype for t in inputs if t.is_floating_point() and t.dim() > 0}
    return next(iter(floats)) if len(floats) == 1 else out.dtype
