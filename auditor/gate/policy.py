"""What a team demands of its models, as data."""

from __future__ import annotations

import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from auditor.contract import Precision, Severity
from auditor.errors import UsageProblem
from auditor.subject.limits import parse_memory

FailOn = Literal["high", "medium", "low", "never"]


class Closed(BaseModel):
    """Frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Ignore(Closed):
    """Findings that are accepted. `module` and `file` are globs."""

    rule: str = Field(description="a rule's id or name, or * for all")
    module: str = "*"
    file: str = "*"
    reason: str = Field(min_length=3)
    expires: datetime.date | None = Field(default=None, description="the last day on which it holds")


class Policy(Closed):
    """Conditions left out are not asked for."""

    fail_on: FailOn = Field(default="high", description="the least severity that fails the gate")
    precisions: tuple[Precision, ...] | None = Field(
        default=None, description="what layers may run in; findings of other formats do not count"
    )
    max_fp32_time_share: float | None = Field(
        default=None, ge=0, le=1, description="share of the plan's time spent in FP32 layers"
    )
    min_margin_binades: float | None = Field(
        default=None, description="binades between a layer's largest value and the end of its format"
    )
    max_memory: str | None = Field(default=None, description="of the plan's training step, such as 40GB")
    min_speedup: float | None = Field(default=None, gt=0, description="of the plan over FP32")
    severity: dict[str, Severity | Literal["off"]] = Field(
        default_factory=dict, description="by rule id or name"
    )
    ignore: tuple[Ignore, ...] = ()

    @field_validator("max_memory")
    @classmethod
    def _readable(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                parse_memory(text)
            except UsageProblem as problem:
                raise ValueError(problem.what) from None
        return text


class ModelSettings(Closed):
    """How one model is audited and judged; the keys are the command's options."""

    model: str = Field(description="a Python file, path.py:name, or package.module:name")
    input: tuple[str, ...] = ()
    batch: tuple[str, ...] = ()
    checkpoint: str | None = None
    target: str | None = None
    device_file: str | None = Field(default=None, description="a TOML file of your own cards")
    mode: Literal["autocast", "pure"] = "autocast"
    train: bool | None = None
    optimizer: Literal["adamw", "adam", "sgd", "sgd-momentum", "adafactor"] = "adamw"
    seed: int = 0
    time_limit: float = Field(default=900.0, ge=1, description="seconds")
    memory_limit: str = "85%"
    rules: str | None = Field(default=None, description="a directory of your own rules")
    baseline: str | None = Field(default=None, description="an audit.json; only what is new or worse fails")
    policy: Policy = Policy()
