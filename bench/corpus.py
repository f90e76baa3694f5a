"""Recall, localisation and false alarms on faults rebuilt from public bug reports.

    python bench/corpus.py [CASE ...] [--baseline] [--rebase]

Audits `model.py` and `fixed.py` of every folder of bench/corpus through the same child process as the
command. A fault is *found* when a finding of medium or high covers its precision and mode at its module or
line, *localised* when such a finding stands on one of its lines; a *false alarm* is any finding of medium or
high that covers the mode on a mended or clean model. The verdicts of the modes are compared with those
established by running (`[model_in_mode]`, `[fixed_in_mode]`). `--baseline` fails when a case that
bench/corpus_baseline.json counts as found, localised or silent is so no more; `--rebase` writes it anew.
"""

from __future__ import annotations

import json
import sys
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditor.contract import Audit, Finding
from auditor.errors import AuditError
from auditor.subject.child import run_child
from auditor.subject.limits import parse_memory
from auditor.subject.request import AuditRequest

ROOT = Path(__file__).parent / "corpus"
BASELINE = Path(__file__).parent / "corpus_baseline.json"


@dataclass(frozen=True)
class Score:
    """What one case came to. `found` and `localised` are None for clean models."""

    found: bool | None
    localised: bool | None
    false_alarms: tuple[str, ...]
    modes_right: int
    modes_known: int
    seconds: float
    said: tuple[str, ...]


def covering(case: dict[str, Any], audit: Audit) -> list[Finding]:
    precision = case["precision"]
    mode = "pure" if case["mode"].startswith("pure") else "autocast"
    return [
        f
        for f in audit.findings
        if f.severity in ("high", "medium")
        and precision in f.precisions
        and (precision == "tf32" or mode in f.modes)
    ]


def at_module(finding: Finding, module: str) -> bool:
    return any(
        m == module or m == "" or module == "" or m.startswith(f"{module}.") or module.startswith(f"{m}.")
        for m in (finding.module, *finding.also_at)
    )


def told(finding: Finding) -> str:
    return f"{finding.severity} {finding.name} at {finding.module or '(root)'} line {finding.line}"


def audit_file(path: Path) -> Audit:
    request = AuditRequest(model=str(path))
    memory = parse_memory("40%")
    return run_child(request, lambda *_: None, time_limit=600, memory_limit=memory)[0]


def score(folder: Path, audited: Callable[[Path], Audit] = audit_file) -> Score:
    """Score one case; `audited` audits a file, by default in a child process as the command does."""
    case = tomllib.loads((folder / "case.toml").read_text(encoding="utf-8"))
    started = time.monotonic()
    found = localised = None
    alarms: list[str] = []
    said: list[str] = []
    right = known = 0
    for which in ("model", "fixed"):
        path = folder / f"{which}.py"
        if not path.exists():
            continue
        try:
            audit = audited(path)
        except AuditError as error:
            said.append(f"{which}: {error}")
            found, localised = (False, False) if which == "model" else (found, localised)
            continue
        findings = covering(case, audit)
        if which == "model" and not case["clean"]:
            lines = [f for f in findings if f.line in case["lines"]]
            found = bool(lines) or any(at_module(f, case["module"]) for f in findings)
            localised = bool(lines)
            said += [told(f) for f in findings]
        else:
            alarms += [f"{which}: {told(f)}" for f in findings]
        for mode, expected in case.get(f"{which}_in_mode", {}).items():
            known += 1
            right += (audit.modes[mode].verdict == "ok") == (expected == "fine")
    return Score(found, localised, tuple(alarms), right, known, time.monotonic() - started, tuple(said))


def summary(scores: dict[str, Score]) -> None:
    faults = {n: s for n, s in scores.items() if s.found is not None}
    for name, s in faults.items():
        if not s.localised:
            print(f"{'MISSED' if not s.found else 'MISPLACED'} {name}: said {'; '.join(s.said) or 'nothing'}")
    for name, s in scores.items():
        for alarm in s.false_alarms:
            print(f"FALSE ALARM {name} {alarm}")
    count = len(faults)
    found = sum(bool(s.found) for s in faults.values())
    localised = sum(bool(s.localised) for s in faults.values())
    right, known = sum(s.modes_right for s in scores.values()), sum(s.modes_known for s in scores.values())
    each = sorted(s.seconds for s in scores.values())
    alarms = sum(bool(s.false_alarms) for s in scores.values())
    print(
        f"recall {found}/{count} = {found / max(count, 1):.1%}, "
        f"localised {localised}/{count} = {localised / max(count, 1):.1%}, "
        f"false alarms on {alarms} of {len(scores)} cases, mode verdicts {right}/{known}, "
        f"median {each[len(each) // 2]:.1f} s a case"
    )


def against_baseline(scores: dict[str, Score]) -> list[str]:
    """Cases that are worse than the baseline says."""
    expected = json.loads(BASELINE.read_text(encoding="utf-8"))
    worse = []
    for name, s in scores.items():
        before = expected.get(name)
        if before is None:
            continue
        lost = [k for k in ("found", "localised") if before[k] and not getattr(s, k)]
        worse += [f"{name} is no longer {k}" for k in lost]
        if s.false_alarms and not before["alarms"]:
            worse.append(f"{name} raises a false alarm: {s.false_alarms[0]}")
        if s.modes_right < before["modes_right"]:
            worse.append(f"{name}: {s.modes_right} mode verdicts are right, {before['modes_right']} were")
    return worse


def main(arguments: list[str]) -> int:
    everything = sorted(p.name for p in ROOT.iterdir() if p.is_dir())
    names = [a for a in arguments if not a.startswith("--")] or everything
    with ThreadPoolExecutor(2) as pool:
        scores = dict(zip(names, pool.map(score, [ROOT / n for n in names]), strict=True))
    summary(scores)
    if "--rebase" in arguments:
        kept = {
            n: {
                "found": s.found,
                "localised": s.localised,
                "alarms": bool(s.false_alarms),
                "modes_right": s.modes_right,
            }
            for n, s in scores.items()
        }
        BASELINE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    worse = against_baseline(scores) if "--baseline" in arguments else []
    for line in worse:
        print(f"WORSE {line}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
