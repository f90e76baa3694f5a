"""Float32 twins of a run's tensors, kept by storage.

A candidate run holds real half, bfloat16 or already inexact float32 tensors. For each of their storages
this table keeps a second storage of the same element layout that holds what float32 would have computed.
Working on storages rather than tensors makes views, in-place updates, detached aliases and tensors saved
by autograd agree by construction. A storage without a twin has seen no rounding: it is its own twin.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.multiprocessing.reductions import StorageWeakRef

WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
}


@dataclass(slots=True)
class _Entry:
    ref: StorageWeakRef
    twin: torch.UntypedStorage
    error: float
    shared: bool


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or its exact float32 (complex64) image when it is 16 bit."""
    wide = WIDER.get(tensor.dtype)
    return tensor if wide is None else tensor.to(wide)


def _itemsize(dtype: torch.dtype) -> int:
    return WIDER.get(dtype, dtype).itemsize


class Twins:
    """Map from candidate storages to twin storages. Entries die with the storages they describe."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._bytes_since_sweep = 0
        self._live_bytes = 0

    def _find(self, tensor: torch.Tensor) -> _Entry | None:
        return self._entries.get(tensor.untyped_storage()._cdata)

    def has(self, tensor: torch.Tensor) -> bool:
        return self._find(tensor) is not None

    def error(self, tensor: torch.Tensor) -> float:
        """Relative error found when the tensor's storage was last written; 0 without a twin."""
        entry = self._find(tensor)
        return entry.error if entry is not None else 0.0

    def get(self, tensor: torch.Tensor) -> torch.Tensor:
        """The twin: same shape and strides, 16-bit dtypes widened. The tensor itself if it has none."""
        entry = self._find(tensor)
        if entry is None:
            return widened(tensor.detach())
        return self._view(entry, tensor)

    def _view(self, entry: _Entry, tensor: torch.Tensor) -> torch.Tensor:
        dtype = WIDER.get(tensor.dtype, tensor.dtype)
        out = torch.empty(0, dtype=dtype)
        out.set_(entry.twin, tensor.storage_offset(), tensor.size(), tensor.stride())
        return torch._neg_view(out) if tensor.is_neg() else out

    def put(self, tensor: torch.Tensor, twin: torch.Tensor, error: float, *, shared: bool = False) -> None:
        """Make `twin` (same shape) the twin of a freshly written `tensor`.

        `shared` marks a twin storage that belongs to somebody else too; it is copied before it is mutated.
        """
        needed = (tensor.untyped_storage().nbytes() // tensor.dtype.itemsize) * _itemsize(tensor.dtype)
        storage = twin.untyped_storage()
        same_layout = (
            twin.stride() == tensor.stride()
            and twin.storage_offset() == tensor.storage_offset()
            and twin.dtype == WIDER.get(tensor.dtype, tensor.dtype)
            and storage.nbytes() >= needed
        )
        entry = _Entry(StorageWeakRef(tensor.untyped_storage()), storage, error, shared)
        if not same_layout:
            entry.twin = torch.UntypedStorage(needed)
            entry.shared = False
            self._view(entry, tensor).copy_(twin)
        self._remember(tensor, entry)

    def own(self, tensor: torch.Tensor) -> torch.Tensor:
        """A twin of `tensor` that may be mutated; made from the tensor's whole storage if it had none."""
        entry = self._find(tensor)
        if entry is None:
            whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
            wide = whole.to(WIDER.get(tensor.dtype, tensor.dtype), copy=True)
            entry = _Entry(StorageWeakRef(tensor.untyped_storage()), wide.untyped_storage(), 0.0, False)
            self._remember(tensor, entry)
        elif entry.shared:
            entry.twin = entry.twin.clone()
            entry.shared = False
        return self._view(entry, tensor)

    def note_error(self, tensor: torch.Tensor, error: float) -> None:
        entry = self._find(tensor)
        if entry is not None:
            entry.error = error

    def drop(self, tensor: torch.Tensor) -> None:
        """Forget the twin: from here on the tensor's own values count as exact."""
        self._entries.pop(tensor.untyped_storage()._cdata, None)

    def _remember(self, tensor: torch.Tensor, entry: _Entry) -> None:
        self._entries[tensor.untyped_storage()._cdata] = entry
        self._bytes_since_sweep += entry.twin.nbytes()
        # A sweep costs one check an entry; doing it when a quarter of what lived last time has been added
        # keeps dead twins below that quarter and the checks in proportion to the work.
        if self._bytes_since_sweep > max(self._live_bytes // 4, 1 << 22):
            self._sweep()

    def _sweep(self) -> None:
        dead = [key for key, entry in self._entries.items() if entry.ref.expired()]
        for key in dead:
            del self._entries[key]
        self._live_bytes = sum(entry.twin.nbytes() for entry in self._entries.values())
        self._bytes_since_sweep = 0
