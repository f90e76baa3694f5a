"""What an audit costs, as ratios to one plain FP32 training step of the same model in the same process.

    python bench/overhead.py [examples/bert_classifier.py ...]

Prints, per model: the recorded FP32 step alone, the FP32 step with the range of every tensor, each shadow
mode, and the whole audit, in plain steps; the fixed cost in seconds (start, imports, rules, HTML); and peak
memory against the plain step's.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from auditor.capture.families import load_families
from auditor.measure import STOCK, run_reference
from auditor.numerics.shadow import Shadow
from auditor.numerics.step import Mode, Work, run_step
from auditor.subject.load import load_subject, loss_of
from auditor.subject.request import AuditRequest


def seconds(call: Callable[[], object], repeats: int = 3) -> float:
    call()
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def plain_step(work: Work) -> None:
    loss = work.loss(work.model(*work.args, **work.kwargs))
    if loss is not None and loss.requires_grad:
        loss.backward()
    work.model.zero_grad(set_to_none=True)


def work_of(path: str) -> Work:
    subject = load_subject(AuditRequest(model=path))
    args, kwargs = subject.batches[0]
    return Work(subject.model, args, kwargs, lambda out: loss_of(subject, out, (args, kwargs))[0], 0)


def peak_megabytes(code: str) -> float:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1]) / 1024


PEAK = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"


def report(path: str) -> None:
    families = load_families()
    work = work_of(path)
    plain = seconds(lambda: plain_step(work))
    print(f"\n{path}: a plain FP32 step takes {plain * 1e3:.0f} ms")
    recorded = seconds(lambda: run_step(work, Mode("fp32"), families, None)) / plain
    print(f"  recorded                         {recorded:6.2f} x")
    ranges = seconds(lambda: run_reference(work, families, sensitivity=False)) / plain
    print(f"  recorded with every range        {ranges:6.2f} x   (aim 1.5)")
    total = 0.0
    for name, _, how in STOCK:
        mode = Mode(name, **how)
        ratio = seconds(lambda m=mode: run_step(work, m, families, Shadow(families, tf32=m.tf32))) / plain
        total += ratio
        print(f"  {name.replace('_', ' '):<32} {ratio:6.2f} x")
    print(f"  all five shadow modes            {total:6.2f} x")
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).parent / "ampaudit"), path, "--quiet", "--output", folder]
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=False)
        whole = time.perf_counter() - started
    print(f"  the whole command                {whole:6.1f} s = {whole / plain:.1f} x   (aim 20 x + 4 s)")
    setup = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import overhead; "
    setup += f"w = overhead.work_of({path!r}); "
    step = peak_megabytes(setup + "overhead.plain_step(w); overhead.plain_step(w); " + PEAK)
    full = peak_megabytes(
        "from auditor.pipeline import audit; from auditor.subject.request import AuditRequest; "
        f"audit(AuditRequest(model={path!r}), lambda *a: None); " + PEAK
    )
    print(f"  peak memory                      {full / step:6.2f} x   (aim 2.5; {full:.0f} MB)")


def main() -> None:
    warnings.simplefilter("ignore")
    fixed = seconds(
        lambda: subprocess.run(
            [
                sys.executable,
                "-c",
                "import auditor.pipeline, auditor.report, auditor.judge.rules as r; r.load_rules()",
            ],
            check=True,
        ),
        repeats=3,
    )
    print(f"fixed cost of starting (imports and rules): {fixed:.1f} s   (aim 4)")
    for path in sys.argv[1:] or [
        "examples/bert_classifier.py",
        "examples/gpt_tied.py",
        "examples/resnet50.py",
        "bench/bert_base_blocks.py",
    ]:
        report(path)


if __name__ == "__main__":
    main()
