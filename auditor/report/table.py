"""Every op as one row: CSV for spreadsheets, Parquet for data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from auditor.contract import Audit, OpTable
from auditor.errors import UsageProblem

_TEXTS = ("op", "family", "phase", "module", "type", "file")
_NUMBERS = (
    "line",
    "forward",
    "flops",
    "bytes",
    "absmax",
    "fp16_error",
    "fp16_local",
    "bf16_error",
    "bf16_local",
)
_COLUMNS = ("row", *_TEXTS, *_NUMBERS)
CSV_HEAD = ",".join(_COLUMNS)
# A spreadsheet takes a cell that starts so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _rows(ops: OpTable) -> Iterator[dict[str, Any]]:
    for row in range(len(ops.op)):
        texts = {name: ops.texts[getattr(ops, name)[row]] for name in _TEXTS}
        yield {"row": row, **texts, **{name: getattr(ops, name)[row] for name in _NUMBERS}}


def render_csv(audit: Audit) -> str:
    """RFC 4180 with a header; an empty cell is a number nobody knows."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS)
    writer.writeheader()
    for row in _rows(audit.ops) if audit.ops is not None else ():
        writer.writerow(
            {k: f"'{v}" if isinstance(v, str) and v.startswith(_FORMULA) else v for k, v in row.items()}
        )
    return out.getvalue()


def require_pyarrow() -> None:
    """Raises UsageProblem where Parquet cannot be written."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise UsageProblem(
            "parquet needs pyarrow",
            where="--format",
            next_step='pip install "ampaudit[parquet]", or --format csv',
        ) from None


def render_parquet(audit: Audit) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        **dict.fromkeys(_TEXTS, pa.string()),
        **dict.fromkeys(("row", "line", "forward", "flops", "bytes"), pa.int64()),
    }
    schema = pa.schema(
        [(name, types.get(name, pa.float64())) for name in _COLUMNS],
        metadata={"writer": f"ampaudit {audit.tool.version}", "schema_version": audit.schema_version},
    )
    rows = list(_rows(audit.ops)) if audit.ops is not None else []
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), out)
    return out.getvalue()
