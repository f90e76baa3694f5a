"""What can go wrong that is not our bug, as one message: what, where, what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class AuditError(Exception):
    """Ends the command with `exit_status` and no traceback. `where` is a file, line or option."""

    exit_status: ClassVar[int] = 4

    def __init__(self, what: str, *, where: str | None = None, next_step: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.next_step = next_step

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  {self.next_step}" if self.next_step else text


class UsageProblem(AuditError):
    """Wrong use or configuration."""

    exit_status = 2


class SubjectProblem(AuditError):
    """The model could not be loaded or run."""

    exit_status = 3


class InternalProblem(AuditError):
    """A bug of ours."""

    exit_status = 4


ERRORS: dict[str, type[AuditError]] = {c.__name__: c for c in (UsageProblem, SubjectProblem, InternalProblem)}


def text_of(error: BaseException) -> str:
    """What an exception of the user's code says, cut to a readable length; "" if it cannot be told."""
    try:
        text = str(error)
    except Exception:  # a __str__ that raises must not end the audit
        return ""
    return text if len(text) <= 2000 else f"{text[:2000]}..."


def out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed: Python's own error, or the RuntimeError of torch's CPU allocator."""
    return isinstance(error, MemoryError) or "can't allocate memory" in text_of(error)


def memory_problem(where: str | None = None) -> SubjectProblem:
    return SubjectProblem(
        "the model needs more memory than the limit allows",
        where=where,
        next_step="raise --memory-limit, or give smaller inputs",
    )


def near_names(wanted: str, known: Iterable[str]) -> str:
    """ " (did you mean a, b?)", or "" when nothing is near."""
    near = difflib.get_close_matches(wanted, list(known), n=3, cutoff=0.5)
    return f" (did you mean {', '.join(near)}?)" if near else ""
