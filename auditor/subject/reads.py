"""Which of the user's files a model was built from, so that an unchanged one need not be audited again."""

from __future__ import annotations

import hashlib
import os
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

from auditor.contract import FileDigest

_LARGE = 64 << 20  # bytes; beyond, reading costs more than a second
_MOST = 2000


def digest_of(path: Path) -> str:
    """Raises OSError when it cannot be read."""
    stat = path.stat()
    if stat.st_size > _LARGE:
        return f"stat:{stat.st_size}:{stat.st_mtime_ns}"
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


def record_reads() -> Callable[[], tuple[FileDigest, ...]]:
    """Start noting the files this process opens; the result tells them with their digests.

    Empty when there are more than anyone would check again. A hook of `sys.addaudithook` cannot be taken
    off, so this is for a process of its own.
    """
    read: set[str] = set()
    written: set[str] = set()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and isinstance(arguments[2], int):
            (written if arguments[2] & (os.O_WRONLY | os.O_RDWR) else read).add(arguments[0])

    sys.addaudithook(hook)

    def digests() -> tuple[FileDigest, ...]:
        here = os.getcwd()
        paths = {os.path.abspath(os.path.join(here, p)) for p in (*read, *_modules())}
        own = sorted(p for p in paths - {os.path.abspath(p) for p in written} if _of_the_user(p))
        if len(own) > _MOST:
            return ()
        return tuple(FileDigest(path=p, digest=digest_of(Path(p))) for p in own)

    return digests


def _modules() -> Iterator[str]:
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield file


def _installed() -> tuple[str, ...]:
    """Folders of Python, of installed packages (told by their versions) and of ampaudit itself."""
    folders: list[str] = [
        sys.prefix,
        sys.base_prefix,
        *sysconfig.get_paths().values(),
        *site.getsitepackages(),
    ]
    ours = [str(Path(__file__).parents[1]), *(str(files(f"auditor.{room}")) for room in ("rules", "reports"))]
    return tuple({os.path.join(os.path.realpath(f), "") for f in (*folders, *ours)})


def _of_the_user(path: str) -> bool:
    real = os.path.realpath(path)
    inside = real.startswith(("/proc/", "/sys/", "/dev/", "/etc/", "/usr/lib", "/usr/share", *_installed()))
    library = "/site-packages/" in real or "/__pycache__/" in real or ".egg-info/" in real
    return not inside and not library and os.path.isfile(real)
