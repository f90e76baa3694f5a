"""The emulation against PyTorch's own CPU kernels in half and bfloat16."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from auditor.capture.arguments import Call
from auditor.capture.families import load_families
from auditor.numerics.emulate import Emulator, Executed, Refusal

FAMILIES = load_families()


class Emulated(TorchDispatchMode):
    def __init__(self, *, tf32: bool = False) -> None:
        super().__init__()
        self.emulator = Emulator(FAMILIES, tf32=tf32)
        self.executed: list[Executed] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.executed.append(self.emulator(Call.of(func, args, kwargs or {})))
        return self.executed[-1].out

    @property
    def refusals(self) -> list[Refusal]:
        return [e.refusal for e in self.executed if e.refusal is not None]


def data(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# Ops that round once: the emulation gives the same bits as the CPU's kernel, but for the order of a sum.
OPS: dict[str, Callable[[torch.dtype], torch.Tensor]] = {
    "mm": lambda d: data(32, 48).to(d) @ data(48, 16, seed=1).to(d),
    "bmm": lambda d: torch.bmm(data(3, 8, 40).to(d), data(3, 40, 8, seed=1).to(d)),
    "addmm": lambda d: F.linear(data(8, 64).to(d), data(32, 64, seed=1).to(d), data(32, seed=2).to(d)),
    "conv2d": lambda d: F.conv2d(data(2, 8, 10, 10).to(d), data(16, 8, 3, 3, seed=1).to(d)),
    "softmax": lambda d: torch.softmax(data(16, 50).to(d), -1),
    "layer_norm": lambda d: F.layer_norm(
        data(16, 64).to(d), (64,), data(64, seed=1).to(d), data(64, seed=2).to(d)
    ),
    "group_norm": lambda d: F.group_norm(
        data(4, 16, 6).to(d), 4, data(16, seed=1).to(d), data(16, seed=2).to(d)
    ),
    "gelu": lambda d: F.gelu(data(1000).to(d)),
    "silu": lambda d: F.silu(data(1000).to(d)),
    "exp": lambda d: data(1000).to(d).exp(),
    "rsqrt": lambda d: data(1000).to(d).abs().rsqrt(),
    "add": lambda d: data(1000).to(d) + data(1000, seed=1).to(d),
    "mul": lambda d: data(1000).to(d) * data(1000, seed=1).to(d),
    "div": lambda d: data(1000).to(d) / (data(1000, seed=1).to(d).abs() + 1),
    "sum": lambda d: data(64, 300).to(d).sum(-1),
    "mean": lambda d: data(64, 300).to(d).mean(-1),
    "in-place add": lambda d: data(1000).to(d).add_(data(1000, seed=1).to(d)),
    "mixed with float32": lambda d: data(1000).to(d) * data(1000, seed=1),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_log_softmax_differs_where_the_cpus_kernel_rounds_in_between(dtype: torch.dtype) -> None:
    """The CPU rounds x - max and the log of the sum before it subtracts them; CUDA's kernel, like the
    emulation, holds both in float32. The emulation is the one nearer to the exact result."""
    x = data(16, 50).to(dtype)
    exact = torch.log_softmax(x.double(), -1)
    native = torch.log_softmax(x, -1)
    with Emulated():
        emulated = torch.log_softmax(x, -1)
    assert float((emulated.double() - exact).abs().max()) <= float((native.double() - exact).abs().max())
    assert float((emulated.double() - exact).abs().max()) <= torch.finfo(dtype).eps * float(exact.abs().max())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
@pytest.mark.parametrize("name", OPS)
def test_same_bits_as_the_cpus_kernel(name: str, dtype: torch.dtype) -> None:
    native = OPS[name](dtype)
    with Emulated():
        emulated = OPS[name](dtype)
    assert emulated.dtype == native.dtype and emulated.shape == native.shape
    same = (emulated == native).float().mean()
    assert same >= 0.98, f"{1 - same:.2%} of elements differ"
    # The rest is one ulp off, where float32 sums were added in another order and fell across a tie. Beside
    # values near zero, where terms cancelled, an ulp of the largest result is the yardstick.
    ulp = torch.finfo(dtype).eps * native.float().abs().clamp_min(float(native.float().abs().max()) / 64)
    assert bool(((emulated.float() - native.float()).abs() <= 1.01 * ulp).all())


def test_an_op_without_cpu_half_kernel_still_runs_and_says_what_cuda_says() -> None:
    with Emulated() as mode:
        out = torch.linalg.inv(torch.eye(3, dtype=torch.float16) * 2)
    assert out.dtype == torch.float16 and out.diagonal().tolist() == [0.5, 0.5, 0.5]
    assert [r.by for r in mode.refusals] == ["no-half-kernel"]


def test_dtypes_that_clash_are_refused_and_mended() -> None:
    with Emulated() as mode:
        out = torch.ops.aten.mm(torch.ones(2, 2, dtype=torch.float16), torch.ones(2, 2))
    assert [r.by for r in mode.refusals] == ["dtype-mismatch"] and out.dtype == torch.float16


def test_a_mask_constant_beyond_half_is_refused() -> None:
    with Emulated() as mode:
        out = torch.zeros(2, dtype=torch.float16).masked_fill(torch.tensor([True, False]), -1e9)
    assert [r.by for r in mode.refusals] == ["constant"]
    assert out.tolist() == [-torch.inf, 0.0]


def test_counts_stop_where_an_ulp_is_two() -> None:
    index = torch.zeros(5000, dtype=torch.long)
    with Emulated():
        out = torch.zeros(1, dtype=torch.float16).index_add(0, index, torch.ones(5000, dtype=torch.float16))
    assert out.tolist() == [2048.0]


def test_tf32_rounds_the_operands_of_products_alone() -> None:
    third = torch.full((1, 1), 1 / 3)
    with Emulated(tf32=True):
        product, total = third @ torch.ones(1, 1), third + 0.0
    # 1/3 = 0.0101010101 01...b: ten mantissa bits after the leading one give 1365/4096.
    assert product.item() == 1365 / 4096
    assert total.item() == third.item() != product.item()


def test_dropout_draws_the_same_mask_in_half() -> None:
    x = torch.ones(1000)
    torch.manual_seed(3)
    expected = F.dropout(x, 0.5)
    torch.manual_seed(3)
    with Emulated():
        got = F.dropout(x.half(), 0.5)
    assert bool((got.float() == expected).all())


def test_a_promoted_line_keeps_its_result_unrounded_until_a_product() -> None:
    emulator = Emulator(FAMILIES, tf32=False)
    x = torch.full((2, 2), 300.0, dtype=torch.float16)
    square = emulator(Call.of(torch.ops.aten.mul.Tensor, (x, x), {}), promoted=True).out
    assert square.isinf().all()  # the half tensor itself holds infinity
    assert emulator.unrounded.get(square).tolist() == [[90000.0] * 2] * 2
    halved = emulator(Call.of(torch.ops.aten.div.Tensor, (square, 2), {})).out
    assert emulator.unrounded.get(halved).tolist() == [[45000.0] * 2] * 2  # type promotion carries it on
    product = emulator(Call.of(torch.ops.aten.mm.default, (square, x), {})).out
    assert product.isinf().all()  # a product takes the 16-bit value
