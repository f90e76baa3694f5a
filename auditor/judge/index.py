"""The rules' ids and texts, read without compiling a condition."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from auditor.errors import UsageProblem


def rule_index(directory: str | None = None) -> dict[str, dict[str, Any]]:
    """Each shipped rule's file as it is written, by its id, with those of `directory` beside them.

    Raises UsageProblem when the directory cannot be read.
    """
    folders: list[Any] = [files("auditor.rules"), *([Path(directory)] if directory else [])]
    found: list[dict[str, Any]] = []
    for folder in folders:
        try:
            found += _rules(folder.iterdir())
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise UsageProblem(f"no rules can be read here: {error}", where=str(directory)) from None
    return {rule["id"]: rule for rule in sorted(found, key=lambda rule: str(rule["id"]))}


def _rules(entries: Iterable[Any]) -> list[dict[str, Any]]:
    return [
        tomllib.loads(file.read_text(encoding="utf-8"))
        for file in entries
        if file.name.endswith(".toml") and file.name != "ops.toml"
    ]


def rule_names(directory: str | None = None) -> set[str]:
    """Every id and every name."""
    return {name for rule in rule_index(directory).values() for name in (rule["id"], rule["name"])}
