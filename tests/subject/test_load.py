"""What counts as a model, its inputs and its loss, and what a user is told otherwise."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from auditor.errors import SubjectProblem, UsageProblem
from auditor.subject.load import Subject, load_subject, loss_of
from auditor.subject.request import AuditRequest

NET = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layer = nn.Linear(4, width)
    def forward(self, x, scale=1.0):
        return self.layer(x) * scale
"""


def load(folder: Path, code: str, name: str = "subject_under_test.py", **request: object) -> Subject:
    path = folder / name
    path.write_text(code)
    suffix = f":{request.pop('entry')}" if "entry" in request else ""
    return load_subject(AuditRequest(model=f"{path}{suffix}", **request))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "entry"),
    [
        (NET + "def build_model(): return Net()\n", "build_model()"),
        (NET + "model = Net()\n", "model"),
        (NET, "Net()"),
    ],
)
def test_where_the_model_is_found(tmp_path: Path, code: str, entry: str) -> None:
    subject = load(tmp_path, code)
    assert type(subject.model).__name__ == "Net" and subject.entry == entry
    assert subject.batches == () and subject.inputs_from == "none"


def test_a_name_may_be_a_class_a_factory_or_a_model(tmp_path: Path) -> None:
    code = NET + "class Other(Net): pass\nthing = Net()\ndef make(): return Other()\n"
    assert type(load(tmp_path, code, entry="Other").model).__name__ == "Other"
    assert type(load(tmp_path, code, entry="make").model).__name__ == "Other"
    assert load(tmp_path, code, entry="thing").entry == "thing"


@pytest.mark.parametrize(
    ("inputs", "args", "kwargs"),
    [
        ("(torch.ones(2, 4), 2.0)", 2, []),
        ("torch.ones(2, 4)", 1, []),
        ("{'x': torch.ones(2, 4)}", 0, ["x"]),
        ("type('I', (), {'args': (torch.ones(2, 4),), 'kwargs': {'scale': 2.0}})()", 1, ["scale"]),
    ],
)
def test_inputs_of_every_form(tmp_path: Path, inputs: str, args: int, kwargs: list[str]) -> None:
    subject = load(tmp_path, NET + f"def example_inputs(): return {inputs}\n")
    (given,) = subject.batches
    assert (len(given[0]), list(given[1])) == (args, kwargs)


def test_losses_take_what_they_ask_for(tmp_path: Path) -> None:
    inputs = "def example_inputs(): return (torch.full((2, 4), 3.0),)\n"
    own = load(tmp_path, NET + inputs + "def loss(output): return output.sum()\n")
    with_inputs = load(tmp_path, NET + inputs + "def loss(output, x): return x.sum()\n")
    none = load(tmp_path, NET + inputs)
    output = torch.ones(2, 4, requires_grad=True)
    assert float(loss_of(own, output, own.batches[0])[0]) == 8.0
    assert float(loss_of(with_inputs, output, with_inputs.batches[0])[0]) == 24.0
    assert loss_of(none, output, none.batches[0])[1] == "surrogate"
    assert loss_of(none, {"loss": output.mean(), "logits": output}, none.batches[0])[1] == "model_output"
    assert loss_of(none, torch.ones(2, dtype=torch.long), none.batches[0]) == (None, "none")


def test_the_files_loss_scale_is_taken(tmp_path: Path) -> None:
    assert load(tmp_path, NET + "LOSS_SCALE = 256\n").loss_scale == 256.0
    assert load(tmp_path, NET).loss_scale is None


def test_batches_from_files(tmp_path: Path) -> None:
    torch.save((torch.ones(2, 4),), tmp_path / "a.pt")
    np.savez(tmp_path / "b.npz", x=np.ones((3, 4), dtype=np.float32))
    save_file({"x": torch.ones(5, 4)}, tmp_path / "c.safetensors")
    paths = tuple(str(tmp_path / n) for n in ("a.pt", "b.npz", "c.safetensors"))
    subject = load(tmp_path, NET, batches=paths)
    shapes = [next(iter([*args, *kwargs.values()])).shape[0] for args, kwargs in subject.batches]
    assert shapes == [2, 3, 5] and list(subject.batches[1][1]) == ["x"]


def test_checkpoints_fit_or_are_refused_by_name(tmp_path: Path) -> None:
    net = load(tmp_path, NET).model
    good = {"layer.weight": torch.ones(4, 4), "layer.bias": torch.zeros(4)}
    torch.save({"state_dict": good}, tmp_path / "good.pt")
    assert bool((load(tmp_path, NET, checkpoint=str(tmp_path / "good.pt")).model.layer.weight == 1).all())
    assert net is not None
    torch.save({"layer.wieght": torch.ones(4, 4), "layer.bias": torch.zeros(5)}, tmp_path / "bad.pt")
    with pytest.raises(UsageProblem, match=r"missing layer\.weight \(did you mean layer\.wieght"):
        load(tmp_path, NET, checkpoint=str(tmp_path / "bad.pt"))
    (tmp_path / "broken.pt").write_bytes(b"no checkpoint")
    with pytest.raises(UsageProblem, match="cannot read"):
        load(tmp_path, NET, checkpoint=str(tmp_path / "broken.pt"))


@pytest.mark.parametrize(
    ("code", "kind", "complaint"),
    [
        ("import nothing_of_that_name\n", SubjectProblem, "No module named 'nothing_of_that_name'"),
        ("def build_model(:\n", SubjectProblem, r"subject_under_test\.py:1: .* failed"),
        ("import sys\nsys.exit(3)\n", SubjectProblem, "called sys.exit"),
        ("x = 1\n", UsageProblem, "no model found"),
        (NET + "class Second(nn.Module): pass\n", UsageProblem, "several models"),
        (NET.replace("width=4", "width"), UsageProblem, "need constructor arguments"),
        ("def build_model(): return 3\n", SubjectProblem, "returned a int"),
        ("def build_model(): return 1 / 0\n", SubjectProblem, "ZeroDivisionError"),
        (NET + "def example_inputs(): return 5\n", SubjectProblem, r"example_inputs\(\) returned a int"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, code: str, kind: type[Exception], complaint: str) -> None:
    with pytest.raises(kind, match=complaint):
        load(tmp_path, code)


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(NET)
    with pytest.raises(UsageProblem, match=r"no such file \(did you mean model\.py"):
        load_subject(AuditRequest(model=str(tmp_path / "modle.py")))


def test_an_error_shows_the_users_frames_alone(tmp_path: Path) -> None:
    code = (
        NET + "def helper():\n    return torch.ones(2) @ torch.ones(3)\ndef build_model(): return helper()\n"
    )
    with pytest.raises(SubjectProblem) as caught:
        load(tmp_path, code)
    assert "subject_under_test.py:11 in helper" in str(caught.value)
    assert "auditor" not in str(caught.value).replace(str(tmp_path), "")
