"""Inputs described on the command line."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import UsageProblem
from auditor.subject.inputspec import InputSpec, make_input, parse_input


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2x3x224x224:float32", InputSpec(None, (2, 3, 224, 224), "float32", None, None)),
        ("ids=4x128:int64[0,30522]", InputSpec("ids", (4, 128), "int64", 0, 30522)),
        ("8", InputSpec(None, (8,), "float32", None, None)),
        ("scalar:float64[-1,1]", InputSpec(None, (), "float64", -1, 1)),
        ("mask=2x5:bool", InputSpec("mask", (2, 5), "bool", None, None)),
    ],
)
def test_what_is_understood(text: str, expected: InputSpec) -> None:
    assert parse_input(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("2x3x", "   ^ expected"),
        ("axb", "^ expected"),
        ("2x3:flot32", "unknown dtype 'flot32'"),
        ("2x3:int64[5,5]", "is empty"),
        ("2x3:int64[0.5,2]", "not integer"),
        ("2x3:int64[a,2]", "'a' in"),
        ("", "expected"),
    ],
)
def test_what_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(UsageProblem, match=r"(?s)" + complaint.replace("[", r"\[").replace("^", r"\^")):
        parse_input(text)


@given(
    st.lists(st.integers(0, 4), max_size=4),
    st.sampled_from(["int8", "int32", "int64", "uint8"]),
    st.integers(0, 50),
    st.integers(1, 50),
)
def test_integers_stay_in_their_range(shape: list[int], dtype: str, low: int, span: int) -> None:
    text = ("x".join(map(str, shape)) or "scalar") + f":{dtype}[{low},{low + span}]"
    tensor = make_input(parse_input(text), torch.Generator().manual_seed(0))
    assert tuple(tensor.shape) == tuple(shape) and str(tensor.dtype) == f"torch.{dtype}"
    assert bool(((tensor >= low) & (tensor < low + span)).all())


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_with_a_reason(text: str) -> None:
    try:
        parse_input(text)
    except UsageProblem as problem:
        assert problem.where == "--input"


def test_the_seed_decides() -> None:
    spec = parse_input("4x4")
    a, b = (make_input(spec, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(a, b)
