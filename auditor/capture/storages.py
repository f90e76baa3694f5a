"""A map keyed by tensor storages that never keeps one alive; sparse tensors have none and no entry."""

from __future__ import annotations

from typing import Generic, TypeVar

import torch
from torch.multiprocessing.reductions import StorageWeakRef

Value = TypeVar("Value")


def storage_id(tensor: torch.Tensor) -> int | None:
    """What identifies a tensor's memory while it lives; None for tensors without one (sparse)."""
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else None


class StorageMap(Generic[Value]):
    """Values by the storage of a tensor: all its views and aliases find the same value.

    A value outlives its storage only until the next sweep; a new storage never inherits it, since the weak
    reference keeps the address from being used again.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[StorageWeakRef, Value, int]] = {}
        self._live = 0
        self._added = 0

    def __bool__(self) -> bool:
        return bool(self._entries)

    def get(self, tensor: torch.Tensor) -> Value | None:
        key = storage_id(tensor)
        entry = None if key is None else self._entries.get(key)
        return None if entry is None else entry[1]

    def put(self, tensor: torch.Tensor, value: Value, weight: int = 1) -> None:
        """`weight` is what an entry costs to keep (bytes, or 1); sweeps follow the weight added."""
        if tensor.layout != torch.strided:
            return
        storage = tensor.untyped_storage()
        reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        self._entries[storage._cdata] = (reference, value, weight)
        self._added += weight
        # Sweeping when a quarter of what lived last time has been added keeps the dead below that quarter
        # and the number of checks in proportion to the number of entries made.
        if self._added > max(self._live // 4, 1 << 10 if weight == 1 else 1 << 22):
            self._sweep()

    def pop(self, tensor: torch.Tensor) -> None:
        key = storage_id(tensor)
        if key is not None:
            self._entries.pop(key, None)

    def _sweep(self) -> None:
        self._entries = {k: e for k, e in self._entries.items() if not e[0].expired()}  # type: ignore[no-untyped-call]
        self._live = sum(weight for _, _, weight in self._entries.values())
        self._added = 0
