from pathlib import Path

import pytest

from auditor.contract import Audit, read_audit

SAMPLE = Path(__file__).parents[1] / "report" / "sample_audit.json"


@pytest.fixture(scope="session")
def audit() -> Audit:
    return read_audit(SAMPLE.read_text(encoding="utf-8"))
