"""A roofline for one op: it takes as long as its arithmetic or its bytes, whichever is longer, and a launch.

Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009. Efficiencies are assumptions of this project
until calibrated, and every time made from them is labelled "predicted".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from auditor.devices.catalogue_reader import Device

LAUNCH_US = 4.0  # assumed: one CUDA kernel launch in eager mode, issued back to back
BANDWIDTH_EFFICIENCY = 0.8  # assumed: a large streaming kernel against the datasheet's bandwidth
PEAK_EFFICIENCY = 0.7  # assumed: a large, aligned product against the datasheet's peak
_TILE = 128  # assumed: rows and columns of the output tile of a large product
_MISALIGNED = 0.25  # assumed: share of the tensor-core rate left when a dimension defeats vector loads


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product of m x k by k x n, `batch` times."""

    batch: int
    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True)
class Work:
    """What an op moves and computes. `product` for matrix products and convolutions, None for the rest."""

    flops: int
    bytes: int
    product: Product | None = None


Bound = Literal["compute", "memory", "launch", "none"]


def alignment(fmt: str) -> int:
    """Elements a product's dimensions should be multiples of for tensor cores: 16 bytes' worth
    (NVIDIA, "Train With Mixed Precision", section on tensor-core shape constraints)."""
    return {"fp16": 8, "bf16": 8, "tf32": 4}.get(fmt, 1)


def misaligned(product: Product, fmt: str) -> tuple[str, ...]:
    """The dimensions that keep tensor cores from their full rate, such as ("n=30522",)."""
    step = alignment(fmt)
    return tuple(f"{name}={size}" for name, size in (("m", product.m), ("n", product.n), ("k", product.k)) if size % step)


def _product_efficiency(product: Product, fmt: str, device: Device) -> float:
    tiles_m, tiles_n = math.ceil(product.m / _TILE), math.ceil(product.n / _TILE)
    used = (product.m * product.n) / (tiles_m * tiles_n * _TILE * _TILE)  # tile quantisation
    tiles = product.batch * tiles_m * tiles_n
    waves = math.ceil(tiles / device.sms) * device.sms
    busy = tiles / waves  # wave quantisation
    # Small products run with smaller tiles, so neither loss is paid in full.
    shape = max(used, 0.3) * max(busy, 0.3)
    return PEAK_EFFICIENCY * shape * (_MISALIGNED if fmt in device.tensor_cores and misaligned(product, fmt) else 1.0)


def op_time(work: Work, fmt: str, device: Device) -> tuple[float, Bound]:
    """(microseconds, what bounds it) of one op whose products run in `fmt`."""
    if work.flops == 0 and work.bytes == 0:
        return 0.0, "none"
    compute = 0.0
    if work.flops:
        peak = device.peak(fmt) or device.peak("fp32")
        efficiency = _product_efficiency(work.product, fmt, device) if work.product else PEAK_EFFICIENCY
        compute = work.flops / (peak * efficiency) * 1e6
    # What fits in half of L2 was usually just written there by the op before.
    speed = device.bandwidth * BANDWIDTH_EFFICIENCY * (3.0 if work.bytes < device.l2_mb * 2**20 / 2 else 1.0)
    memory = work.bytes / speed * 1e6
    longest = max(compute, memory)
    if longest < LAUNCH_US:
        return LAUNCH_US, "launch"
    return longest + LAUNCH_US, "compute" if compute > memory else "memory"
