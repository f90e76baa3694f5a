"""Every number of the catalogue against the arithmetic of the hardware."""

from __future__ import annotations

import subprocess
import sys

import pytest

from auditor.devices import DEFAULT_TARGET, Device, find_device, load_catalogue
from auditor.errors import UsageProblem

CATALOGUE = load_catalogue()
GPUS = [d for d in CATALOGUE.values() if d.vendor != "host"]

# Operations per clock per SM or compute unit (a multiply-add counts 2), by compute capability: CUDA C++
# Programming Guide (throughput of native arithmetic instructions), the architectures' whitepapers, and AMD's
# CDNA whitepapers. Tensor rates are those of data-center and workstation cards with FP32 accumulation.
VECTOR = {
    "6.0": {"fp32": 128, "fp64": 64, "fp16_vector": 256},
    "6.1": {"fp32": 256, "fp64": 8, "fp16_vector": 4},
    "7.0": {"fp32": 128, "fp64": 64, "fp16_vector": 256},
    "7.5": {"fp32": 128, "fp64": 4, "fp16_vector": 256},
    "8.0": {"fp32": 128, "fp64": 64, "fp16_vector": 512, "bf16_vector": 256},
    "8.6": {"fp32": 256, "fp64": 4, "fp16_vector": 256, "bf16_vector": 256},
    "8.9": {"fp32": 256, "fp64": 4, "fp16_vector": 256, "bf16_vector": 256},
    "9.0": {"fp32": 256, "fp64": 128, "fp16_vector": 512, "bf16_vector": 512},
    "10.0": {"fp32": 256, "fp64": 128, "fp16_vector": 512, "bf16_vector": 512},
    "12.0": {"fp32": 256, "fp64": 4, "fp16_vector": 256, "bf16_vector": 256},
    "gfx90a": {"fp32": 128, "fp64": 128, "fp32_matrix": 256},
    "gfx942": {"fp32": 256, "fp64": 128},
}
TENSOR = {
    "6.0": {},
    "6.1": {},
    "7.0": {"fp16": 1024},
    "7.5": {"fp16": 1024},
    "8.0": {"fp16": 2048, "bf16": 2048, "tf32": 1024},
    "8.6": {"fp16": 1024, "bf16": 1024, "tf32": 512},
    "8.9": {"fp16": 1024, "bf16": 1024, "tf32": 512, "fp8": 2048},
    "9.0": {"fp16": 4096, "bf16": 4096, "tf32": 2048, "fp8": 8192},
    "10.0": {"fp16": 8192, "bf16": 8192, "tf32": 4096, "fp8": 16384},
    "12.0": {"fp16": 1024, "bf16": 1024, "tf32": 512, "fp8": 2048},
    "gfx90a": {"fp16": 1024, "bf16": 1024},
    "gfx942": {"fp16": 2048, "bf16": 2048, "tf32": 1024, "fp8": 4096},
}


def from_first_principles(device: Device) -> dict[str, float]:
    """FLOP/s by rate: SMs x clock x operations per clock; GeForce halves products with FP32 accumulation."""
    capability = device.compute_capability or ""
    share = 0.5 if device.line == "GeForce" else 1.0
    clock = device.sms * device.boost_mhz * 1e6
    tensor_clock = device.sms * (device.tensor_mhz or device.boost_mhz) * 1e6 * share
    return {
        **{rate: ops * clock for rate, ops in VECTOR[capability].items()},
        **{rate: ops * tensor_clock for rate, ops in TENSOR[capability].items()},
    }


@pytest.mark.parametrize("device", GPUS, ids=lambda d: d.name)
def test_peaks_are_sms_times_clock_times_operations(device: Device) -> None:
    expected = from_first_principles(device)
    assert set(device.peaks) == set(expected)
    for rate, flops in expected.items():
        assert device.peak(rate) == pytest.approx(flops, rel=0.03), rate


@pytest.mark.parametrize("device", CATALOGUE.values(), ids=lambda d: d.name)
def test_every_number_has_a_source(device: Device) -> None:
    numbers = {"memory_gb", "bandwidth_gb_s", "sms", "boost_mhz", "tensor_mhz", "l2_mb"} | set(device.peaks)
    assert set(device.exceptions) <= numbers
    for number in numbers:
        assert len(device.provenance(number).source) > 5
    assert 1e9 <= device.memory_bytes <= 300e9
    assert device.l2_bytes >= 1.5 * 2**20
    assert 2016 <= device.year <= 2026


