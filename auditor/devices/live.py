"""The GPU of this machine, as a Device. Imports torch only when asked."""

from __future__ import annotations

from typing import Any

from auditor.devices.catalogue_reader import Device, Provenance, known_device, load_catalogue


def live_device() -> Device | None:
    """CUDA device 0 (or ROCm's): the catalogue's entry under the name the driver gives, or an estimate.

    None where torch sees no GPU. The memory is the driver's in both cases.
    """
    import torch

    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(0)
    device = known_device(properties.name) or _estimate(properties)
    memory = Provenance(source="the driver", certainty="measured")
    return device.model_copy(
        update={
            "memory_gb": properties.total_memory / 1e9,
            "exceptions": {**device.exceptions, "memory_gb": memory},
        }
    )


def _capability(device: Device) -> tuple[int, ...]:
    return tuple(int(part) for part in (device.compute_capability or "0.0").split("."))


def _arch(properties: Any) -> str:
    """ROCm's name of the architecture ("gfx90a"); "" on CUDA, where the attribute holds something else."""
    name = str(getattr(properties, "gcnArchName", "")).split(":")[0]
    return name if name.startswith("gfx") else ""


def _relative(properties: Any) -> Device:
    """The catalogue's card most like this one: same or next older compute capability, same product line."""
    if arch := _arch(properties):
        cards = [d for d in load_catalogue().values() if d.vendor == "AMD"]
        return next((d for d in cards if d.compute_capability == arch), cards[0])
    own = (properties.major, properties.minor)
    nvidia = [d for d in load_catalogue().values() if d.vendor == "NVIDIA"]
    older = [d for d in nvidia if _capability(d) <= own] or nvidia[:1]
    consumer = "geforce" in properties.name.lower()
    return max(older, key=lambda d: (_capability(d), (d.line == "GeForce") == consumer))


def _estimate(properties: Any) -> Device:
    """A card that is not in the catalogue: its relative, scaled by SMs and clock where the driver tells."""
    model = _relative(properties)
    sms = properties.multi_processor_count
    mhz = getattr(properties, "clock_rate", 0) / 1e3 or model.boost_mhz
    scale = sms * mhz / (model.sms * model.boost_mhz)
    # Kilohertz, bits, and two transfers a clock.
    memory_khz, bus = getattr(properties, "memory_clock_rate", 0), getattr(properties, "memory_bus_width", 0)
    return model.model_copy(
        update={
            "name": properties.name,
            "aliases": (),
            "compute_capability": _arch(properties) or f"{properties.major}.{properties.minor}",
            "bandwidth_gb_s": memory_khz * bus / 8 * 2 / 1e6 or model.bandwidth_gb_s * scale,
            "peaks": {rate: peak * scale for rate, peak in model.peaks.items()},
            "sms": sms,
            "boost_mhz": mhz,
            "tensor_mhz": None,
            "l2_mb": getattr(properties, "L2_cache_size", 0) / 2**20 or model.l2_mb,
            "source": f"not in the catalogue: {model.name} scaled by SMs and clock",
            "certainty": "assumed",
            "exceptions": {},
        }
    )
