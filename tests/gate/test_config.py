"""The configuration: what wins, where it came from, and what is wrong with it."""

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import UsageProblem
from auditor.gate.config import find_document, read_document, settings_of
from auditor.gate.policy import ModelSettings, Policy

TEXT = """
target = "V100-SXM2-32GB"
[policy]
fail_on = "medium"
max-memory = "40GB"
severity = { AMP101 = "low" }
[[policy.ignore]]
rule = "AMP104"
reason = "accepted by the team"
[models.bert]
model = "models/bert.py"
target = "A100-SXM4-80GB"
[models.bert.policy]
min_speedup = 1.5
[[models.bert.policy.ignore]]
rule = "AMP105"
reason = "of this model"
expires = 2030-01-31
"""


def write(folder: Path, text: str, name: str = "ampaudit.toml") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_the_models_section_wins_over_the_table_and_the_command_over_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = read_document(write(tmp_path, TEXT))
    settings = settings_of(document, "bert", {"policy.fail_on": ("low", "--fail-on")})
    model = settings.model
    assert (model.model, model.target, model.seed) == ("models/bert.py", "A100-SXM4-80GB", 0)
    assert (model.policy.fail_on, model.policy.min_speedup, model.policy.max_memory) == ("low", 1.5, "40GB")
    assert [i.rule for i in model.policy.ignore] == ["AMP104", "AMP105"]
    origins = settings.origins
    assert origins["target"] == "ampaudit.toml: [models.bert]"
    assert origins["policy.max_memory"] == "ampaudit.toml"
    assert origins["policy.fail_on"] == "--fail-on" and origins["seed"] == "default"


def test_paths_count_from_the_files_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, TEXT)
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    assert settings_of(find_document(Path.cwd()), "bert", {}).model.model == "../models/bert.py"


def test_a_pyproject_without_our_table_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, '[project]\nname = "x"\n', "pyproject.toml")
    assert read_document(tmp_path / "pyproject.toml").file is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tarrget = 'x'\n", "unknown key 'tarrget' (did you mean target"),
        ("[models.a]\nmodel='a.py'\n[models.a.policy]\nmax_memry='1GB'\n", "did you mean max_memory"),
        ("[[policy.ignore]]\nrule='AMP101'\nreson='because'\n", "did you mean reason"),
        ("[[policy.ignore]]\nrule='AMP101'\n", "policy.ignore.0.reason: Field required"),
        ("[policy]\nmax_memory='plenty'\n", "amount of memory"),
        ("[policy]\nmax_fp32_time_share=40\n", "less than or equal to 1"),
        ("[policy]\nprecisions=['fp8']\n", "'fp16', 'bf16', 'tf32' or 'fp32'"),
        ("[models.a]\ntarget='x'\n", "names no model"),
        ("models = 3\n", "one table per model"),
        ("= 3", "not TOML"),
    ],
)
def test_what_is_wrong_is_said_at_its_key(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        read_document(write(tmp_path, text))
    assert complaint in str(problem.value) and "ampaudit.toml" in str(problem.value)


@given(st.text(string.ascii_lowercase + "_-", min_size=1, max_size=12), st.integers())
def test_no_key_but_ours_is_taken(tmp_path_factory: pytest.TempPathFactory, key: str, value: int) -> None:
    ours = {*ModelSettings.model_fields, *Policy.model_fields, "models"}
    file = write(tmp_path_factory.mktemp("config"), f"{key} = {value}\n")
    if key.replace("-", "_") not in ours:
        with pytest.raises(UsageProblem, match="unknown key"):
            read_document(file)
