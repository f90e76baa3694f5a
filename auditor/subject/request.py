"""What the command asks of the process that audits."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class AuditRequest(BaseModel):
    """One audit, as given on the command line. Paths are as the user typed them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    inputs: tuple[str, ...] = ()
    batches: tuple[str, ...] = ()
    checkpoint: str | None = None
    target: str | None = None
    device_file: str | None = None
    mode: Literal["autocast", "pure"] = "autocast"
    training: bool | None = None
    optimizer: str = "adamw"
    seed: int = 0
    stress: float = 1.0
    rules: str | None = None
    command: tuple[str, ...] = ()
