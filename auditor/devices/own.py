"""A user's own cards, from a file in the form of the catalogue."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import ValidationError

from auditor.devices.catalogue_reader import Device
from auditor.errors import UsageProblem

_EXAMPLE = "`ampaudit devices --show T4` prints an entry to start from"


def read_device_file(path: str) -> tuple[Device, ...]:
    """The `[[device]]` tables of a TOML file. Raises UsageProblem naming the entry and the key at fault."""
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"cannot be read: {error}", where=path) from None
    except tomllib.TOMLDecodeError as error:
        raise UsageProblem(f"not TOML: {error}", where=path) from None
    entries = document.get("device")
    if not isinstance(entries, list) or not entries or len(document) > 1:
        raise UsageProblem("must hold [[device]] tables and nothing else", where=path, next_step=_EXAMPLE)
    devices = []
    for number, entry in enumerate(entries, 1):
        try:
            devices.append(Device.model_validate(entry))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise UsageProblem(
                f"device {number}{': ' + key if key else ''}: {first['msg']}", where=path, next_step=_EXAMPLE
            ) from None
    return tuple(devices)
