"""A roofline for one op: as long as its arithmetic or its bytes take, whichever is longer, but no less than
the host needs to launch it.

Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009. Tile and wave quantisation, and alignment, follow
NVIDIA's "Matrix Multiplication Background User's Guide". Constants marked "assumed" are this project's and
wait for calibration; every time made from them is labelled "predicted".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from auditor.devices.catalogue_reader import Device

ISSUE_US = 4.5  # assumed: what eager PyTorch needs on the host for one op; kernels can't start faster
GAP_US = 1.0  # assumed: idle between two kernels already queued
BANDWIDTH_EFFICIENCY = 0.9  # a device copy on an H200 moved 4.3 of 4.8 TB/s
PEAK_EFFICIENCY = 0.82  # an 8192-cubed BF16 product on an H200 reached 770 to 800 of 989 TFLOP/s
L2_SPEEDUP = 3.0  # assumed: last-level cache against memory; whitepapers give 2.5 to 5
# Output tiles of cuBLAS and the share of the peak each can reach: small ones reload their operands more
# often. The sizes are the guide's, the shares are assumed from the order it gives.
_TILES = (
    (256, 128, 1.0),
    (128, 256, 1.0),
    (128, 128, 0.95),
    (128, 64, 0.8),
    (64, 128, 0.8),
    (64, 64, 0.65),
    (32, 32, 0.3),
)
_SPLITS = (1, 2, 4, 8, 16)  # assumed: ways of splitting k over SMs that output tiles alone leave idle
_SPLIT_DEPTH = 256  # assumed: a split keeps at least this much of k
_RAMP_DEPTH = 64  # assumed: length of k lost to filling and draining the pipeline
# Share of the tensor-core rate by the bytes that rows are aligned to. Since cuBLAS 11 misaligned products
# run on tensor cores too, with narrower loads; the shares are assumed from the guide's figures.
_ALIGNED = {16: 1.0, 8: 0.7, 4: 0.5, 2: 0.25}
_LOAD_BYTES = 16
_WIDTH = {"fp16": 2, "bf16": 2, "tf32": 4}


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product of m x k by k x n, `batch` times; a convolution is one by implicit im2col.

    `loaded` names the sizes along which operands lie contiguous in memory: those that must be aligned.
    """

    batch: int
    m: int
    n: int
    k: int
    loaded: tuple[tuple[str, int], ...] = ()

    @property
    def flops(self) -> int:
        """A multiply-add counts 2."""
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class Work:
    """What an op computes and moves: FLOPs (0 if not counted), bytes read plus written, its products."""

    flops: int
    bytes: int
    products: tuple[Product, ...] = ()


Bound = Literal["compute", "memory", "launch", "none"]


@dataclass(frozen=True, slots=True)
class OpTime:
    """Microseconds of one op, what bounds it, and the two sides of the roofline."""

    us: float
    bound: Bound
    compute_us: float = 0.0
    memory_us: float = 0.0


def alignment(fmt: str) -> int:
    """Elements that a contiguous size should be a multiple of for tensor cores: one 16-byte load."""
    return _LOAD_BYTES // _WIDTH[fmt] if fmt in _WIDTH else 1


def misaligned(product: Product, fmt: str) -> tuple[str, ...]:
    """The sizes that keep tensor cores from their full rate in `fmt`, such as ("n=30522",)."""
    step = alignment(fmt)
    return tuple(f"{name}={size}" for name, size in product.loaded if size % step)


def _alignment_share(product: Product, fmt: str) -> float:
    width = _WIDTH[fmt]
    return min((_ALIGNED[math.gcd(size * width, _LOAD_BYTES)] for _, size in product.loaded), default=1.0)


@lru_cache(maxsize=4096)
def shape_efficiency(batch: int, m: int, n: int, k: int, sms: int) -> float:
    """Share of the peak that a product's shape allows, 0..1: the best of the tiles and splits.

    A tile that juts out of the output computes for nothing (tile quantisation); a last wave of tiles that
    does not fill the SMs leaves the rest idle (wave quantisation).
    """
    best = 0.0
    for rows, columns, quality in _TILES:
        tiles_m, tiles_n = math.ceil(m / rows), math.ceil(n / columns)
        used = m * n / (tiles_m * rows * tiles_n * columns)
        for split in _SPLITS:
            if split > 1 and k < split * _SPLIT_DEPTH:
                break
            depth = k / split
            blocks = batch * tiles_m * tiles_n * split
            busy = blocks / (math.ceil(blocks / sms) * sms)
            best = max(best, quality * used * busy * depth / (depth + _RAMP_DEPTH))
    return best


def product_us(product: Product, fmt: str, device: Device) -> float:
    """Arithmetic time of one product whose operands are in `fmt`, on tensor cores or, if that is faster (an
    odd shape), on the vector units."""
    shape = shape_efficiency(product.batch, product.m, product.n, product.k, device.sms)
    rate = device.product_rate(fmt)
    if fmt in device.tensor_cores:
        rate = max(rate * _alignment_share(product, fmt), device.peak("fp32"))
    return product.flops / (rate * PEAK_EFFICIENCY * shape) * 1e6


def memory_us(size: int, device: Device) -> float:
    """Time to move `size` bytes. Up to half of the last-level cache, the op before has just left them there;
    beyond the whole of it, all comes from memory."""
    resident = size * min(max(2.0 - 2.0 * size / device.l2_bytes, 0.0), 1.0)
    return (resident / L2_SPEEDUP + size - resident) / (device.bandwidth * BANDWIDTH_EFFICIENCY) * 1e6


def op_time(work: Work, fmt: str, device: Device) -> OpTime:
    """Predicted time of one op whose products take operands in `fmt`; views (no work) cost nothing.

    Kernels queue up behind each other, so the host's time to issue an op shows only where the kernel is
    shorter.
    """
    if not work.flops and not work.bytes:
        return OpTime(0.0, "none")
    counted = sum(p.flops for p in work.products)
    if counted:
        # The counter knows of causal masks and the like; the shapes alone do not.
        share = work.flops / counted if work.flops else 1.0
        compute = share * sum(product_us(p, fmt, device) for p in work.products)
    else:
        compute = work.flops / (device.peak("fp32") * PEAK_EFFICIENCY) * 1e6
    memory = memory_us(work.bytes, device)
    kernel = max(compute, memory) + GAP_US
    if kernel <= ISSUE_US:
        return OpTime(ISSUE_US, "launch", compute, memory)
    return OpTime(kernel, "compute" if compute > memory else "memory", compute, memory)
