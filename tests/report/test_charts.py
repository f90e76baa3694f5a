"""Geometry anyone can work out by hand."""

from auditor.contract import Audit, CurvePoint, Histogram, LossScale
from auditor.report import charts


def _scale(audit: Audit, *points: tuple[int, float, float]) -> LossScale:
    curve = tuple(CurvePoint(log2=k, overflow=o, underflow=u) for k, o, u in points)
    return audit.loss_scale.model_copy(update={"curve": curve})


def test_curve_positions(audit: Audit) -> None:
    curve = charts.scale_curve(_scale(audit, (0, 0.0, 1.0), (32, 1e-3, 0.0)))
    assert curve is not None
    # A share of 1 lies at 4 %, each decade 14 % lower, and nothing at all at 97 %.
    assert curve.underflow == "0.0,40.0 1000.0,970.0"
    assert curve.overflow == "0.0,970.0 1000.0,460.0"
    assert curve.initial is not None and curve.initial.at == 50.0  # 2^16 of 2^0..2^32
    assert curve.safe is not None and (curve.safe.at, curve.safe.end) == (28.12, 56.25)  # 2^9..2^18


def test_no_curve_without_points(audit: Audit) -> None:
    assert charts.scale_curve(_scale(audit)) is None


def test_histogram_marks_fp16(audit: Audit) -> None:
    histogram = Histogram(
        name="x", role="activation", module="", op=None, start=0, counts=(1, 0, 7), zeros=2, nonfinite=0,
        absmax=7.0, why="",
    )  # fmt: skip
    picture = charts.histogram_picture(histogram)
    assert (picture.axis.low, picture.axis.high) == (-26, 18)  # 44 binades
    assert picture.axis.normal.at == round(100 * 12 / 44, 2)
    assert picture.axis.normal.end == round(100 * 42 / 44, 2)
    assert picture.bars.count("M") == 2  # an empty binade has no bar
    assert picture.zeros == "20 %"
    assert picture.description == "Values from 2⁰ to 2², most of them near 2²."


def test_ladder_keeps_the_layers_nearest_to_the_ends(audit: Audit) -> None:
    near = audit.ranges[0].model_copy(update={"module": "near", "high": 15})
    far = [
        audit.ranges[0].model_copy(update={"module": f"far{i}", "median": 0, "high": 1}) for i in range(40)
    ]
    ladder = charts.range_ladder(audit.model_copy(update={"ranges": (*far, near)}))
    assert ladder is not None
    assert "near" in [row.module for row in ladder.rows]
    assert (len(ladder.rows), ladder.left_out) == (24, 17)


def test_memory_bars_add_up(audit: Audit) -> None:
    rows = {row.mode: row for row in charts.memory_rows(audit)}
    assert audit.memory is not None
    largest = max(item.total for item in audit.memory.modes.values())
    assert abs(rows["FP32"].parts[-1].end - 100 * audit.memory.modes["fp32"].total / largest) < 0.05
    assert list(rows) == ["FP32", "FP16 autocast", "pure FP16", "the plan"]


def test_strip_covers_every_layer(audit: Audit) -> None:
    strip = charts.precision_strip(audit)
    assert [span.label for span in strip] == ["FP16: 6 layers", "FP32: 7 layers"]
    assert abs(strip[-1].end - 100) < 0.05
