"""`[tool.ampaudit]` of pyproject.toml, or ampaudit.toml: a section per model, every value with its origin."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from auditor.errors import UsageProblem, near_names
from auditor.gate.policy import Ignore, ModelSettings, Policy

_PATHS = ("model", "batch", "checkpoint", "device_file", "rules", "baseline")


@dataclass(frozen=True)
class Document:
    """A configuration as it is written; `file` is None where there is none."""

    file: Path | None = None
    prefix: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """The settings of one model, and where each value came from by its dotted key."""

    name: str
    model: ModelSettings
    origins: Mapping[str, str]


def find_document(start: Path) -> Document:
    """The nearest configuration in `start` or above it, ampaudit.toml before pyproject.toml."""
    for folder in (start, *start.parents):
        if (folder / "ampaudit.toml").is_file():
            return read_document(folder / "ampaudit.toml")
        project = folder / "pyproject.toml"
        if project.is_file():
            document = read_document(project)
            if document.file is not None:
                return document
    return Document()


def read_document(file: Path) -> Document:
    """Raises UsageProblem naming the key that is wrong. A pyproject.toml without our table reads as none."""
    try:
        text = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"cannot be read: {error}", where=str(file)) from None
    except tomllib.TOMLDecodeError as error:
        raise UsageProblem(f"not TOML: {error}", where=str(file)) from None
    prefix = ""
    if file.name == "pyproject.toml":
        text = text.get("tool", {}).get("ampaudit")
        prefix = "tool.ampaudit"
        if text is None:
            return Document()
    if not isinstance(text, dict):
        raise UsageProblem("must be a table", where=f"{file}: {prefix}")
    defaults = _spelled(text)
    models = defaults.pop("models", {})
    if not isinstance(models, dict) or not all(isinstance(m, dict) for m in models.values()):
        raise UsageProblem("must hold one table per model", where=f"{file}: {_dotted(prefix, 'models')}")
    document = Document(file, prefix, defaults, {name: _spelled(m) for name, m in models.items()})
    for name in (*document.models, None):  # wrong keys are told even where the command asks for another model
        settings_of(document, name, {} if name else {"model": ("-", "")})
    return document


def _spelled(table: Mapping[str, Any]) -> dict[str, Any]:
    """max-memory and max_memory are the same key; names of models and rules are left alone."""
    spelled = {key.replace("-", "_"): value for key, value in table.items()}
    if isinstance(spelled.get("policy"), dict):
        spelled["policy"] = {key.replace("-", "_"): value for key, value in spelled["policy"].items()}
    return spelled


def settings_of(document: Document, name: str | None, given: Mapping[str, tuple[Any, str]]) -> Settings:
    """Defaults, the file's table, the model's section and what was `given` (key -> value, origin) in that
    order, later ones winning; tables are merged, lists of suppressions joined. Raises UsageProblem."""
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    layers = [(document.defaults, document.prefix)]
    if name is not None and name in document.models:
        layers.append((document.models[name], _dotted(document.prefix, f"models.{name}")))
    for table, where in layers:
        _merge(
            merged,
            origins,
            _placed(table, document),
            f"{_shown(document)}: [{where}]" if where else _shown(document),
        )
    for key, (value, origin) in given.items():
        _put(merged, origins, key, value, origin)
    where = layers[-1][1]
    if "model" not in merged:
        raise UsageProblem(
            f"[{where}] names no model", where=_shown(document), next_step='add model = "path/to/model.py"'
        )
    try:
        model = ModelSettings.model_validate(merged)
    except ValidationError as error:
        raise _problem(error, document, where, origins) from None
    return Settings(name or str(merged["model"]), model, {**_default_origins(model, origins), **origins})


def _merge(merged: dict[str, Any], origins: dict[str, str], table: Mapping[str, Any], where: str) -> None:
    for key, value in table.items():
        if key == "policy" and isinstance(value, dict):
            own = merged.setdefault("policy", {})
            for part, demanded in value.items():
                if part == "ignore" and isinstance(demanded, list):
                    own[part] = [*own.get(part, []), *demanded]
                elif part == "severity" and isinstance(demanded, dict):
                    own[part] = {**own.get(part, {}), **demanded}
                else:
                    own[part] = demanded
                origins[f"policy.{part}"] = where
        else:
            merged[key] = value
            origins[key] = where


def _put(merged: dict[str, Any], origins: dict[str, str], key: str, value: Any, origin: str) -> None:
    table, _, part = key.rpartition(".")
    (merged.setdefault(table, {}) if table else merged)[part] = value
    origins[key] = origin


def _placed(table: Mapping[str, Any], document: Document) -> dict[str, Any]:
    """Paths of the file count from its folder; they are kept as short as they can be told from here."""
    placed = dict(table)
    for key in _PATHS:
        value = placed.get(key)
        if isinstance(value, str):
            placed[key] = _from_here(value, document, always=key != "model")
        elif isinstance(value, list):
            placed[key] = [_from_here(v, document, always=True) if isinstance(v, str) else v for v in value]
    return placed


def _from_here(path: str, document: Document, *, always: bool) -> str:
    file = path.rpartition(":")[0] or path
    if (
        document.file is None
        or os.path.isabs(path)
        or not (always or file.endswith(".py") or path.endswith(".py"))
    ):
        return path
    return os.path.relpath(document.file.parent / path)


def _problem(
    error: ValidationError, document: Document, where: str, origins: Mapping[str, str]
) -> UsageProblem:
    """The first thing wrong, at its key, with near names where the key is unknown."""
    found = error.errors()
    first = next((e for e in found if e["type"] == "extra_forbidden"), found[0])
    location = [str(part) for part in first["loc"]]
    key = ".".join(location)
    place = origins.get(key) or origins.get(".".join(location[:2])) or origins.get(location[0]) or where
    if first["type"] == "extra_forbidden":
        known: dict[str, Any] = dict(ModelSettings.model_fields)
        if location[:1] == ["policy"]:
            known = dict(Ignore.model_fields if "ignore" in location else Policy.model_fields)
        elif len(location) == 1:
            known = {**known, "models": None}
        return UsageProblem(f"unknown key {location[-1]!r}{near_names(location[-1], known)}", where=place)
    message = first["msg"].removeprefix("Value error, ")
    return UsageProblem(f"{key}: {message}", where=place)


def _default_origins(model: BaseModel, origins: Mapping[str, str], prefix: str = "") -> dict[str, str]:
    found = {}
    for key, value in model:
        dotted = prefix + key
        if isinstance(value, BaseModel):
            found.update(_default_origins(value, origins, dotted + "."))
        elif dotted not in origins:
            found[dotted] = "default"
    return found


def _dotted(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _shown(document: Document) -> str:
    if document.file is None:
        return "the command line"
    near = os.path.relpath(document.file)
    return str(document.file) if near.startswith("../../..") else near
