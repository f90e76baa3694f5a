"""A card of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from auditor.cli.devices import command as devices_command
from auditor.devices import choose_device, find_device
from auditor.devices.own import read_device_file
from auditor.errors import UsageProblem

CARD = """
[[device]]
name = "Bench 9000"
vendor = "NVIDIA"
line = "data center"
architecture = "Test"
compute_capability = "8.0"
memory_gb = 24
bandwidth_gb_s = 1000
peaks = { fp32 = 10.0, fp16 = 80.0 }
sms = 40
boost_mhz = 1000
l2_mb = 8
year = 2024
price_per_hour = 1.5
source = "measured here"
certainty = "measured"
"""


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "cards.toml"
    file.write_text(text)
    return str(file)


def test_an_own_card_is_a_target_like_any_other(tmp_path: Path) -> None:
    file = written(tmp_path, CARD)
    device, target = choose_device("bench-9000", file)
    assert (device.peak("fp16"), device.price_per_hour) == (80e12, 1.5)
    assert (target.kind, target.precisions) == ("catalogue", ("fp16", "fp32"))
    assert file in target.chosen_because


def test_the_only_own_card_needs_no_target(tmp_path: Path) -> None:
    assert choose_device(None, written(tmp_path, CARD))[0].name == "Bench 9000"


def test_an_own_card_goes_before_the_catalogues_of_that_name(tmp_path: Path) -> None:
    device, _ = choose_device("T4", written(tmp_path, CARD.replace("Bench 9000", "T4")))
    assert device.peak("fp16") == 80e12


def test_the_catalogue_stays_at_hand(tmp_path: Path) -> None:
    assert choose_device("A100", written(tmp_path, CARD))[0] is find_device("A100")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CARD.replace("fp32 = 10.0, ", ""), "device 1: peaks: .*fp32 is missing"),
        (CARD.replace("memory_gb = 24", "memory_gb = -24"), "memory_gb"),
        (CARD.replace("fp16 = 80.0", "fp16 = nan"), "peaks.fp16"),
        (CARD.replace("fp16 = 80.0", "fp17 = 80.0"), "fp17"),
        (CARD.replace("memory_gb = 24\n", ""), "memory_gb: Field required"),
        (CARD + CARD.replace("sms = 40", "sms = 0"), "device 2: sms"),
        (CARD + "colour = 1\n", "colour"),
        ("name = 'x'", r"\[\[device\]\] tables"),
        ("device = 3", r"\[\[device\]\] tables"),
        ("[[device", "not TOML"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageProblem, match=said) as caught:
        read_device_file(written(tmp_path, text))
    assert caught.value.where == str(tmp_path / "cards.toml")


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="cannot be read"):
        read_device_file(str(tmp_path / "none.toml"))


@pytest.mark.parametrize("name", ["T4", "MI210", "cpu"])
def test_a_shown_entry_reads_back(tmp_path: Path, name: str) -> None:
    shown = CliRunner().invoke(devices_command, ["--show", name])
    (device,) = read_device_file(written(tmp_path, shown.output))
    assert device == find_device(name).model_copy(update={"exceptions": {}})
