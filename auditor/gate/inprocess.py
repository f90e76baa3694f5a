"""The gate inside a training script: `auditor.check(model, batch)` before the first step."""

from __future__ import annotations

import copy
import datetime
import io
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from pydantic import ValidationError
from rich.console import Console
from torch import nn
from torch.utils._pytree import tree_map_only

from auditor.contract import Audit
from auditor.errors import UsageProblem, near_names
from auditor.gate.apply import check_rules, with_policy
from auditor.gate.checks import judge
from auditor.gate.policy import Policy
from auditor.judge.index import rule_names
from auditor.numerics.autocast import remove_cuda_policy
from auditor.numerics.twins import widened
from auditor.pipeline import audit_subject
from auditor.report.gate import render_gate
from auditor.subject.inputs import as_arguments
from auditor.subject.load import Subject, loss_caller, widen
from auditor.subject.request import AuditRequest


class GateFailed(RuntimeError):
    """The model does not meet the policy; `audit` holds the evidence, the message the checks that failed."""

    def __init__(self, audit: Audit) -> None:
        out = io.StringIO()
        assert audit.gate is not None
        render_gate(audit, audit.gate, Console(file=out, width=100), quiet=False, verbose=False)
        super().__init__(out.getvalue().rstrip())
        self.audit = audit


def check(
    model: nn.Module,
    batch: Any,
    *,
    policy: Policy | Mapping[str, Any] | None = None,
    loss: Callable[..., Any] | None = None,
    target: str | None = None,
    mode: Literal["autocast", "pure"] = "autocast",
    optimizer: str = "adamw",
    seed: int = 0,
    rules: str | None = None,
) -> Audit:
    """Audit `model` on `batch` in this process and judge it by `policy`.

    `batch` is a tensor, a tuple of arguments or a dict of keyword arguments; `loss` takes the output, and the
    batch's arguments if its signature asks for them, and returns a scalar. `policy` holds the keys of
    [tool.ampaudit.policy]. The audit runs on a copy on the CPU: the model, its gradients and the random state
    stay as they are. Returns the audit with its gate; raises GateFailed when a check fails or could not be
    established, UsageProblem on a wrong policy, SubjectProblem when the model cannot be run.
    """
    asked = _policy(policy)
    check_rules(asked, rule_names(rules))
    name = type(model).__name__
    request = AuditRequest(
        model=name, target=target, mode=mode, optimizer=optimizer, seed=seed, rules=rules,
        command=(f"auditor.check({name}, batch)",),
    )  # fmt: skip
    state = torch.get_rng_state()
    try:
        audit = audit_subject(_subject(model, batch, loss), request, lambda *_: None)
    finally:
        remove_cuda_policy()
        torch.set_rng_state(state)
    audit = with_policy(audit, asked, datetime.date.today())
    gate = judge(audit, asked, name, None, cached=False)
    audit = audit.model_copy(update={"gate": gate})
    if gate.outcome != "pass":
        raise GateFailed(audit)
    return audit


def _policy(given: Policy | Mapping[str, Any] | None) -> Policy:
    if given is None or isinstance(given, Policy):
        return given or Policy()
    try:
        return Policy.model_validate(dict(given))
    except ValidationError as error:
        found = error.errors()
        first = next((e for e in found if e["type"] == "extra_forbidden"), found[0])
        key = ".".join(map(str, first["loc"]))
        near = near_names(key, Policy.model_fields) if first["type"] == "extra_forbidden" else ""
        raise UsageProblem(f"{key}: {first['msg']}{near}", where="policy") from None


def _subject(model: nn.Module, batch: Any, loss: Callable[..., Any] | None) -> Subject:
    try:
        copied = copy.deepcopy(model).cpu()
    except (RuntimeError, TypeError) as error:
        raise UsageProblem(
            f"the model cannot be copied: {error}",
            where="auditor.check",
            next_step="call it before the model is wrapped, compiled or has run a step",
        ) from None
    built_in = widen(copied)
    given = tree_map_only(torch.Tensor, lambda t: t.detach().cpu(), batch)
    args, kwargs = as_arguments(tree_map_only(torch.Tensor, widened, given) if built_in else given)
    return Subject(
        model=copied,
        batches=((args, kwargs),),
        loss=loss_caller(loss) if loss is not None else None,
        loss_scale=None,
        optimizer=None,
        optimizer_line=None,
        built_in=built_in,
        source=type(model).__name__,
        entry="the model given to auditor.check",
        inputs_from="the batch given to auditor.check",
        file=None,
    )
