"""The table of ops in CSV and Parquet, and the page's pictures."""

import csv
import io
import itertools

import pytest

from auditor.contract import Audit, OpTable
from auditor.report.series import depth_curve, roofline
from auditor.report.table import render_csv, render_parquet


def table(rows: int, text: str = "") -> OpTable:
    error = tuple(1e-4 * 10**i for i in range(rows))
    return OpTable(
        texts=("aten.mm.default", "matmul", "forward", text or "a", "Linear", "net.py"),
        op=(0,) * rows,
        family=(1,) * rows,
        phase=(2,) * rows,
        module=(3,) * rows,
        type=(4,) * rows,
        file=(5,) * rows,
        line=(7,) * rows,
        forward=(None,) * rows,
        flops=(1000,) * rows,
        bytes=(4000,) * rows,
        absmax=(2.5,) * rows,
        fp16_error=error,
        fp16_local=error,
        bf16_error=(*error[:-1], None),
        bf16_local=error,
    )


def with_ops(audit: Audit, rows: int, text: str = "") -> Audit:
    return audit.model_copy(update={"ops": table(rows, text)})


def test_csv_has_a_row_an_op_and_no_formulas(audit: Audit) -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv(with_ops(audit, 3, "=HYPERLINK(1)")))))
    assert len(rows) == 3 and rows[0]["op"] == "aten.mm.default" and rows[2]["bf16_error"] == ""
    assert rows[0]["module"] == "'=HYPERLINK(1)" and float(rows[1]["fp16_error"]) == 1e-3
    assert render_csv(audit).count("\n") == 1  # the header alone


def test_parquet_holds_the_same_rows(audit: Audit) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = parquet.read_table(io.BytesIO(render_parquet(with_ops(audit, 3)))).to_pylist()
    assert [r["row"] for r in rows] == [0, 1, 2] and rows[2]["bf16_error"] is None
    assert rows[0]["line"] == 7 and rows[0]["absmax"] == 2.5


def test_the_depth_curve_falls_a_decade_a_decade(audit: Audit) -> None:
    curve = depth_curve(table(4))  # errors 1e-4, 1e-3, 1e-2, 1e-1
    assert curve is not None and "10 % in FP16" in curve.description
    heights = [float(p.split(",")[1]) for p in curve.fp16.split()]
    steps = {round(a - b) for a, b in itertools.pairwise(heights)}
    assert steps == {150}  # 90 % of the drawing over six decades
    assert depth_curve(None) is None and depth_curve(table(2)) is None


def test_the_roofline_says_what_bounds_a_layer(audit: Audit) -> None:
    target = audit.target.model_copy(
        update={"bandwidth": 1e12, "product_flops": {"fp32": 2e13, "fp16": 3e14}}
    )
    picture = roofline(with_ops(audit, 3).model_copy(update={"target": target}))
    assert picture is not None
    [dot] = picture.dots  # 0.25 FLOP a byte, far left of the ridge at 20
    assert dot.kind == "memory" and "0.25 FLOP per byte" in dot.label
    assert [r.kind for r in picture.roofs] == ["fp32", "fp16"]
    assert roofline(with_ops(audit, 3)) is None  # an audit without the target's peaks
