"""Inputs described on the command line: "2x3x224x224:float32", "ids=4x128:int64[0,30522]"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from auditor.errors import UsageProblem

if TYPE_CHECKING:
    import torch

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
_FORM = re.compile(
    r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<shape>scalar|\d+(?:x\d+)*)"
    r"(?::(?P<dtype>\w+)(?:\[(?P<low>[^,\]]+),(?P<high>[^,\]]+)\])?)?"
)
_EXPECTED = (
    'expected [name=]SHAPE[:dtype[low,high]], such as "2x3x224x224:float32" or "ids=4x128:int64[0,30522]"'
)


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input. Integers are uniform in [low, high), floats standard normal or uniform in [low, high)."""

    name: str | None
    shape: tuple[int, ...]
    dtype: str
    low: float | None
    high: float | None


def parse_input(text: str) -> InputSpec:
    """Raises UsageProblem pointing at the character where the text stops making sense."""
    match = _FORM.match(text)
    if match is None or match.end() != len(text):
        at = match.end() if match else 0
        raise UsageProblem(
            f"cannot read this input:\n    {text}\n    {' ' * at}^ {_EXPECTED}", where="--input"
        )
    dtype = match["dtype"] or "float32"
    if dtype not in (*_FLOATS, *_INTEGERS, "bool"):
        known = ", ".join((*_FLOATS, *_INTEGERS, "bool"))
        raise UsageProblem(
            f"unknown dtype {dtype!r} in {text!r}", where="--input", next_step=f"one of {known}"
        )
    shape = () if match["shape"] == "scalar" else tuple(int(n) for n in match["shape"].split("x"))
    low, high = _bound(text, match["low"]), _bound(text, match["high"])
    if low is not None and high is not None and low >= high:
        raise UsageProblem(
            f"the range of {text!r} is empty", where="--input", next_step="low must be below high"
        )
    if dtype in _INTEGERS and any(b is not None and b != int(b) for b in (low, high)):
        raise UsageProblem(f"the range of {text!r} is not integer", where="--input")
    return InputSpec(match["name"], shape, dtype, low, high)


def _bound(text: str, value: str | None) -> float | None:
    if value is None:
        return None
    try:
        return float(value)
    except ValueError:
        raise UsageProblem(f"{value!r} in {text!r} is not a number", where="--input") from None


def make_input(spec: InputSpec, generator: torch.Generator) -> torch.Tensor:
    """A random tensor as described."""
    import torch

    dtype = getattr(torch, spec.dtype)
    if spec.dtype == "bool":
        return torch.randint(0, 2, spec.shape, generator=generator).bool()
    if spec.dtype in _INTEGERS:
        low = int(spec.low) if spec.low is not None else 0
        high = int(spec.high) if spec.high is not None else 2
        return torch.randint(low, high, spec.shape, generator=generator).to(dtype)
    if spec.low is not None and spec.high is not None:
        return (torch.rand(spec.shape, generator=generator) * (spec.high - spec.low) + spec.low).to(dtype)
    return torch.randn(spec.shape, generator=generator).to(dtype)
