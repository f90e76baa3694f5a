"""Twins follow views, in-place updates and layouts by construction."""

import torch

from auditor.numerics.twins import Twins


def test_views_share_their_bases_twin() -> None:
    twins = Twins()
    x = torch.zeros(4, 6, dtype=torch.float16)
    twins.put(x, torch.arange(24.0).view(4, 6), 0.5)
    assert twins.get(x[1:3, ::2]).tolist() == [[6.0, 8.0, 10.0], [12.0, 14.0, 16.0]]
    assert twins.get(x.t()).dtype == torch.float32
    assert twins.error(x.view(24)) == 0.5


def test_a_tensor_without_twin_is_its_own() -> None:
    twins = Twins()
    x = torch.ones(3, dtype=torch.bfloat16)
    assert not twins.has(x) and twins.get(x).tolist() == [1.0, 1.0, 1.0] and twins.error(x) == 0.0


def test_owning_before_a_mutation_keeps_the_old_values() -> None:
    twins = Twins()
    x = torch.ones(3)
    twins.own(x)
    x.add_(1)
    assert twins.get(x).tolist() == [1.0, 1.0, 1.0]
    twins.get(x).add_(5)
    assert twins.get(x[1:]).tolist() == [6.0, 6.0]


def test_another_layout_is_copied() -> None:
    twins = Twins()
    x = torch.zeros(2, 3)
    twins.put(x, torch.arange(6.0).view(3, 2).t(), 0.0)
    assert twins.get(x).tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]] and twins.get(x).is_contiguous()


def test_a_new_storage_never_inherits_a_twin() -> None:
    twins = Twins()
    for _ in range(200):
        x = torch.zeros(1000)
        assert not twins.has(x)
        twins.put(x, torch.ones(1000), 1.0)
        del x


def test_sparse_tensors_are_passed_over() -> None:
    assert not Twins().has(torch.eye(2).to_sparse())
