"""The live card, with the driver's answers put in its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from auditor.devices import DEFAULT_TARGET, choose_device, find_device, live_device
from auditor.errors import UsageProblem


def pretend(monkeypatch: pytest.MonkeyPatch, **properties: Any) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _index: SimpleNamespace(**properties))


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("no_gpu")
def test_no_gpu() -> None:
    assert live_device() is None
    device, target = choose_device(None)
    assert device.name == DEFAULT_TARGET
    assert target.kind == "catalogue"
    assert DEFAULT_TARGET in target.chosen_because
    with pytest.raises(UsageProblem, match="no CUDA device"):
        choose_device("cuda")


def test_a_known_card_keeps_its_entry_and_the_drivers_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(
        monkeypatch,
        name="NVIDIA A100-SXM4-40GB",
        total_memory=42_405_855_232,
        major=8,
        minor=0,
        multi_processor_count=108,
    )
    device, target = choose_device("cuda")
    assert device.peaks == find_device("A100-40GB").peaks
    assert target.memory_bytes == 42_405_855_232
    assert (target.name, target.kind) == ("A100-SXM4-40GB", "live")
    assert device.provenance("memory_gb").certainty == "measured"
    assert device.provenance("fp16").certainty == "published"


def test_an_unknown_card_is_scaled_from_its_relative(monkeypatch: pytest.MonkeyPatch) -> None:
    """An RTX 3060 Ti: 38 SMs at 1665 MHz on 256 bits of GDDR6 at 7001 MHz: 448 GB/s and 16.2 TFLOP/s."""
    pretend(
        monkeypatch,
        name="NVIDIA GeForce RTX 3060 Ti",
        total_memory=8_000_000_000,
        major=8,
        minor=6,
        multi_processor_count=38,
        clock_rate=1_665_000,
        memory_clock_rate=7_001_000,
        memory_bus_width=256,
        L2_cache_size=4 * 2**20,
        gcnArchName="NVIDIA GeForce RTX 3060 Ti",
    )
    device = live_device()
    assert device is not None
    assert device.certainty == "assumed"
    assert device.peak("fp32") == pytest.approx(16.2e12, rel=0.01)
    assert device.peak("fp16") == pytest.approx(32.4e12, rel=0.01)  # half rate, as on GeForce
    assert device.bandwidth == pytest.approx(448e9, rel=0.01)
    assert device.compute_capability == "8.6"
    assert device.l2_bytes == 4 * 2**20


def test_a_newer_generation_takes_the_newest_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(
        monkeypatch,
        name="NVIDIA B300",
        total_memory=288_000_000_000,
        major=10,
        minor=3,
        multi_processor_count=148,
    )
    device = live_device()
    assert device is not None
    assert "B200" in device.source
    assert device.peaks == find_device("B200").peaks


def test_a_card_older_than_the_catalogue_has_no_tensor_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(
        monkeypatch, name="Tesla M60", total_memory=8_000_000_000, major=5, minor=2, multi_processor_count=16
    )
    device = live_device()
    assert device is not None
    assert device.tensor_cores == ()


def test_rocm_goes_by_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(
        monkeypatch,
        name="AMD Instinct MI250",
        total_memory=64_000_000_000,
        major=9,
        minor=0,
        multi_processor_count=104,
        gcnArchName="gfx90a:sramecc+:xnack-",
    )
    device = live_device()
    assert device is not None
    assert device.vendor == "AMD"
    assert device.precisions == ("fp16", "bf16", "fp32")


def test_named_targets() -> None:
    assert choose_device("t4")[1].kind == "catalogue"
    device, target = choose_device("cpu")
    assert target.kind == "host"
    assert device.tensor_cores == ()
