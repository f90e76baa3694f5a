"""Which device an audit is for, and why that one."""

from __future__ import annotations

from typing import Literal

from auditor.contract import TargetInfo
from auditor.devices.catalogue_reader import DEFAULT_TARGET, Device, find_device
from auditor.devices.live import live_device
from auditor.devices.own import read_device_file
from auditor.errors import UsageProblem


def choose_device(asked: str | None, device_file: str | None = None) -> tuple[Device, TargetInfo]:
    """The card of --target, the only one of --device-file, the live one, or the default, and why.
    Raises UsageProblem."""
    kind: Literal["live", "catalogue", "host"]
    own = read_device_file(device_file) if device_file else ()
    if asked is None and len(own) == 1:
        asked = own[0].name
    live = live_device() if asked in (None, "cuda") else None
    if asked is None:
        device = live or find_device(DEFAULT_TARGET)
        kind = "live" if live else "catalogue"
        default = f"no --target given and no GPU here: {DEFAULT_TARGET} is assumed"
        why = "the GPU of this machine" if live else default
    elif asked == "cuda":
        if live is None:
            raise UsageProblem(
                "no CUDA device here",
                where="--target cuda",
                next_step="name a card: `ampaudit devices` lists them",
            )
        device, kind, why = live, "live", "--target cuda"
    else:
        device, why = find_device(asked, own), f"--target {asked}"
        why += f", of {device_file}" if device in own else ""
        kind = "host" if device.vendor == "host" else "catalogue"
    return device, TargetInfo(
        name=device.name,
        kind=kind,
        architecture=device.architecture,
        compute_capability=device.compute_capability,
        precisions=device.precisions,
        tensor_cores=device.tensor_cores,
        memory_bytes=device.memory_bytes,
        bandwidth=device.bandwidth,
        product_flops={p: device.product_rate(p) for p in ("fp32", *device.precisions)},
        chosen_because=why,
    )
