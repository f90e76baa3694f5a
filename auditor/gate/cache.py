"""Audits kept by what they depend on, so that an unchanged model is not run again.

An entry is found by the request, the versions of everything installed and ampaudit's own code; it counts only
while every file the model was built from still has its digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from auditor.contract import Audit, read_audit, write_audit
from auditor.subject.reads import digest_of
from auditor.subject.request import AuditRequest

_IGNORE_ME = "CACHEDIR.TAG"
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n"  # bford.info/cachedir: backups leave it out


def cache_folder() -> Path:
    """$AMPAUDIT_CACHE, else ampaudit in the user's cache folder (XDG)."""
    chosen = os.environ.get("AMPAUDIT_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ampaudit"


def key_of(request: AuditRequest) -> str:
    """Raises OSError when a file the request names cannot be read."""
    named = [Path(p) for p in (*request.batches, *([request.checkpoint] if request.checkpoint else []))]
    if request.device_file is not None:
        named.append(Path(request.device_file))
    if request.rules is not None:
        named += sorted(Path(request.rules).glob("*.toml"))
    described = {
        "request": request.model_dump(exclude={"command"}),
        "folder": os.getcwd(),
        "files": [(str(path), digest_of(path)) for path in named],
        "python": (sys.version, platform.platform(), os.cpu_count()),
        "gpus": (os.environ.get("CUDA_VISIBLE_DEVICES"), sorted(map(str, Path("/dev").glob("nvidia[0-9]*")))),
        "installed": sorted(_installed()),
        "ampaudit": _own_code(),
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def _installed() -> Iterator[str]:
    """name-version of every distribution, as the names of its metadata folders tell it."""
    for folder in sys.path:
        if os.path.isdir(folder):
            yield from (n for n in os.listdir(folder) if n.endswith((".dist-info", ".egg-info")))


def _own_code() -> str:
    stats = []
    for room in ("auditor", "auditor.rules"):
        for path in sorted(Path(str(files(room))).rglob("*")):
            if path.suffix in (".py", ".toml", ".h"):
                stat = path.stat()
                stats.append(f"{path.name}:{stat.st_size}:{stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(stats).encode()).hexdigest()


def look_up(key: str, folder: Path) -> Audit | None:
    """The kept audit, while nothing it depends on has changed."""
    try:
        audit = read_audit((folder / f"{key}.json").read_text(encoding="utf-8"))
        unchanged = all(digest_of(Path(f.path)) == f.digest for f in audit.subject.files)
    except (OSError, UnicodeDecodeError, ValidationError):
        return None
    return audit if unchanged and audit.subject.files else None


def keep(key: str, audit: Audit, folder: Path) -> None:
    """Store `audit`; a folder that cannot be written only costs the next run its time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _IGNORE_ME).write_text(_TAG, encoding="utf-8")
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as part:
            part.write(write_audit(audit))
        os.replace(part.name, folder / f"{key}.json")
    except OSError:
        return
