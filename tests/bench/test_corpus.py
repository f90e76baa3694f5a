"""No change may lose a case of the corpus: every one is audited and held against the baseline."""

import importlib.util
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest

from auditor.contract import Audit
from auditor.pipeline import audit
from auditor.subject.request import AuditRequest

BENCH = Path(__file__).parents[2] / "bench"


def bench_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("corpus_bench", BENCH / "corpus.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["corpus_bench"] = module
    spec.loader.exec_module(module)
    return module


corpus = bench_module()
CASES = sorted(p.name for p in corpus.ROOT.iterdir() if p.is_dir())


def audited(path: Path) -> Audit:
    for name in ("model", "fixed"):
        sys.modules.pop(name, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return audit(AuditRequest(model=str(path)), lambda *_: None)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_worse_than_the_baseline(case: str) -> None:
    assert corpus.against_baseline({case: corpus.score(corpus.ROOT / case, audited)}) == []


def test_every_case_is_in_the_baseline() -> None:
    import json

    assert sorted(json.loads(corpus.BASELINE.read_text())) == CASES
