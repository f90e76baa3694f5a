"""Tensors from files: batches and checkpoints."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from auditor.errors import UsageProblem, near_names


def read_tensors(path: Path, option: str) -> Any:
    """Contents of a .pt/.pth (weights_only), .npz (no pickles) or .safetensors file.

    Raises UsageProblem naming the option when the file is missing, of another kind, or broken.
    """
    if not path.is_file():
        known = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise UsageProblem(f"no such file: {path}{near_names(path.name, known)}", where=option)
    try:
        if path.suffix == ".npz":
            import numpy as np

            if not zipfile.is_zipfile(path):
                raise ValueError("not an .npz archive")  # numpy would speak of pickles
            with np.load(path, allow_pickle=False) as arrays:
                return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        if path.suffix in (".pt", ".pth", ".bin", ".ckpt"):
            return torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageProblem(
            f"cannot read {path}: {reason}",
            where=option,
            next_step="only plain tensors are read (torch.load with weights_only=True, no pickled objects)",
        ) from None
    raise UsageProblem(f"cannot read {path}: not a .pt, .npz or .safetensors file", where=option)


def batch_arguments(contents: Any, path: Path) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(args, kwargs) of a batch file: a tensor, a sequence of args, or names with tensors as kwargs."""
    if isinstance(contents, torch.Tensor):
        return (contents,), {}
    if isinstance(contents, (tuple, list)):
        return tuple(contents), {}
    if isinstance(contents, dict):
        if all(isinstance(k, str) and k.startswith("arr_") for k in contents):  # numpy's names for positions
            return tuple(contents.values()), {}
        return (), dict(contents)
    raise UsageProblem(
        f"{path} holds a {type(contents).__name__}",
        where="--batch",
        next_step="store a tensor, a tuple or a dict of tensors",
    )


def load_checkpoint(model: nn.Module, path: Path) -> None:
    """Load a state dict (also nested under "state_dict" or "model") into `model`, strictly."""
    state = read_tensors(path, "--checkpoint")
    for nest in ("state_dict", "model", "model_state_dict"):
        if isinstance(state, dict) and isinstance(state.get(nest), dict):
            state = state[nest]
            break
    if not isinstance(state, dict) or not all(isinstance(v, torch.Tensor) for v in state.values()):
        raise UsageProblem(f"{path} holds no state dict", where="--checkpoint")
    own = model.state_dict()
    missing = [k for k in own if k not in state]
    unexpected = [k for k in state if k not in own]
    shapes = [k for k in own if k in state and own[k].shape != state[k].shape]
    if missing or unexpected or shapes:
        parts = []
        if missing:
            parts.append(
                f"missing {missing[0]}{near_names(missing[0], unexpected)} and {len(missing) - 1} more"
            )
        if unexpected:
            parts.append(f"unexpected {unexpected[0]} and {len(unexpected) - 1} more")
        if shapes:
            k = shapes[0]
            parts.append(f"{k} is {tuple(state[k].shape)} in the file, {tuple(own[k].shape)} in the model")
        raise UsageProblem(
            f"{path} does not fit the model: {'; '.join(parts)}",
            where="--checkpoint",
            next_step="give the checkpoint of this architecture, or the model's factory as path.py:name",
        )
    model.load_state_dict(state)
