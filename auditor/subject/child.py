"""The parent's side of an audit: start the child, follow it, and end it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from auditor.contract import Audit, read_audit
from auditor.errors import ERRORS, InternalProblem, SubjectProblem
from auditor.subject.request import AuditRequest

Progress = Callable[[str, int, int], None]
_TAIL_BYTES = 2000


class CrashedChild(InternalProblem):
    """A bug of ours in the child; `traceback` is for the report."""

    def __init__(self, what: str, trace: str) -> None:
        super().__init__(what)
        self.traceback = trace


def run_child(
    request: AuditRequest, progress: Progress, *, time_limit: float, memory_limit: int
) -> tuple[Audit, str]:
    """Audit in a child process. Returns the audit and the tail of what the user's code printed.

    Raises the child's own AuditError, or SubjectProblem when it hangs, crashes, exits or is killed. On
    KeyboardInterrupt the child's process group is killed before the exception passes on.
    """
    read_end, write_end = os.pipe()
    with tempfile.TemporaryFile() as printed:
        command = [
            sys.executable,
            "-m",
            "auditor.subject.worker",
            request.model_dump_json(),
            str(write_end),
            str(memory_limit),
        ]
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            pass_fds=[write_end],
            start_new_session=True,
        )
        os.close(write_end)
        try:
            message = _follow(read_end, progress, time.monotonic() + time_limit)
            if message is None:
                _kill(child)
                raise SubjectProblem(
                    f"the audit was still running after {time_limit:g} s",
                    where=request.model,
                    next_step=f"{_said(printed)}raise --time-limit, or give smaller inputs",
                )
            child.wait(timeout=30 if message else None)
        finally:
            os.close(read_end)
            _kill(child)
        tail = _tail(printed)
        if "audit" in message:
            return read_audit(message["audit"]), tail
        if "error" in message:
            raise _error(message["error"])
        raise SubjectProblem(
            _how_it_ended(child.returncode), where=request.model, next_step=_said(printed).strip() or None
        )


def _follow(pipe: int, progress: Progress, deadline: float) -> dict[str, Any] | None:
    """The child's last message, {} when it closed the pipe without one, None when time ran out."""
    buffer = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if not selector.select(min(left, 0.5)):
                continue
            chunk = os.read(pipe, 1 << 16)
            if not chunk:
                return {}
            buffer += chunk
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "stage" not in message:
                    return dict(message)
                progress(message["stage"], message["done"], message["total"])
    return None


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _tail(printed: Any) -> str:
    size = printed.seek(0, os.SEEK_END)
    printed.seek(max(size - _TAIL_BYTES, 0))
    return str(printed.read().decode("utf-8", "replace"))


def _said(printed: Any) -> str:
    lines = [line for line in _tail(printed).splitlines() if line.strip()]
    return f"last output: {lines[-1][:200]}\n  " if lines else ""


def _how_it_ended(code: int) -> str:
    if code == -signal.SIGKILL:
        return "the model's process was killed, most likely for want of memory"
    if code < 0:
        return f"the model's process crashed ({signal.Signals(-code).name})"
    return f"the model's process exited by itself with status {code}"


def _error(described: dict[str, Any]) -> Exception:
    if described["traceback"]:
        return CrashedChild(described["what"], described["traceback"])
    return ERRORS[described["kind"]](
        described["what"], where=described["where"], next_step=described["next_step"]
    )
