"""The floating-point formats a model may run in, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary format in IEEE 754's scheme: sign, `exponent_bits`, `mantissa_bits` explicit bits."""

    name: str
    exponent_bits: int
    mantissa_bits: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def max_exponent(self) -> int:
        """Exponent of the top binade: 15 for fp16."""
        return self.bias

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal binade: -14 for fp16."""
        return 1 - self.bias

    @property
    def max(self) -> float:
        return (2.0 - 2.0**-self.mantissa_bits) * 2.0**self.max_exponent

    @property
    def tiny(self) -> float:
        """Smallest normal magnitude."""
        return 2.0**self.min_exponent

    @property
    def smallest(self) -> float:
        """Smallest subnormal magnitude."""
        return 2.0 ** (self.min_exponent - self.mantissa_bits)

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of rounding to nearest in the normal range."""
        return 2.0 ** -(self.mantissa_bits + 1)

    @property
    def overflow_threshold(self) -> float:
        """The smallest magnitude that rounds to infinity: half an ulp above the largest finite value."""
        return self.max + 2.0 ** (self.max_exponent - self.mantissa_bits - 1)

    @property
    def exact_integer_limit(self) -> int:
        """Every integer up to this magnitude is held exactly: 2048 for fp16, 256 for bf16."""
        return 1 << (self.mantissa_bits + 1)


FORMATS = {
    "fp16": FloatFormat("fp16", 5, 10),
    "bf16": FloatFormat("bf16", 8, 7),
    "tf32": FloatFormat("tf32", 8, 10),
    "fp32": FloatFormat("fp32", 8, 23),
}
