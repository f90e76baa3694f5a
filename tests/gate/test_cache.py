from pathlib import Path

import pytest

from auditor.contract import Audit, FileDigest
from auditor.gate.cache import keep, key_of, look_up
from auditor.subject.reads import digest_of
from auditor.subject.request import AuditRequest


def test_an_entry_counts_while_its_files_are_unchanged(tmp_path: Path, audit: Audit) -> None:
    source = tmp_path / "net.py"
    source.write_text("a = 1\n")
    files = (FileDigest(path=str(source), digest=digest_of(source)),)
    kept = audit.model_copy(update={"subject": audit.subject.model_copy(update={"files": files})})
    keep("key", kept, tmp_path / "cache")
    assert look_up("key", tmp_path / "cache") == kept
    assert look_up("other", tmp_path / "cache") is None
    source.write_text("a = 2\n")
    assert look_up("key", tmp_path / "cache") is None


def test_an_audit_that_names_no_files_or_is_broken_is_not_taken(tmp_path: Path, audit: Audit) -> None:
    keep("key", audit, tmp_path)
    assert look_up("key", tmp_path) is None
    (tmp_path / "key.json").write_text("{")
    assert look_up("key", tmp_path) is None


def test_the_key_follows_the_request_and_what_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    weights = tmp_path / "weights.pt"
    weights.write_bytes(b"1")
    request = AuditRequest(model="net.py", checkpoint=str(weights))
    first = key_of(request)
    assert first == key_of(request.model_copy(update={"command": ("ampaudit", "other")}))
    assert first != key_of(request.model_copy(update={"seed": 1}))
    weights.write_bytes(b"2")
    assert first != key_of(request)
