"""One training step of the subject in one mode, leaving the user's model as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only

from auditor.apply.regions import apply_regions, widen_half
from auditor.capture.arguments import Call
from auditor.capture.families import OpFamilies
from auditor.capture.recorder import Observe, Recorder
from auditor.capture.site import user_line_of
from auditor.capture.storages import storage_id
from auditor.errors import text_of
from auditor.numerics.autocast import cuda_autocast
from auditor.numerics.fourier import CudaFourier
from auditor.numerics.rounding import round_to
from auditor.numerics.shadow import Shadow

Loss = Callable[[Any], torch.Tensor | None]


@dataclass(frozen=True)
class Work:
    """What a step runs: the model, its inputs, and `loss` from the output (None: no backward)."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    loss: Loss
    seed: int


@dataclass(frozen=True)
class Mode:
    """How a step runs. `autocast` is the dtype of autocast, `pure` the dtype the whole model is cast to.

    `weights` rounds the parameters alone to that format, everything else staying FP32.
    `regions` gives modules a precision of their own under autocast; `fp32_loss` takes the loss out of
    autocast, on outputs widened to float32.
    """

    name: str
    autocast: torch.dtype | None = None
    pure: torch.dtype | None = None
    tf32: bool = False
    weights: str | None = None
    regions: dict[str, str] = field(default_factory=dict)
    fp32_loss: bool = False
    loss_scale: float = 1.0


@dataclass(frozen=True)
class Failure:
    """An exception the run ended with, and the user's line and module it came from."""

    text: str
    exception: BaseException
    file: str | None
    line: int | None
    module: str
    module_type: str


