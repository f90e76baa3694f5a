"""Running the user's code: what it raises becomes one message with the user's own frames."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from auditor.errors import SubjectProblem, UsageProblem, memory_problem, out_of_memory, text_of


def user_traceback(error: BaseException) -> str:
    """The last user frames of an exception as "file:line in function" lines, ours and torch's left out."""
    package = str(Path(__file__).parent.parent)
    library = str(Path(torch.__file__).parent)
    frames = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if not f.filename.startswith((package, library, "<frozen"))
    ]
    lines = [f"    {f.filename}:{f.lineno} in {f.name}: {f.line or ''}".rstrip(": ") for f in frames[-6:]]
    return "\n".join(lines)


def guarded(call: Callable[[], Any], doing: str, where: str) -> Any:
    """Run the user's code; what it raises becomes one SubjectProblem with the user's own frames."""
    try:
        return call()
    except (SubjectProblem, UsageProblem):
        raise
    except SyntaxError as error:
        place = f"{error.filename}:{error.lineno}" if error.filename else where
        raise SubjectProblem(f"{doing} failed: {error.msg}", where=place) from error
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        if out_of_memory(error):
            raise memory_problem(where) from error
        kind = f"{type(error).__name__}: {text_of(error)}"
        if isinstance(error, SystemExit):
            kind = "it called sys.exit"
        frames = user_traceback(error)
        raise SubjectProblem(
            f"{doing} failed: {kind}" + (f"\n{frames}" if frames else ""), where=where
        ) from error
