"""Float32 twins of a run's tensors, kept by storage.

A candidate run holds real half, bfloat16 or already inexact float32 tensors. For each of their storages
this table keeps a second storage of the same element layout that holds what float32 would have computed.
Working on storages rather than tensors makes views, in-place updates, detached aliases and tensors saved
by autograd agree by construction. A storage without a twin has seen no rounding: it is its own twin.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from auditor.capture.storages import StorageMap

WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
}


@dataclass(slots=True)
class _Entry:
    twin: torch.UntypedStorage
    error: float


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or its exact float32 (complex64) image when it is 16 bit."""
    wide = WIDER.get(tensor.dtype)
    return tensor if wide is None else tensor.to(wide)


def _twin_dtype(tensor: torch.Tensor) -> torch.dtype:
    return WIDER.get(tensor.dtype, tensor.dtype)


def _twin_bytes(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes() // tensor.dtype.itemsize * _twin_dtype(tensor).itemsize


class Twins:
    """Map from candidate storages to twin storages."""

    def __init__(self) -> None:
        self._entries: StorageMap[_Entry] = StorageMap()

    def __bool__(self) -> bool:
        return bool(self._entries)

    def has(self, tensor: torch.Tensor) -> bool:
        return self._entries.get(tensor) is not None

    def error(self, tensor: torch.Tensor) -> float:
        """Relative error found when the tensor's storage was last written; 0 without a twin."""
        entry = self._entries.get(tensor)
        return entry.error if entry is not None else 0.0

    def get(self, tensor: torch.Tensor) -> torch.Tensor:
        """The twin: same shape and strides, 16-bit dtypes widened. The tensor itself if it has none."""
        entry = self._entries.get(tensor)
        return widened(tensor.detach()) if entry is None else self._view(entry, tensor)

    def _view(self, entry: _Entry, tensor: torch.Tensor) -> torch.Tensor:
        out = torch.empty(0, dtype=_twin_dtype(tensor))
        out.set_(entry.twin, tensor.storage_offset(), tensor.size(), tensor.stride())
        return torch._neg_view(out) if tensor.is_neg() else out

    def put(self, tensor: torch.Tensor, twin: torch.Tensor, error: float) -> None:
        """Make `twin` (same shape, a storage of its own) the twin of a freshly written `tensor`."""
        storage = twin.untyped_storage()
        same_layout = (
            twin.stride() == tensor.stride()
            and twin.storage_offset() == tensor.storage_offset()
            and twin.dtype == _twin_dtype(tensor)
            and storage.nbytes() >= _twin_bytes(tensor)
        )
        own = storage if same_layout else torch.UntypedStorage(_twin_bytes(tensor))  # type: ignore[no-untyped-call]
        entry = _Entry(own, error)
        if not same_layout:
            self._view(entry, tensor).copy_(twin)
        self._entries.put(tensor, entry, entry.twin.nbytes())

    def own(self, tensor: torch.Tensor) -> None:
        """Give `tensor`, about to be mutated, a twin: its whole storage as it is now, if it had none."""
        if self._entries.get(tensor) is None:
            whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
            entry = _Entry(whole.to(_twin_dtype(tensor), copy=True).untyped_storage(), 0.0)
            self._entries.put(tensor, entry, entry.twin.nbytes())

    def note_error(self, tensor: torch.Tensor, error: float) -> None:
        entry = self._entries.get(tensor)
        if entry is not None:
            entry.error = error

    def drop(self, tensor: torch.Tensor) -> None:
        """Forget the twin: from here on the tensor's own values count as exact."""
        self._entries.pop(tensor)