@dataclass(frozen=True)
class Outcome:
    """What a step gave. Outputs and gradients are detached float32 copies, gradients unscaled."""

    loss: float | None
    outputs: tuple[torch.Tensor, ...]
    gradients: dict[str, torch.Tensor]
    saved_bytes: int
    failure: Failure | None


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Put back buffers, parameter data, gradients, training flags and the RNG state on leaving."""
    parameters = [(p, p.data, p.grad) for p in model.parameters()]
    buffers = [
        (module, name, buffer, buffer.clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    training = [(module, module.training) for module in model.modules()]
    random = torch.get_rng_state()
    for parameter in model.parameters():
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, data, grad in parameters:
            parameter.data = data
            parameter.grad = grad
        with torch.no_grad():
            for module, name, buffer, value in buffers:
                if buffer.is_inference():
                    module._buffers[name] = value
                    continue
                buffer.copy_(value)
                module._buffers[name] = buffer
        for module, flag in training:
            module.training = flag
        torch.set_rng_state(random)


class _SavedBytes:
    """Bytes of activations autograd keeps for backward, each storage once, parameters left out."""

    def __init__(self, model: nn.Module) -> None:
        self._seen = {storage_id(t) for t in [*model.parameters(), *model.buffers()]}
        self.total = 0

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = storage_id(tensor)
        if storage is not None and storage not in self._seen:
            self._seen.add(storage)
            self.total += tensor.untyped_storage().nbytes()
        return tensor


def _named(args: Any, kwargs: Any) -> dict[str, torch.Tensor]:
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    return {str(i): t for i, t in enumerate(tensors)}


def _cast_inputs(args: Any, kwargs: Any, dtype: torch.dtype, shadow: Shadow | None) -> Any:
    """Floating inputs in `dtype`, as whoever casts a model casts its inputs."""
    numbers = iter(range(len(_named(args, kwargs))))

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        origin = f"input:{next(numbers)}"
        if not tensor.is_floating_point():
            return tensor
        narrow = tensor.detach().to(dtype).requires_grad_(tensor.requires_grad)
        if shadow is not None and tensor.dtype == torch.float32:
            shadow.adopt(origin, narrow.detach(), tensor.detach())
        return narrow

    return tree_map_only(torch.Tensor, cast, (args, kwargs))


def _fresh(value: Any) -> Any:
    return tree_map_only(torch.Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), value)


def run_step(
    work: Work,
    mode: Mode,
    families: OpFamilies,
    shadow: Shadow | None,
    *,
    observe: Observe | None = None,
    graph: bool = False,
) -> tuple[Outcome, Recorder]:
    """Run forward, loss and backward once in `mode`, recorded; with a `shadow` the arithmetic is the GPU's.

    The user's exceptions end up in the outcome's failure; KeyboardInterrupt and SystemExit pass through.
    """
    model = work.model
    args, kwargs = _fresh(work.args), _fresh(work.kwargs)
    recording = Recorder(
        model,
        _named(args, kwargs),
        families,
        execute=shadow.execute if shadow is not None else Call.run,
        observe=shadow.observe if shadow is not None else observe,
        graph=graph,
    )
    saved = _SavedBytes(model)
    failure = loss_value = None
    output: Any = None
    with untouched(model), ExitStack() as stack:
        if mode.pure is not None:
            _cast_model(model, mode.pure, shadow)
            args, kwargs = _cast_inputs(args, kwargs, mode.pure, shadow)
            recording.name_inputs(_named(args, kwargs))
        if mode.weights is not None:
            for parameter in model.parameters():
                if parameter.dtype == torch.float32:
                    parameter.data = round_to(parameter.data, mode.weights)
        torch.manual_seed(work.seed)
        stack.enter_context(recording.modules.follow())
        stack.enter_context(recording)
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda t: t))
        if shadow is not None:
            stack.enter_context(CudaFourier())
        try:
            loss = None
            with ExitStack() as precision:
                if mode.autocast is not None:
                    precision.enter_context(cuda_autocast(mode.autocast, shadow.autocast_refused))  # type: ignore[union-attr]
                    if mode.regions:
                        precision.enter_context(apply_regions(model, mode.regions, "cpu"))
                output = model(*args, **kwargs)
                if mode.fp32_loss:
                    precision.enter_context(torch.autocast("cpu", enabled=False))
                loss = work.loss(widen_half(output) if mode.fp32_loss else output)
            if loss is not None:
                loss_value = float(shadow.value(loss) if shadow is not None else loss.detach())
                if loss.requires_grad:
                    (loss * mode.loss_scale).backward()  # type: ignore[no-untyped-call]
        except Exception as error:
            module, module_type = recording.modules.failed or recording.modules.current
            file, line = user_line_of(error) or (None, None)
            failure = Failure(text_of(error), error, file, line, module, module_type)
        finally:
            stack.close()
            value = shadow.value if shadow is not None else _detached
            outputs = tuple(
                value(t).clone() for t in tree_leaves(_plain(output)) if isinstance(t, torch.Tensor)
            )
            gradients = {
                name: value(parameter.grad).to(torch.float32) / mode.loss_scale
                for name, parameter in model.named_parameters()
                if parameter.grad is not None and parameter.grad.layout == torch.strided
            }
    return Outcome(loss_value, outputs, gradients, saved.total, failure), recording


def _detached(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach()


def _plain(output: Any) -> Any:
    """Containers pytree does not know (dataclasses, HF ModelOutput without registration) as dicts."""
    if isinstance(output, torch.Tensor) or output is None:
        return output
    if hasattr(output, "items"):
        return {k: _plain(v) for k, v in output.items()}
    if isinstance(output, (tuple, list)):
        return [_plain(v) for v in output]
    if hasattr(output, "__dict__"):
        return {k: _plain(v) for k, v in vars(output).items()}
    return output


def _cast_model(model: nn.Module, dtype: torch.dtype, shadow: Shadow | None) -> None:
    def tensors() -> dict[str, torch.Tensor]:
        parameters = {f"param:{name}": p for name, p in model.named_parameters()}
        return {**parameters, **{f"buffer:{name}": b for name, b in model.named_buffers()}}

    before = {origin: t.detach() for origin, t in tensors().items()}
    model.to(dtype)
    for origin, tensor in tensors().items():
        if shadow is not None and tensor.dtype == dtype and before[origin].dtype == torch.float32:
            shadow.adopt(origin, tensor.detach(), before[origin])
