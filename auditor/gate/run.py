"""One model through the gate: audited or taken from the cache, then judged by its policy."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

from auditor.contract import Audit
from auditor.errors import UsageProblem
from auditor.gate.apply import check_rules, with_policy
from auditor.gate.baseline import read_audit_file
from auditor.gate.cache import cache_folder, keep, key_of, look_up
from auditor.gate.checks import judge
from auditor.gate.config import Settings
from auditor.gate.policy import ModelSettings
from auditor.judge.index import rule_names
from auditor.subject.child import run_child
from auditor.subject.limits import parse_memory
from auditor.subject.request import AuditRequest

Progress = Callable[[str, int, int], None]


def gated(settings: Settings, command: tuple[str, ...], progress: Progress, *, cached: bool) -> Audit:
    """The audit under the model's policy, with the gate's checks in it. Raises AuditError.

    What is wrong with the policy is told before the model is run.
    """
    model = settings.model
    check_rules(model.policy, rule_names(model.rules))
    baseline = read_audit_file(Path(model.baseline), "--baseline") if model.baseline else None
    audit, from_cache = _audited(model, command, progress, cached=cached)
    audit = with_policy(audit, model.policy, datetime.date.today())
    gate = judge(audit, model.policy, settings.name, baseline, from_cache)
    return audit.model_copy(update={"gate": gate})


def request_of(model: ModelSettings, command: tuple[str, ...]) -> AuditRequest:
    return AuditRequest(
        model=model.model,
        inputs=model.input,
        batches=model.batch,
        checkpoint=model.checkpoint,
        target=model.target,
        mode=model.mode,
        training=model.train,
        optimizer=model.optimizer,
        seed=model.seed,
        rules=model.rules,
        device_file=model.device_file,
        command=command,
    )


def _audited(
    model: ModelSettings, command: tuple[str, ...], progress: Progress, *, cached: bool
) -> tuple[Audit, bool]:
    request, folder = request_of(model, command), cache_folder()
    try:
        key = key_of(request)
    except OSError as error:
        raise UsageProblem(f"{error.filename}: {error.strerror}", where=model.model) from None
    kept = look_up(key, folder) if cached else None
    if kept is not None:
        return kept, True
    audit, _ = run_child(
        request, progress, time_limit=model.time_limit, memory_limit=parse_memory(model.memory_limit)
    )
    if cached:
        keep(key, audit, folder)
    return audit, False
