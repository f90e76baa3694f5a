"""The child process: runs the user's code and the audit, and reports over a pipe of its own.

    python -m auditor.subject.worker REQUEST_JSON PIPE_FD MEMORY_LIMIT

Each line on the pipe is one JSON object: {"stage": ..., "done": ..., "total": ...} for progress, then
{"audit": ...} or {"error": ...}. The user's prints go to stdout and stderr, which nobody parses.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from typing import Any

from auditor.errors import AuditError, InternalProblem, SubjectProblem, memory_problem, out_of_memory, text_of
from auditor.subject.limits import limit_memory
from auditor.subject.reads import record_reads
from auditor.subject.request import AuditRequest


def main(argv: list[str]) -> int:
    request_json, pipe, memory = argv
    channel = os.fdopen(int(pipe), "w", encoding="utf-8", buffering=1)

    def send(message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):
            channel.write(json.dumps(message) + "\n")
            channel.flush()

    limit_memory(int(memory))
    request = AuditRequest.model_validate_json(request_json)
    files = record_reads()
    try:
        from auditor.pipeline import audit

        result = audit(
            request, lambda stage, done, total: send({"stage": stage, "done": done, "total": total})
        )
        subject = result.subject.model_copy(update={"files": files()})
        send({"audit": result.model_copy(update={"subject": subject}).model_dump_json()})
    except AuditError as error:
        send(_described(error))
    except SystemExit:
        send(_described(SubjectProblem("the model called sys.exit", where=request.model)))
    except Exception as error:
        if out_of_memory(error):
            send(_described(memory_problem()))
        else:
            send(
                _described(
                    InternalProblem(f"{type(error).__name__}: {text_of(error)}"), traceback.format_exc()
                )
            )
    # The user's code may have left threads or exit handlers behind; nothing of theirs matters any more.
    sys.stdout.flush()
    os._exit(0)


def _described(error: AuditError, trace: str | None = None) -> dict[str, Any]:
    return {
        "error": {
            "kind": type(error).__name__,
            "what": error.what,
            "where": error.where,
            "next_step": error.next_step,
            "traceback": trace,
        }
    }


if __name__ == "__main__":
    main(sys.argv[1:])
