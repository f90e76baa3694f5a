"""Memory by hand: a million parameters, a megabyte at one byte each."""

from __future__ import annotations

import pytest

from auditor.contract import MemoryItem
from auditor.plan.memory import NOTE, STATE_ELEMENTS, itemise

MILLION = 1_000_000


def item(
    *, trainable: int = MILLION, saved: int = 0, copies: int = 0, pure: bool = False, optimizer: str = "adamw"
) -> MemoryItem:
    return itemise(
        parameters=MILLION,
        trainable=trainable,
        saved_activations=saved,
        weight_copies=copies,
        pure=pure,
        optimizer=optimizer,
    )


def test_fp32_with_adamw_is_sixteen_bytes_a_parameter() -> None:
    fp32 = item(saved=10 * MILLION)
    assert (fp32.parameters, fp32.gradients, fp32.optimizer_state) == (4 * MILLION, 4 * MILLION, 8 * MILLION)
    assert fp32.total == 26 * MILLION


def test_autocast_adds_copies_and_saves_on_activations_alone() -> None:
    """Activations halve, weights in 16 bit are copied: 26 MB becomes 23 MB, none of it in parameters."""
    fp32, autocast = item(saved=10 * MILLION), item(saved=5 * MILLION, copies=2 * MILLION)
    for kept in ("parameters", "gradients", "optimizer_state"):
        assert getattr(autocast, kept) == getattr(fp32, kept)
    assert autocast.master_weights == 0  # the FP32 parameters are the masters
    assert autocast.total == 23 * MILLION


def test_without_activations_autocast_takes_more() -> None:
    """Parameters plus copies are 1.5 times FP32's parameters."""
    autocast = item(copies=2 * MILLION)
    assert (autocast.parameters + autocast.autocast_weight_copies) / item().parameters == 1.5
    assert autocast.total > item().total


def test_pure_half_is_half_of_everything() -> None:
    pure = item(saved=5 * MILLION, pure=True)
    assert (pure.parameters, pure.gradients, pure.optimizer_state) == (2 * MILLION, 2 * MILLION, 4 * MILLION)
    assert pure.master_weights == 0
    assert pure.total == 13 * MILLION


def test_frozen_parameters_have_no_gradient_and_no_state() -> None:
    """A tenth trains: 4 + 0.4 + 0.8 bytes a parameter."""
    assert item(trainable=MILLION // 10).total == 5_200_000


@pytest.mark.parametrize(
    ("optimizer", "state"), [("adamw", 8), ("adam", 8), ("sgd-momentum", 4), ("sgd", 0), ("adafactor", 0)]
)
def test_optimizer_state(optimizer: str, state: int) -> None:
    assert item(optimizer=optimizer).optimizer_state == state * MILLION


def test_every_optimizer_is_covered_above() -> None:
    assert set(STATE_ELEMENTS) == {"adamw", "adam", "sgd-momentum", "sgd", "adafactor"}


def test_the_note_says_what_shrinks() -> None:
    assert "does not shrink parameters plus optimizer state" in NOTE
    assert "What shrinks is the activations" in NOTE
