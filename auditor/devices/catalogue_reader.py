"""The device catalogue: one TOML file an architecture, every number with its source."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from auditor.contract import LowPrecision, Precision
from auditor.errors import UsageProblem, near_names

# The target where no GPU is at hand: common in clouds, and able to do every format, so that no option is
# hidden from someone who did not think of naming a card.
DEFAULT_TARGET = "A100-SXM4-80GB"

Certainty = Literal["published", "measured", "computed", "assumed"]
Rate = Literal["fp64", "fp32", "fp32_matrix", "tf32", "fp16", "bf16", "fp16_vector", "bf16_vector", "fp8"]
_LOW: tuple[LowPrecision, ...] = ("fp16", "bf16", "tf32")


class Provenance(BaseModel):
    """Where a number comes from, in words, and how far to trust it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(min_length=1)
    certainty: Certainty


class Device(BaseModel):
    """One device as PyTorch sees it.

    `peaks` are dense TFLOP/s. fp32, fp64, fp16_vector and bf16_vector are vector rates; fp16, bf16, tf32, fp8
    and fp32_matrix are those of tensor (AMD: matrix) cores, accumulating in FP32, which is what PyTorch asks
    for; a format that is absent has no such unit. `tensor_mhz` is the clock the tensor peaks are rated at
    where that is not the boost clock. `source` and `certainty` speak for every number that `exceptions`
    (by field or by rate) does not speak for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    aliases: tuple[str, ...] = ()
    vendor: Literal["NVIDIA", "AMD", "host"]
    line: Literal["data center", "workstation", "GeForce", "host"]
    architecture: str
    compute_capability: str | None = None
    memory_gb: float = Field(
        gt=0, allow_inf_nan=False, description="as the vendor counts, taken as 1e9 bytes"
    )
    bandwidth_gb_s: float = Field(gt=0)
    peaks: dict[Rate, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(min_length=1)
    sms: int = Field(gt=0, description="streaming multiprocessors, compute units, or cores")
    boost_mhz: float = Field(gt=0)
    tensor_mhz: float | None = Field(default=None, gt=0)
    l2_mb: float = Field(gt=0, description="last-level cache, 2^20 bytes")
    year: int
    price_per_hour: float | None = Field(default=None, gt=0, description="in any one currency; yours to give")
    source: str = Field(min_length=1)
    certainty: Certainty
    exceptions: dict[str, Provenance] = Field(default_factory=dict)

    @field_validator("peaks")
    @classmethod
    def _computes_in_fp32(cls, peaks: dict[Rate, float]) -> dict[Rate, float]:
        if "fp32" not in peaks:
            raise ValueError("fp32 is missing: every time is compared with FP32's")
        return peaks

    @property
    def memory_bytes(self) -> int:
        """A few per cent less than most drivers report, so that "it fits" errs on the safe side."""
        return int(self.memory_gb * 1e9)

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.bandwidth_gb_s * 1e9

    @property
    def l2_bytes(self) -> int:
        return int(self.l2_mb * 2**20)

    def peak(self, fmt: str) -> float:
        """FLOP/s at one of the rates; 0 where the device has no such unit."""
        return {str(rate): value for rate, value in self.peaks.items()}.get(fmt, 0.0) * 1e12

    def product_rate(self, fmt: str) -> float:
        """FLOP/s of matrix products whose operands are in `fmt`, before any inefficiency.

        Where there is no unit for the format the product is computed in FP32: cuBLAS and cuDNN are asked to
        accumulate in FP32, so the fast FP16 vector arithmetic of a P100 does not serve products.
        """
        own = self.peak("fp32_matrix" if fmt == "fp32" else fmt)
        return own or self.peak("fp32_matrix") or self.peak("fp32")

    @property
    def tensor_cores(self) -> tuple[LowPrecision, ...]:
        """Formats whose products the device's tensor or matrix cores compute."""
        return () if self.vendor == "host" else tuple(fmt for fmt in _LOW if fmt in self.peaks)

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """Formats worth choosing here: those whose products run at least as fast as FP32's, and FP32."""
        own = self.product_rate("fp32")
        return (*(fmt for fmt in _LOW if fmt in self.peaks and self.peak(fmt) >= own), "fp32")

    def provenance(self, number: str) -> Provenance:
        """Source and certainty of a field ("l2_mb") or a rate ("fp64")."""
        return self.exceptions.get(number) or Provenance(source=self.source, certainty=self.certainty)


@cache
def load_catalogue() -> dict[str, Device]:
    """All devices by name, oldest first."""
    devices: list[Device] = []
    for file in files("auditor.devices.catalogue").iterdir():
        if file.name.endswith(".toml"):
            entries = tomllib.loads(file.read_text(encoding="utf-8"))["device"]
            devices += [Device.model_validate(entry) for entry in entries]
    return {d.name: d for d in sorted(devices, key=lambda d: (d.year, d.name))}


def plain_name(name: str) -> str:
    """A name without case, punctuation and makers' brands: "NVIDIA GeForce RTX 3090" -> "rtx3090"."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "".join(w for w in words if w not in ("nvidia", "amd", "tesla", "geforce", "instinct"))


def known_device(name: str, own: Sequence[Device] = ()) -> Device | None:
    """The device of that name or alias, `own` before the catalogue. Never a part of a name: an L40 is no
    L40S."""
    wanted = plain_name(name)
    for device in (*own, *load_catalogue().values()):
        if wanted in map(plain_name, (device.name, *device.aliases)):
            return device
    return None


def find_device(name: str, own: Sequence[Device] = ()) -> Device:
    """By name or alias, ignoring case and punctuation. Raises UsageProblem with near names."""
    device = known_device(name, own)
    if device is None:
        names = {n.upper(): n for d in (*own, *load_catalogue().values()) for n in (d.name, *d.aliases)}
        near = near_names(name.upper(), names)
        raise UsageProblem(
            f"no device {name!r} in the catalogue{near}",
            where="--target",
            next_step="`ampaudit devices` lists them; --device-file adds your own",
        )
    return device
