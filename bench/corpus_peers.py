"""What others say of the same faults: Hugging Face's DebugUnderflowOverflow, and looking for NaN by hand.

    python bench/corpus_peers.py [CASE ...]

Each case of bench/corpus runs in its own precision and mode as people do it on this machine: under stock CPU
autocast, or with the whole model cast; TF32 cannot be had on a CPU, so there the plain FP32 run is all they
see. A peer *finds* a fault when it complains about model.py, and has it at the *right module* when the module
it names is the case's, its ancestor or its descendant; neither names a line. A *false alarm* is a complaint
about a mended or clean model in the case's mode. Scored as bench/corpus.py scores ampaudit.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import time
import tomllib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only
from transformers.debug_utils import DebugUnderflowOverflow

from auditor.subject.load import load_subject, loss_of
from auditor.subject.request import AuditRequest

ROOT = Path(__file__).parent / "corpus"
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Said:
    """A peer's answer: whether it complained, the module it named, and the text."""

    complained: bool
    module: str | None = None
    text: str = ""


def step(path: Path, precision: str, mode: str, watch: Callable[[nn.Module], object]) -> Said:
    """Forward, loss and backward in that mode; complaints are exceptions and non-finite results."""
    subject = load_subject(AuditRequest(model=str(path)))
    model, (args, kwargs) = subject.model, subject.batches[0]
    dtype = DTYPES.get(precision)
    if dtype is not None and mode.startswith("pure"):
        model = model.to(dtype)
        args, kwargs = tree_map_only(
            torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, (args, kwargs)
        )
    watch(model)
    autocast = dtype is not None and not mode.startswith("pure")
    with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=autocast):
        output = model(*args, **kwargs)
        loss = loss_of(subject, output, (args, kwargs))[0]
    if loss is not None and loss.requires_grad:
        (loss * (subject.loss_scale or 1.0)).backward()  # as the case's own training would
    tensors = [t for t in tree_leaves(output) if isinstance(t, torch.Tensor) and t.is_floating_point()]
    tensors += [p.grad for p in model.parameters() if p.grad is not None]
    tensors += [loss] if loss is not None else []
    bad = [t for t in tensors if t.layout == torch.strided and not bool(torch.isfinite(t).all())]
    return Said(bool(bad), None, f"{len(bad)} non-finite tensors" if bad else "")


def look_for_nan(path: Path, precision: str, mode: str) -> Said:
    try:
        return step(path, precision, mode, lambda _: None)
    except Exception as error:
        return Said(True, None, f"{type(error).__name__}: {error}"[:100])


def debug_underflow_overflow(path: Path, precision: str, mode: str) -> Said:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            step(path, precision, mode, DebugUnderflowOverflow)
        except Exception as error:
            frames = re.findall(r"^\s+(\S+) (\S+)$", printed.getvalue(), re.M)
            detected = "inf/nan detected" in str(error)
            module = frames[-1][0] if detected and frames else None
            return Said(True, module, str(error).strip().splitlines()[0][:100])
    return Said(False)


PEERS: dict[str, Callable[[Path, str, str], Said]] = {
    "HF DebugUnderflowOverflow": debug_underflow_overflow,
    "CPU autocast, look for NaN": look_for_nan,
}


def same_module(named: str | None, module: str) -> bool:
    return named is not None and (
        named == module or not module or named.startswith(f"{module}.") or module.startswith(f"{named}.")
    )


def main() -> None:
    warnings.simplefilter("ignore")
    names = sys.argv[1:] or sorted(p.parent.name for p in ROOT.glob("*/case.toml"))
    cases: dict[str, dict[str, Any]] = {
        name: tomllib.loads((ROOT / name / "case.toml").read_text(encoding="utf-8")) for name in names
    }
    faults = [name for name, case in cases.items() if not case["clean"]]
    rows = []
    for peer, ask in PEERS.items():
        started = time.monotonic()
        said = {
            (name, which): ask(ROOT / name / f"{which}.py", case["precision"], case["mode"])
            for name, case in cases.items()
            for which in ("model", "fixed")
            if (ROOT / name / f"{which}.py").exists()
        }
        found = [n for n in faults if said[n, "model"].complained]
        placed = [n for n in found if same_module(said[n, "model"].module, cases[n]["module"])]
        alarms = [
            (n, which)
            for (n, which), s in said.items()
            if s.complained and (which == "fixed" or n not in faults)
        ]
        for n, which in alarms:
            print(f"{peer}: FALSE ALARM {n} {which}: {said[n, which].text}")
        for n in faults:
            if n not in found:
                print(f"{peer}: MISSED {n} ({cases[n]['kind']}, {cases[n]['mode']})")
        each = (time.monotonic() - started) / len(cases)
        rows.append(
            f"| {peer} | {len(found)}/{len(faults)} | {len(placed)}/{len(faults)} | 0/{len(faults)} "
            f"| {len({n for n, _ in alarms})} of {len(cases)} | {each:.2f} |"
        )
    print("\n| tool | found | right module | right line | false alarms (cases) | s a case |")
    print("|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
