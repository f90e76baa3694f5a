"""Silence on the healthy: ordinary architectures and the healthy examples, audited as the command does.

    python bench/healthy.py

Prints per model the verdict of each mode and every finding of medium or high; the last line counts the
models with one under autocast, which should be none.
"""

from __future__ import annotations

import sys
from pathlib import Path

from auditor.errors import AuditError
from auditor.subject.child import run_child
from auditor.subject.limits import parse_memory
from auditor.subject.request import AuditRequest

ROOT = Path(__file__).parents[1]


def main() -> int:
    sys.path.insert(0, str(Path(__file__).parent))
    from healthy_models import NAMES

    zoo = [f"{Path(__file__).parent}/healthy_models.py:{name}" for name in NAMES]
    examples = [str(ROOT / "examples" / f"{n}.py") for n in ("bert_classifier", "gpt_tied", "unet_diffusion")]
    noisy = failed = 0
    for model in [*zoo, *examples]:
        name = model.rsplit("/", 1)[-1]
        try:
            audit, _ = run_child(
                AuditRequest(model=model), lambda *_: None, time_limit=600, memory_limit=parse_memory("60%")
            )
        except AuditError as error:
            failed += 1
            print(f"{name}: {error}")
            continue
        serious = [f for f in audit.findings if f.severity in ("high", "medium")]
        noisy += any("autocast" in f.modes for f in serious)
        verdicts = ", ".join(f"{mode} {result.verdict}" for mode, result in audit.modes.items())
        print(f"{name}: {verdicts}")
        for f in serious:
            print(f"    {f.severity} {f.rule} {f.module} line {f.line} {f.precisions} {f.modes}: {f.message}")
    print(f"{len(zoo) + len(examples)} models, {noisy} with findings under autocast, {failed} not audited")
    return 1 if noisy or failed else 0


if __name__ == "__main__":
    sys.exit(main())
