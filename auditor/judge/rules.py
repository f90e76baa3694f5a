"""Rules as data: reading and checking rules/*.toml."""

from __future__ import annotations

import string
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import cel
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from auditor.contract import Mode, Precision, Severity
from auditor.errors import UsageProblem
from auditor.judge.vocabulary import VOCABULARY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Level(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    severity: Severity
    when: str
    message: str
    fix: str


class Doc(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str = Field(min_length=20)
    why: str = Field(min_length=20)
    example: str = Field(min_length=5)
    instead: str = Field(min_length=5)
    references: tuple[str, ...] = Field(min_length=1)


class RuleFile(BaseModel):
    """One rules/*.toml file. `priority` decides between rules that fire on the same op: the highest wins."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[A-Z]+\d{3}$")
    name: str
    summary: str
    priority: int
    families: tuple[str, ...] = ("*",)
    phases: tuple[str, ...] = ("forward", "backward")
    precisions: tuple[Precision, ...] = ("fp16", "bf16", "tf32")
    modes: tuple[Mode, ...] = ("autocast", "pure")
    level: tuple[Level, ...] = Field(min_length=1)
    doc: Doc


@dataclass(frozen=True)
class Rule:
    """A checked rule with its compiled conditions, in order; the first that holds gives the severity."""

    file: RuleFile
    conditions: tuple[tuple[Any, tuple[str, ...], Level], ...]

    @property
    def id(self) -> str:
        return self.file.id

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def summary(self) -> str:
        return self.file.summary

    def applies_to(self, facts: dict[str, Any]) -> bool:
        rule = self.file
        return (
            (rule.families == ("*",) or facts["family"] in rule.families)
            and facts["phase"] in rule.phases
            and facts["precision"] in rule.precisions
            and facts["mode"] in rule.modes
        )


def _compiled(level: Level, where: str) -> tuple[Any, tuple[str, ...], Level]:
    try:
        program = cel.compile(level.when)
    except ValueError as error:
        raise UsageProblem(f"condition {level.when!r}: {str(error).splitlines()[0]}", where=where) from None
    used = tuple(program.variables())
    placeholders = [f for text in (level.message, level.fix) for _, f, _, _ in string.Formatter().parse(text) if f]
    unknown = [name for name in (*used, *placeholders) if name not in VOCABULARY]
    if unknown:
        raise UsageProblem(f"unknown fact {unknown[0]!r}", where=where, next_step="the facts are listed in docs/rules.md")
    return program, used, level


def parse_rule(text: str, where: str) -> Rule:
    """Raises UsageProblem naming the file and what is wrong with it."""
    try:
        rule = RuleFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageProblem(f"not TOML: {error}", where=where) from None
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageProblem(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", where=where) from None
    return Rule(rule, tuple(_compiled(level, where) for level in rule.level))


def load_rules(directory: Path | None = None) -> tuple[Rule, ...]:
    """The shipped rules, or those of another directory; every *.toml in it but ops.toml is one rule."""
    source: Iterable[Any] = files("auditor.rules").iterdir() if directory is None else directory.iterdir()
    found = [
        (file.name, parse_rule(file.read_text(encoding="utf-8"), file.name))
        for file in source
        if file.name.endswith(".toml") and file.name != "ops.toml"
    ]
    ids: dict[str, str] = {}
    for name, rule in found:
        if name != f"{rule.name}.toml":
            raise UsageProblem(f"the rule calls itself {rule.name!r}", where=name)
        if rule.id in ids:
            raise UsageProblem(f"{rule.id} is taken by {ids[rule.id]}", where=name)
        ids[rule.id] = name
    return tuple(sorted((rule for _, rule in found), key=lambda r: r.id))
