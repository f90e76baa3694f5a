"""Shapes to products, dtypes to formats, ops to a step's time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from auditor.capture.families import load_families
from auditor.capture.trace import Op, TensorMeta
from auditor.devices import find_device
from auditor.devices.roofline import ISSUE_US, Product, misaligned
from auditor.plan.timing import compute_format, optimizer_time_us, product_of, products_of, step_time

FAMILIES = load_families()
A100 = find_device("A100")
Shape = tuple[int, ...]


def make_op(
    name: str, inputs: Iterable[Shape], outputs: Iterable[Shape], dtype: str = "float32", **fields: Any
) -> Op:
    values: dict[str, Any] = {
        "id": 0,
        "phase": "forward",
        "module": "",
        "module_type": "",
        "file": None,
        "line": None,
        "producers": (),
        "origins": (),
    }
    return Op(
        target=f"aten.{name}.default",
        family=FAMILIES.family_of(f"aten.{name}"),
        inputs=tuple(TensorMeta(s, dtype) for s in inputs),
        outputs=tuple(TensorMeta(s, dtype) for s in outputs),
        **{**values, **fields},
    )


def sizes(product: Product) -> tuple[int, int, int, int]:
    return product.batch, product.m, product.n, product.k


def test_linear() -> None:
    """32 tokens of 768 features to a vocabulary of 30522."""
    op = make_op("addmm", [(30522,), (32, 768), (768, 30522)], [(32, 30522)])
    (product,) = products_of(op)
    assert sizes(product) == (1, 32, 30522, 768)
    assert product.flops == 2 * 32 * 30522 * 768
    assert misaligned(product, "bf16") == ("n=30522",)


def test_batch_rows_need_no_alignment() -> None:
    product = product_of(make_op("mm", [(31, 768), (768, 512)], [(31, 512)]))
    assert product is not None
    assert misaligned(product, "fp16") == ()


def test_batched_products() -> None:
    assert sizes(products_of(make_op("bmm", [(24, 50, 64), (24, 64, 51)], [(24, 50, 51)]))[0]) == (
        24,
        50,
        51,
        64,
    )
    op = make_op("baddbmm", [(24, 50, 51), (24, 50, 64), (24, 64, 51)], [(24, 50, 51)])
    assert sizes(products_of(op)[0]) == (24, 50, 51, 64)


def test_gradients_of_a_linear_layer() -> None:
    """Forward 31 x 768 by 768 x 30522. The weight gradient sums over 31 tokens, which need no alignment; its
    rows, and the sum of the input gradient, are the vocabulary."""
    forward = make_op("mm", [(31, 768), (768, 30522)], [(31, 30522)])
    weight = make_op("mm", [(30522, 31), (31, 768)], [(30522, 768)], phase="backward")
    inputs = make_op("mm", [(31, 30522), (30522, 768)], [(31, 768)], phase="backward")
    (of_weight,) = products_of(weight, forward)
    (of_input,) = products_of(inputs, forward)
    assert misaligned(of_weight, "fp16") == ("m=30522",)
    assert misaligned(of_input, "fp16") == ("k=30522",)


def test_convolution_is_an_implicit_product() -> None:
    """8 images, 64 to 128 channels, 3 x 3, 56 x 56 to 28 x 28: 6272 pixels, 576 taps times channels."""
    op = make_op(
        "convolution", [(8, 64, 56, 56), (128, 64, 3, 3)], [(8, 128, 28, 28)], constants={"groups": 1}
    )
    (product,) = products_of(op)
    assert sizes(product) == (1, 8 * 28 * 28, 128, 64 * 9)


def test_the_first_convolution_is_misaligned_by_its_channels() -> None:
    op = make_op(
        "convolution", [(8, 3, 224, 224), (64, 3, 7, 7)], [(8, 64, 112, 112)], constants={"groups": 1}
    )
    assert misaligned(products_of(op)[0], "fp16") == ("in_channels=3",)


def test_grouped_and_depthwise_convolutions() -> None:
    grouped = make_op(
        "convolution", [(8, 128, 28, 28), (128, 4, 3, 3)], [(8, 128, 28, 28)], constants={"groups": 32}
    )
    assert sizes(products_of(grouped)[0]) == (32, 8 * 28 * 28, 4, 36)
    depthwise = make_op(
        "convolution", [(8, 128, 28, 28), (128, 1, 3, 3)], [(8, 128, 28, 28)], constants={"groups": 128}
    )
    assert products_of(depthwise) == ()


def test_transposed_convolution_counts_its_input_pixels() -> None:
    """64 to 32 channels, 2 x 2, stride 2, 14 x 14 to 28 x 28: each output pixel meets one tap."""
    op = make_op(
        "convolution",
        [(8, 64, 14, 14), (64, 32, 2, 2)],
        [(8, 32, 28, 28)],
        constants={"groups": 1, "transposed": True},
    )
    (product,) = products_of(op)
    assert sizes(product) == (1, 8 * 28 * 28, 32, 64)
    assert product.flops == 2 * 8 * 14 * 14 * 64 * 32 * 4


def test_convolution_backward_is_one_product_a_gradient() -> None:
    """Both gradients cost what the forward product costs; without an input gradient one is left."""
    x, w, y = (8, 64, 56, 56), (128, 64, 3, 3), (8, 128, 28, 28)
    forward = products_of(make_op("convolution", [x, w], [y]))[0]
    of_input, of_weight = products_of(make_op("convolution_backward", [y, x, w], [x, w]))
    assert (of_input.m, of_input.n) == (8 * 56 * 56, 64)
    assert sizes(of_weight) == (1, 128, 64 * 9, 8 * 28 * 28)
    assert of_input.flops == of_weight.flops == forward.flops
    assert products_of(make_op("convolution_backward", [y, x, w], [w])) == (of_weight,)


@pytest.mark.parametrize("kind", ["flash_attention", "flash_attention_for_cpu", "efficient_attention"])
def test_fused_attention(kind: str) -> None:
    """2 x 4 heads, 128 queries, 256 keys, heads of 64."""
    q, k = (2, 4, 128, 64), (2, 4, 256, 64)
    scores, mixed = products_of(make_op(f"_scaled_dot_product_{kind}", [q, k, k], [q]))
    assert sizes(scores) == (8, 128, 256, 64)
    assert sizes(mixed) == (8, 128, 64, 256)
    backward = products_of(make_op(f"_scaled_dot_product_{kind}_backward", [q, q, k, k, q], [q, k, k]))
    assert sum(p.flops for p in backward) == 5 * scores.flops  # 2.5 times the forward's two


def test_a_causal_mask_halves_attention() -> None:
    q = (2, 4, 128, 64)
    plain, causal = (
        products_of(
            make_op("_scaled_dot_product_flash_attention", [q, q, q], [q], constants={"is_causal": c})
        )
        for c in (False, True)
    )
    assert sum(p.flops for p in plain) == 2 * sum(p.flops for p in causal)


def test_other_ops_compute_no_product() -> None:
    assert product_of(make_op("native_layer_norm", [(8, 64)], [(8, 64)])) is None


@pytest.mark.parametrize(
    ("dtype", "tf32", "expected"),
    [
        ("float16", False, "fp16"),
        ("float16", True, "fp16"),
        ("bfloat16", False, "bf16"),
        ("float32", False, "fp32"),
        ("float32", True, "tf32"),
        ("float64", True, "fp64"),
    ],
)
def test_format_of_a_product(dtype: str, tf32: bool, expected: str) -> None:
    op = make_op("mm", [(8, 8), (8, 8)], [(8, 8)], dtype)
    assert compute_format(op, FAMILIES, tf32=tf32) == expected


def test_tf32_is_for_products_only() -> None:
    assert compute_format(make_op("add", [(8,), (8,)], [(8,)]), FAMILIES, tf32=True) == "fp32"


def linear(dtype: str, width: int) -> Op:
    rows = 8192
    return make_op(
        "mm",
        [(rows, 4096), (4096, 4096)],
        [(rows, 4096)],
        dtype,
        id=1,
        module="layer",
        flops=2 * rows * 4096 * 4096,
        bytes_read=width * (rows + 4096) * 4096,
        bytes_written=width * rows * 4096,
    )


def test_a_step_is_the_sum_of_its_ops() -> None:
    view = make_op("view", [(8, 8)], [(64,)], id=0, module="layer")
    small = make_op("add", [(8,), (8,)], [(8,)], id=2, module="head", bytes_read=64, bytes_written=32)
    step = step_time([view, linear("float32", 4), small], A100, FAMILIES, tf32=False)
    assert step.modules["head"] == ISSUE_US
    assert step.total_us == pytest.approx(step.modules["layer"] + step.modules["head"])
    assert [t.bound for t in step.ops] == ["none", "compute", "launch"]


def test_formats_pay_by_the_card() -> None:
    """One large product: 16 times faster in half on an A100, 8 on V100 and T4, not at all on a P100."""

    def gain(card: str) -> float:
        full, half = (
            step_time([linear(d, w)], find_device(card), FAMILIES, tf32=False).total_us
            for d, w in (("float32", 4), ("float16", 2))
        )
        return full / half

    assert gain("A100") == pytest.approx(16, rel=0.02)
    assert gain("V100") == pytest.approx(8, rel=0.02)
    assert gain("T4") == pytest.approx(8, rel=0.02)
    assert gain("P100") == pytest.approx(1, rel=0.02)


def test_tf32_needs_a_card_that_has_it() -> None:
    def gain(card: str) -> float:
        full, tf32 = (
            step_time([linear("float32", 4)], find_device(card), FAMILIES, tf32=on).total_us
            for on in (False, True)
        )
        return full / tf32

    assert gain("A100") == pytest.approx(8, rel=0.02)
    assert gain("V100") == 1.0


def test_a_padded_vocabulary_is_faster() -> None:
    def head(n: int) -> float:
        op = make_op("mm", [(4096, 768), (768, n)], [(4096, n)], "float16", flops=2 * 4096 * 768 * n)
        return step_time([op], A100, FAMILIES, tf32=False).total_us

    assert head(30528) < head(30522)


def test_optimizer_step_is_its_bytes() -> None:
    """AdamW in FP32 reads p, g, m, v and writes p, m, v: 28 bytes a parameter."""
    time = optimizer_time_us(100_000_000, 28, A100)
    assert time == pytest.approx(2.8e9 / (2039e9 * 0.9) * 1e6 + 1.0, rel=1e-3)
