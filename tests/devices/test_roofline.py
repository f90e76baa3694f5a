"""The roofline against sums done by hand."""

from __future__ import annotations

import pytest

from auditor.devices import find_device
from auditor.devices.roofline import (
    BANDWIDTH_EFFICIENCY,
    GAP_US,
    ISSUE_US,
    L2_SPEEDUP,
    PEAK_EFFICIENCY,
    Product,
    Work,
    alignment,
    memory_us,
    misaligned,
    op_time,
    product_us,
    shape_efficiency,
)

A100 = find_device("A100")
P100 = find_device("P100")
T4 = find_device("T4")


def square(n: int) -> Product:
    return Product(1, n, n, n, loaded=(("n", n), ("k", n)))


def test_views_cost_nothing() -> None:
    time = op_time(Work(0, 0), "fp32", A100)
    assert (time.us, time.bound) == (0.0, "none")


def test_a_tiny_kernel_costs_its_launch() -> None:
    time = op_time(Work(0, 4096), "fp32", A100)
    assert (time.us, time.bound) == (ISSUE_US, "launch")


def test_a_large_elementwise_op_costs_its_bytes() -> None:
    """2.039 GB at 2039 GB/s is 1 ms at full bandwidth."""
    time = op_time(Work(0, 2_039_000_000), "fp32", A100)
    assert time.us == pytest.approx(1000 / BANDWIDTH_EFFICIENCY + GAP_US)
    assert time.bound == "memory"


def test_half_the_bytes_take_half_the_time() -> None:
    assert memory_us(2 * 10**9, A100) == pytest.approx(2 * memory_us(10**9, A100))


def test_what_fits_half_the_cache_comes_from_it() -> None:
    """An A100's L2 holds 40 MiB: 20 MiB come from it whole, 30 MiB by half, 40 MiB not at all."""
    speed = A100.bandwidth * BANDWIDTH_EFFICIENCY / 1e6
    mib = 2**20
    assert memory_us(20 * mib, A100) == pytest.approx(20 * mib / speed / L2_SPEEDUP)
    assert memory_us(30 * mib, A100) == pytest.approx((15 * mib / L2_SPEEDUP + 15 * mib) / speed)
    assert memory_us(40 * mib, A100) == pytest.approx(40 * mib / speed)


def test_more_bytes_never_take_less_time() -> None:
    times = [memory_us(mib * 2**20, A100) for mib in range(1, 80)]
    assert times == sorted(times)


def test_the_calibration_points_hold() -> None:
    """On an H200 a device copy moved 4.3 TB/s, an 8192-cubed BF16 product reached 770 to 800 TFLOP/s."""
    h200 = find_device("H200")
    assert 10e9 / memory_us(10 * 10**9, h200) * 1e6 == pytest.approx(4.3e12, rel=0.01)
    product = square(8192)
    assert 770e12 < product.flops / product_us(product, "bf16", h200) * 1e6 < 800e12


def test_tile_quantisation() -> None:
    """One column beyond the tile costs a whole tile more: 108 tiles fill the SMs once, 216 twice."""
    deep = 65536
    full = shape_efficiency(1, 128 * 108, 256, deep, 108)
    beyond = shape_efficiency(1, 128 * 108, 257, deep, 108)
    assert full > 0.99
    assert beyond < 0.85 * full


def test_wave_quantisation() -> None:
    """109 blocks of 108 SMs' worth: with one tile size left, the second wave holds a single tile."""
    ramp = 128 / (128 + 64)
    one_wave = shape_efficiency(108, 256, 128, 128, 108)
    two_waves = shape_efficiency(109, 256, 128, 128, 108)
    assert one_wave == pytest.approx(ramp)
    assert two_waves < 0.85 * one_wave


def test_deep_products_of_few_tiles_are_split() -> None:
    """A weight gradient, 256 x 128 over 65536 tokens: one tile; split 16 ways it uses 16 of 108 SMs, and
    tiles of 128 x 64 (0.8) four times as many."""
    depth = 65536 / 16
    assert shape_efficiency(1, 256, 128, 65536, 108) >= 0.8 * 64 / 108 * depth / (depth + 64)


def test_alignment_is_sixteen_bytes() -> None:
    assert [alignment(f) for f in ("fp16", "bf16", "tf32", "fp32")] == [8, 8, 4, 1]


def test_misaligned_names_the_sizes() -> None:
    head = Product(1, 1001, 30522, 768, loaded=(("n", 30522), ("k", 768)))
    assert misaligned(head, "fp16") == ("n=30522",)
    assert misaligned(head, "tf32") == ("n=30522",)
    assert misaligned(head, "fp32") == ()


def test_misaligned_products_lose_rate_but_stay_above_vectors() -> None:
    """n = 30522 halves are aligned to 4 bytes: half of the tensor-core rate; odd n to 2: a quarter."""
    even, odd, aligned = (
        product_us(Product(1, 8192, n, 1024, loaded=(("n", n), ("k", 1024))), "fp16", A100) / n
        for n in (30522, 30521, 30528)
    )
    assert even / aligned == pytest.approx(2.0, rel=0.01)
    assert odd / aligned == pytest.approx(4.0, rel=0.01)
    vectors = product_us(Product(1, 8192, 30521, 1024), "fp32", A100) / 30521
    assert odd < vectors


def test_formats_rank_as_their_rates() -> None:
    """A100, large product: FP16 is 2 x TF32 is 16 x FP32 (312, 156, 19.5 TFLOP/s)."""
    fp16, tf32, fp32 = (product_us(square(8192), f, A100) for f in ("fp16", "tf32", "fp32"))
    assert tf32 / fp16 == pytest.approx(2.0)
    assert fp32 / fp16 == pytest.approx(16.0)


def test_without_tensor_cores_half_products_take_fp32s_time() -> None:
    assert product_us(square(4096), "fp16", P100) == product_us(square(4096), "fp32", P100)
    assert product_us(square(4096), "bf16", T4) == product_us(square(4096), "fp32", T4)


def test_a_product_is_bound_by_compute_or_by_its_bytes() -> None:
    big = square(4096)
    assert op_time(Work(big.flops, 3 * 4096**2 * 2, (big,)), "fp16", A100).bound == "compute"
    thin = Product(1, 65536, 8, 4096, loaded=(("n", 8), ("k", 4096)))
    assert op_time(Work(thin.flops, 65536 * 4096 * 2, (thin,)), "fp16", A100).bound == "memory"


def test_counted_flops_scale_the_shapes() -> None:
    product = square(4096)
    whole = op_time(Work(product.flops, 1, (product,)), "fp16", A100)
    half = op_time(Work(product.flops // 2, 1, (product,)), "fp16", A100)
    assert half.compute_us == pytest.approx(whole.compute_us / 2)
    assert op_time(Work(0, 1, (product,)), "fp16", A100).compute_us == whole.compute_us
    assert whole.compute_us == pytest.approx(
        product.flops / (312e12 * PEAK_EFFICIENCY * shape_efficiency(1, 4096, 4096, 4096, 108)) * 1e6
    )
