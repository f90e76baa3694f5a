"""The table of ops as the page embeds it: the audit's columns, the file names shortened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from auditor.contract import Audit
from auditor.report import words

_NUMBERS = ("line", "flops", "absmax", "fp16_error", "fp16_local", "bf16_error")


def op_columns(audit: Audit) -> dict[str, Any]:
    """Columns of equal length; texts stand once in `texts`. Numbers JSON has no word for are texts."""
    ops = audit.ops
    if ops is None:
        return {}
    source = words.source_file(audit.subject.source)
    files = set(ops.file)
    texts = [words.short_path(t, source) if i in files and t else t for i, t in enumerate(ops.texts)]
    columns = {name: getattr(ops, name) for name in ("op", "family", "phase", "module", "file")}
    return {"texts": texts, **columns, **{name: _plain(getattr(ops, name)) for name in _NUMBERS}}


def _plain(column: Sequence[float | None]) -> list[float | str | None]:
    return [
        ("NaN" if math.isnan(x) else "Infinity") if isinstance(x, float) and not math.isfinite(x) else x
        for x in column
    ]
