"""Limits for the process that runs the user's code."""

from __future__ import annotations

import os
import re

from auditor.errors import UsageProblem

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def physical_memory() -> int:
    """Bytes of RAM."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def parse_memory(text: str) -> int:
    """ "8GB", "512M", "80%" (of RAM) in bytes. Raises UsageProblem."""
    percent = re.fullmatch(r"(\d+(?:\.\d+)?)%", text.strip())
    if percent:
        return int(physical_memory() * float(percent[1]) / 100)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise UsageProblem(
            f"cannot read {text!r} as an amount of memory",
            where="--memory-limit",
            next_step="such as 8GB or 50%",
        )
    return int(float(match[1]) * _UNITS[match[2].upper()])


def limit_memory(limit: int) -> None:
    """Bound this process's private memory; allocations beyond it fail instead of dragging the machine down.

    RLIMIT_DATA counts private writable mappings (Linux 4.7 on), so that libraries' reserved address space
    does not count, as it would under RLIMIT_AS.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
