"""A plan on a real training run. Imports only torch, so that a training script can use it alone.

import auditor

applied = auditor.apply_plan(model, "plan.json")
scaler = auditor.make_grad_scaler("plan.json")
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from auditor.apply.contents import plan_of
from auditor.apply.regions import Regions, apply_regions

Source: TypeAlias = "str | Path | Mapping[str, Any]"
_PRECISIONS = ("fp16", "bf16", "tf32", "fp32")
# What wrappers put into module paths: torch.compile, FSDP, activation checkpointing.
_WRAPPING = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


class PlanError(ValueError):
    """A plan that cannot be read, or that does not fit the model or the device. The model is untouched."""


class AppliedPlan:
    """A plan in force on a model; `remove()` takes it off, as does leaving it as a context manager.

    `fp32_loss`: the plan wants the loss computed outside autocast, on float32 outputs.
    """

    def __init__(self, regions: Regions, restore_tf32: tuple[str, bool] | None, fp32_loss: bool) -> None:
        self._regions = regions
        self._restore_tf32 = restore_tf32
        self.fp32_loss = fp32_loss

    def remove(self) -> None:
        self._regions.remove()
        if self._restore_tf32 is not None:
            matmul, convolutions = self._restore_tf32
            torch.set_float32_matmul_precision(matmul)
            torch.backends.cudnn.allow_tf32 = convolutions
            self._restore_tf32 = None

    def __enter__(self) -> AppliedPlan:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def read_plan(source: Source) -> dict[str, Any]:
    """The plan of a plan.json or audit.json (a path, or its contents), checked: base, regions, loss_scale.

    Raises PlanError.
    """
    name = "the plan"
    content: Any = source
    if isinstance(source, (str, Path)):
        name = str(source)
        try:
            content = json.loads(Path(source).read_text(encoding="utf-8"))
        except OSError as error:
            raise PlanError(f"{name}: {error.strerror}") from None
        except ValueError as error:
            raise PlanError(f"{name} is not JSON: {error}") from None
    if not isinstance(content, Mapping):
        raise PlanError(f"{name} holds no plan")
    if "findings" in content:  # a whole audit.json
        if content.get("plan") is None:
            raise PlanError(f"{name} is an audit without a plan")
        content = plan_of(content)
    base, regions = content.get("base"), content.get("regions")
    if not isinstance(base, str) or not isinstance(regions, Mapping):
        raise PlanError(f"{name} holds no plan: base and regions are missing")
    for path, precision in {"base": base, **regions}.items():
        if precision not in _PRECISIONS:
            raise PlanError(
                f"{name}: {path} asks for {precision!r}, which is none of {', '.join(_PRECISIONS)}"
            )
    return dict(content)


def apply_plan(model: nn.Module, source: Source, *, device_type: str | None = None) -> AppliedPlan:
    """Run `model` in the plan's precisions from now on: the whole of it under autocast in the plan's base,
    each region in its own, tensors cast at the borders, outputs float32.

    `device_type` defaults to where the model's parameters are. Call it before training; it holds under
    torch.compile (apply it first), DDP and FSDP wrappers, activation checkpointing, gradient accumulation and
    no_grad. Raises PlanError, leaving the model as it was, when the plan cannot be read, names modules the
    model lacks, or asks for BF16 of a GPU that has none.
    """
    plan = read_plan(source)
    device = device_type or next((p.device.type for p in model.parameters()), "cpu")
    base, regions = plan["base"], dict(plan["regions"])
    wanted = {base, *regions.values()}
    if device == "cuda" and "bf16" in wanted and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise PlanError(f"the plan asks for BF16, which {torch.cuda.get_device_name()} does not have")
    paths = {_unwrapped(path, model): path for path, _ in model.named_modules(remove_duplicate=False)}
    missing = [path for path in regions if path not in paths]
    if missing:
        near = difflib.get_close_matches(missing[0], list(paths), n=3, cutoff=0.5)
        hint = f" (did you mean {', '.join(near)}?)" if near else ""
        raise PlanError(
            f"the plan, made for {plan.get('model', 'another model')}, names modules this "
            f"{type(model).__name__} lacks: {', '.join(missing)}{hint}"
        )
    restore = None
    if "tf32" in wanted:
        restore = (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32)
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    own = {paths[path]: precision for path, precision in regions.items()}
    return AppliedPlan(
        apply_regions(model, {"": base, **own}, device), restore, bool(plan.get("fp32_loss", False))
    )


def _unwrapped(path: str, model: nn.Module) -> str:
    """A module path without what wrappers add to it."""
    parts = path.split(".") if path else []
    if isinstance(model, (DataParallel, DistributedDataParallel)) and parts[:1] == ["module"]:
        parts = parts[1:]
    return ".".join(part for part in parts if part not in _WRAPPING)


def make_grad_scaler(source: Source, device: str = "cuda") -> torch.amp.GradScaler:
    """A torch.amp.GradScaler that starts where the plan recommends, disabled where none is needed.

    Raises PlanError when the plan cannot be read or says nothing of a loss scale.
    """
    scale = read_plan(source).get("loss_scale")
    if not isinstance(scale, Mapping) or "needed" not in scale:
        raise PlanError("the plan says nothing of a loss scale")
    if not scale["needed"] or scale.get("initial") is None:
        return torch.amp.GradScaler(device, enabled=False)
    return torch.amp.GradScaler(
        device, init_scale=float(scale["initial"]), growth_interval=int(scale.get("growth_interval", 2000))
    )
