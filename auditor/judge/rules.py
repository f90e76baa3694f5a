"""Rules as data: reading and checking rules/*.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import cel
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from auditor.capture.families import load_families
from auditor.contract import Mode, Phase, Precision, Severity
from auditor.errors import UsageProblem, near_names
from auditor.judge.messages import placeholders
from auditor.judge.vocabulary import VOCABULARY, defaults


class Level(BaseModel):
    """`when` is a CEL condition over facts; `message` and `fix` are templates (see messages.py)."""

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
    phases: tuple[Phase, ...] = ("forward", "backward")
    precisions: tuple[Precision, ...] = ("fp16", "bf16", "tf32")
    modes: tuple[Mode, ...] = ("autocast", "pure")
    level: tuple[Level, ...] = Field(min_length=1)
    doc: Doc


@dataclass(frozen=True)
class Condition:
    """A level with its compiled condition and the facts that condition names."""

    level: Level
    program: cel.Program
    names: tuple[str, ...]

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Raises TypeError when the condition does not come to true or false on these facts.

        As in IEEE 754 no ordering with NaN holds; CEL knows none and raises instead.
        """
        values = {name: facts[name] for name in self.names}
        try:
            value = self.program.execute(values)
        except TypeError:
            if any(v != v for v in values.values()):
                return False
            raise
        if not isinstance(value, bool):
            raise TypeError(f"the condition gives {value!r}, neither true nor false")
        return value


@dataclass(frozen=True)
class Rule:
    """A checked rule with its conditions in order; the first that holds gives the severity."""

    file: RuleFile
    conditions: tuple[Condition, ...]

    @property
    def id(self) -> str:
        return self.file.id

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def summary(self) -> str:
        return self.file.summary

    def takes_family(self, family: str) -> bool:
        return self.file.families == ("*",) or family in self.file.families

    def applies_to(self, facts: Mapping[str, Any]) -> bool:
        rule = self.file
        return (
            self.takes_family(facts["family"])
            and facts["phase"] in rule.phases
            and facts["precision"] in rule.precisions
            and facts["mode"] in rule.modes
        )


def _unknown_fact(name: str, where: str, key: str) -> UsageProblem:
    return UsageProblem(
        f"{key}: unknown fact {name!r}{near_names(name, VOCABULARY)}",
        where=where,
        next_step="the facts are listed in docs/rules.md",
    )


def _compiled(level: Level, where: str, key: str) -> Condition:
    try:
        program = cel.compile(level.when)
    except ValueError as error:
        raise UsageProblem(f"{key}.when: {str(error).splitlines()[0]}", where=where) from None
    condition = Condition(level, program, tuple(program.variables()))
    for name in condition.names:
        if name not in VOCABULARY:
            raise _unknown_fact(name, where, f"{key}.when")
    try:
        condition.holds(defaults())
    except TypeError as error:
        raise UsageProblem(f"{key}.when: {str(error).splitlines()[0]}", where=where) from None
    except (ArithmeticError, ValueError, RuntimeError):
        pass  # a fault of these values (a division by zero), which says nothing about the condition
    for part, template in (("message", level.message), ("fix", level.fix)):
        try:
            names = placeholders(template)
        except ValueError as error:
            raise UsageProblem(f"{key}.{part}: {error}", where=where) from None
        for name in names:
            if name not in VOCABULARY:
                raise _unknown_fact(name, where, f"{key}.{part}")
    return condition


def parse_rule(text: str, where: str) -> Rule:
    """Raises UsageProblem naming the file, the key and what is wrong with it."""
    try:
        rule = RuleFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageProblem(f"not TOML: {error}", where=where) from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        known = near_names(key, RuleFile.model_fields) if first["type"] == "extra_forbidden" else ""
        raise UsageProblem(f"{key}: {first['msg']}{known}", where=where) from None
    families = ["*", "other", "optimizer", *(name for name, _ in load_families().families)]
    for family in rule.families:
        if family not in families:
            raise UsageProblem(
                f"families: unknown family {family!r}{near_names(family, families)}", where=where
            )
    return Rule(rule, tuple(_compiled(level, where, f"level.{n}") for n, level in enumerate(rule.level)))


def load_rules(directory: Path | None = None) -> tuple[Rule, ...]:
    """The shipped rules, or those of another directory; every *.toml in it but ops.toml is one rule."""
    source: Iterable[Any]
    try:
        source = files("auditor.rules").iterdir() if directory is None else list(directory.iterdir())
    except OSError as error:
        raise UsageProblem(
            f"no rules can be read here: {error.strerror}",
            where=str(directory),
            next_step="name a directory of *.toml rules",
        ) from None
    rules: dict[str, Rule] = {}
    for file in sorted(source, key=lambda f: f.name):
        if not file.name.endswith(".toml") or file.name == "ops.toml":
            continue
        where = file.name if directory is None else str(file)
        try:
            rule = parse_rule(file.read_text(encoding="utf-8"), where)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageProblem(f"cannot be read: {error}", where=where) from None
        if file.name != f"{rule.name}.toml":
            raise UsageProblem(f"name: the rule calls itself {rule.name!r}, unlike its file", where=where)
        if rule.id in rules:
            raise UsageProblem(f"id: {rule.id} is taken by {rules[rule.id].name}", where=where)
        rules[rule.id] = rule
    return tuple(rules[identifier] for identifier in sorted(rules))


def rules_with(directory: str | None) -> tuple[Rule, ...]:
    """The shipped rules and, beside them, a team's own. Raises UsageProblem where both use one id."""
    shipped = load_rules()
    if directory is None:
        return shipped
    own = load_rules(Path(directory))
    taken = {rule.id: rule.name for rule in shipped}
    for rule in own:
        if rule.id in taken:
            raise UsageProblem(
                f"id: {rule.id} is taken by the shipped rule {taken[rule.id]}",
                where=f"{directory}/{rule.name}.toml",
                next_step="give your rules a prefix of their own, such as TEAM001",
            )
    return (*shipped, *own)