def test_the_exception_speaks_for_its_number_alone() -> None:
    a10 = find_device("A10")
    assert a10.provenance("fp64").certainty == "computed"
    assert a10.provenance("fp32").source == "NVIDIA A10 datasheet"


def test_the_cards_people_train_on_are_there() -> None:
    assert {
        "P100-SXM2-16GB",
        "V100-SXM2-16GB",
        "T4",
        "A100-SXM4-80GB",
        "H100-SXM5-80GB",
        "B200",
        "cpu",
    } <= set(CATALOGUE)
    assert len(GPUS) >= 60
    assert {d.vendor for d in CATALOGUE.values()} == {"NVIDIA", "AMD", "host"}


@pytest.mark.parametrize(
    ("name", "precisions", "tensor_cores"),
    [
        ("P100", ("fp32",), ()),
        ("GTX 1080 Ti", ("fp32",), ()),
        ("V100", ("fp16", "fp32"), ("fp16",)),
        ("T4", ("fp16", "fp32"), ("fp16",)),
        ("A100", ("fp16", "bf16", "tf32", "fp32"), ("fp16", "bf16", "tf32")),
        ("RTX 3090", ("fp16", "bf16", "tf32", "fp32"), ("fp16", "bf16", "tf32")),
        ("TITAN RTX", ("fp16", "fp32"), ("fp16",)),
        ("GTX 1060", ("fp32",), ()),
        ("L4", ("fp16", "bf16", "tf32", "fp32"), ("fp16", "bf16", "tf32")),
        ("H100", ("fp16", "bf16", "tf32", "fp32"), ("fp16", "bf16", "tf32")),
        ("B200", ("fp16", "bf16", "tf32", "fp32"), ("fp16", "bf16", "tf32")),
        ("MI210", ("fp16", "bf16", "fp32"), ("fp16", "bf16")),
        ("MI300X", ("fp16", "bf16", "tf32", "fp32"), ("fp16", "bf16", "tf32")),
        ("cpu", ("bf16", "fp32"), ()),
    ],
)
def test_abilities_by_generation(
    name: str, precisions: tuple[str, ...], tensor_cores: tuple[str, ...]
) -> None:
    device = find_device(name)
    assert device.precisions == precisions
    assert device.tensor_cores == tensor_cores


def test_fast_half_vectors_do_not_make_products_fast() -> None:
    p100 = find_device("P100")
    assert p100.peak("fp16_vector") == 2 * p100.peak("fp32")
    assert p100.product_rate("fp16") == p100.peak("fp32")


def test_fp32_products_of_cdna2_run_on_matrix_cores() -> None:
    assert find_device("MI210").product_rate("fp32") == pytest.approx(45.3e12)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("a100", "A100-SXM4-80GB"),
        ("a100-80gb", "A100-SXM4-80GB"),
        ("A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("a100_40gb", "A100-SXM4-40GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIE-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
        ("NVIDIA H100 PCIe", "H100-PCIe-80GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("AMD Instinct MI300X", "MI300X"),
        ("CPU", "cpu"),
    ],
)
def test_names_and_aliases(asked: str, name: str) -> None:
    assert find_device(asked).name == name


@pytest.mark.parametrize("asked", ["L40", "H20", "T400", "RTX 3080 Ti 20GB", "A100-PCIE-60GB", "", "toaster"])
def test_another_card_is_never_taken_for_a_known_one(asked: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        find_device(asked)
    assert caught.value.exit_status == 2


def test_unknown_card_suggests_near_names() -> None:
    with pytest.raises(UsageProblem, match="A100-SXM4-80GB"):
        find_device("a100-sxm4-60gb")


def test_no_two_cards_share_a_name() -> None:
    for device in CATALOGUE.values():
        assert all(find_device(n) is device for n in (device.name, *device.aliases))


def test_default_target_can_do_every_format() -> None:
    assert find_device(DEFAULT_TARGET).precisions == ("fp16", "bf16", "tf32", "fp32")


def test_devices_and_predictions_do_not_import_torch() -> None:
    code = "import sys, auditor.devices, auditor.plan.memory, auditor.plan.timing; "
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
