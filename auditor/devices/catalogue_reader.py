"""The device catalogue: one TOML file an architecture, every number with its source."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from auditor.contract import LowPrecision, Precision, TargetInfo
from auditor.errors import UsageProblem, near_names

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_TARGET = "A100-SXM4-80GB"


class Device(BaseModel):
    """One card. `peaks` are dense TFLOP/s: vector rates for fp32, fp64 and fp16_vector, tensor-core rates
    (FP32 accumulation) for tf32, fp16, bf16 and fp8; a format that is absent runs at no useful rate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    vendor: Literal["NVIDIA", "AMD", "host"]
    architecture: str
    compute_capability: str | None = None
    memory_gb: float = Field(gt=0)
    bandwidth_gb_s: float = Field(gt=0)
    peaks: dict[Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp16_vector", "fp8"], float]
    sms: int = Field(gt=0)
    boost_mhz: float = Field(gt=0)
    l2_mb: float = Field(gt=0)
    year: int
    source: str
    certainty: Literal["published", "assumed"]

    @property
    def memory_bytes(self) -> int:
        return int(self.memory_gb * 1e9)

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.bandwidth_gb_s * 1e9

    def peak(self, fmt: str) -> float:
        """FLOP/s of products in `fmt`; 0 where the card has no such rate."""
        return dict(self.peaks).get(fmt, 0.0) * 1e12  # type: ignore[call-overload,no-any-return]

    @property
    def tensor_cores(self) -> tuple[LowPrecision, ...]:
        """Formats whose products the card's matrix units compute."""
        if self.vendor == "host":
            return ()
        return tuple(fmt for fmt in ("fp16", "bf16", "tf32") if fmt in self.peaks)  # type: ignore[misc]

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """Formats worth choosing on this card: those whose products run faster than FP32, and FP32."""
        faster = [f for f in ("fp16", "bf16", "tf32") if self.peak(f) > 0.0 and self.peak(f) >= self.peak("fp32")]
        return (*faster, "fp32")  # type: ignore[return-value]


@cache
def load_catalogue() -> dict[str, Device]:
    """All cards by name, oldest first."""
    devices = []
    for file in files("auditor.devices.catalogue").iterdir():
        if file.name.endswith(".toml"):
            devices += [Device.model_validate(d) for d in tomllib.loads(file.read_text(encoding="utf-8"))["device"]]
    return {d.name: d for d in sorted(devices, key=lambda d: (d.year, d.name))}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().removeprefix("nvidia ").removeprefix("amd "))


def find_device(name: str) -> Device:
    """By name, ignoring case and punctuation, or by an unambiguous part of it. Raises UsageProblem."""
    catalogue = load_catalogue()
    exact = [d for d in catalogue.values() if _plain(d.name) == _plain(name)]
    matching = exact or [d for d in catalogue.values() if _plain(name) and _plain(name) in _plain(d.name)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        listed = ", ".join(d.name for d in matching)
        raise UsageProblem(f"{name!r} may mean several cards", where="--target", next_step=f"say which: {listed}")
    raise UsageProblem(
        f"no device {name!r} in the catalogue{near_names(name, catalogue)}", where="--target", next_step="`ampaudit devices` lists them"
    )


def _live() -> Device | None:
    """The first CUDA device: the catalogue's entry for it, or one made from what the driver tells."""
    import torch

    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(0)
    for device in load_catalogue().values():
        if _plain(device.name) in _plain(properties.name) or _plain(properties.name) in _plain(device.name):
            return device
    major = properties.major
    # Rates per SM and clock are not in the driver's answer; a card of the same generation stands in.
    alike = [d for d in load_catalogue().values() if (d.compute_capability or "").startswith(f"{major}.")]
    scale = properties.multi_processor_count / alike[-1].sms if alike else 1.0
    model = alike[-1] if alike else find_device(DEFAULT_TARGET)
    return model.model_copy(
        update={
            "name": properties.name,
            "compute_capability": f"{major}.{properties.minor}",
            "memory_gb": properties.total_memory / 1e9,
            "sms": properties.multi_processor_count,
            "peaks": {fmt: peak * scale for fmt, peak in model.peaks.items()},
            "source": f"scaled by SM count from {model.name}",
            "certainty": "assumed",
        }
    )


def choose_device(asked: str | None) -> tuple[Device, TargetInfo]:
    """The card of --target, the live one, or the default, and why. Raises UsageProblem."""
    kind: Literal["live", "catalogue", "host"] = "catalogue"
    if asked is None:
        live = _live()
        device = live or find_device(DEFAULT_TARGET)
        kind = "live" if live else "catalogue"
        why = "the GPU of this machine" if live else f"no --target given and no GPU here: {DEFAULT_TARGET} is assumed"
    elif asked == "cuda":
        live = _live()
        if live is None:
            raise UsageProblem("no CUDA device here", where="--target cuda", next_step="name a card: `ampaudit devices` lists them")
        device, kind, why = live, "live", "--target cuda"
    else:
        device, why = find_device(asked), f"--target {asked}"
        kind = "host" if device.vendor == "host" else "catalogue"
    return device, TargetInfo(
        name=device.name,
        kind=kind,
        architecture=device.architecture,
        compute_capability=device.compute_capability,
        precisions=device.precisions,
        tensor_cores=device.tensor_cores,
        memory_bytes=device.memory_bytes,
        chosen_because=why,
    )
