"""Where an op comes from: the module running, the user's source line, the autograd node behind it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

# Frames below these folders are plumbing, never the line a user would change.
_PLUMBING = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent), "<")


@dataclass
class ModuleStack:
    """The chain of modules whose forward is running, innermost last.

    torch.utils.module_tracker also follows modules through backward, by hooks on every tensor; a backward
    op here takes the module of its paired forward op instead, which is exact and costs nothing.
    """

    names: dict[int, tuple[str, str]]
    running: list[tuple[str, str]] = field(default_factory=list)
    failed: tuple[str, str] | None = None

    @classmethod
    def of(cls, model: nn.Module) -> ModuleStack:
        return cls({id(m): (name, type(m).__name__) for name, m in model.named_modules()})

    @property
    def current(self) -> tuple[str, str]:
        """(module path, module type); the root's path is ""."""
        return self.running[-1] if self.running else ("", "")

    @contextmanager
    def follow(self) -> Iterator[None]:
        def enter(module: nn.Module, _: Any) -> None:
            known = self.names.get(id(module))
            self.running.append(known or (self.current[0], type(module).__name__))

        def leave(_module: nn.Module, _args: Any, _output: Any) -> None:
            if self.running:
                left = self.running.pop()
                if sys.exc_info()[0] is not None and self.failed is None:
                    self.failed = left

        handles = [
            register_module_forward_pre_hook(enter),
            register_module_forward_hook(leave, always_call=True),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self.running.clear()


_user_file: dict[str, bool] = {}


def is_user_file(filename: str) -> bool:
    """Whether a frame of this file is the user's own code rather than torch's or ours."""
    known = _user_file.get(filename)
    if known is None:
        known = _user_file[filename] = not filename.startswith(_PLUMBING)
    return known


def user_line() -> tuple[str, int] | None:
    """(file, line) of the innermost Python frame outside torch and this package, or None."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        # The look-up first: this loop runs for every op through some dozen frames.
        if _user_file.get(filename, True) and is_user_file(filename):
            return filename, frame.f_lineno
        frame = frame.f_back
    return None


def user_line_of(error: BaseException) -> tuple[str, int] | None:
    """(file, line) of the innermost user frame an exception passed through, or None."""
    place = None
    trace = error.__traceback__
    while trace is not None:
        if is_user_file(trace.tb_frame.f_code.co_filename):
            place = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return place


def forward_sequence() -> int:
    """Sequence number of the autograd node made last, hence of the forward op being dispatched: the node is
    created, and the counter moved on, before its op runs (at::sequence_number, get_and_increment)."""
    return int(torch.autograd._get_sequence_nr()) - 1  # type: ignore[attr-defined]


def autograd_sequence() -> tuple[int, bool]:
    """(sequence number, in backward) of the autograd node this op belongs to."""
    node = torch._C._current_autograd_node()
    return (forward_sequence(), False) if node is None else (node._sequence_nr(), True)
