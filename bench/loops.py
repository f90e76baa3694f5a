"""Training scripts with a fault in their mixed-precision handling, and their mended twins.

    python bench/loops.py [CASE ...] [--baseline] [--rebase]

Every `train.py` and `fixed.py` of bench/loops is read as `ampaudit lint` reads it. A fault is *found* when
`train.py` has a finding of the rule for the case's kind, *localised* when that stands on one of the case's
lines; a *false alarm* is any finding on `fixed.py`, or of another kind above low on `train.py`.
`--baseline` fails when a case is worse than bench/loops_baseline.json says; `--rebase` writes it anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tomllib import loads
from typing import Any

from auditor.judge.rules import load_rules
from auditor.lint.check import check_file

ROOT = Path(__file__).parent / "loops"
BASELINE = Path(__file__).parent / "loops_baseline.json"
RULE_OF = {
    "clip_without_unscale": "AMP301",
    "optimizer_step_bypasses_scaler": "AMP302",
    "missing_update": "AMP303",
    "double_update": "AMP304",
    "unscale_in_accumulation": "AMP305",
    "scaler_step_without_grads": "AMP307",
    "scaler_with_bf16": "AMP308",
    "half_weights_with_scaler": "AMP309",
    "grad_norm_half": "AMP310",
    "gradient_penalty_without_scaling": "AMP311",
    "custom_function_without_custom_fwd": "AMP312",
    "loss_outside_autocast": "AMP313",
    "autocast_cache_no_grad": "AMP314",
    "nonfinite_grads_replaced": "AMP315",
    "scaler_state_not_saved": "AMP316",
    "eval_half_inputs": "AMP317",
    "deprecated_api": "AMP318",
}


def score(folder: Path) -> dict[str, Any]:
    rules = load_rules()
    case = loads((folder / "case.toml").read_text(encoding="utf-8"))
    faulty = () if case["clean"] else check_file(folder / "train.py", rules).findings
    right = [f for f in faulty if f.rule == RULE_OF.get(case.get("kind", ""))]
    twins = [folder / "train.py"] if case["clean"] else [folder / "fixed.py"]
    alarms = [f for t in twins for f in check_file(t, rules).findings]
    alarms += [f for f in faulty if f not in right and f.severity in ("high", "medium")]
    return {
        "clean": case["clean"],
        "found": bool(right),
        "localised": any(f.line in case.get("lines", ()) for f in right),
        "alarms": [f"{f.rule} line {f.line}" for f in alarms],
        "said": [f"{f.rule} line {f.line}" for f in faulty],
    }


def _worse(now: dict[str, Any], before: dict[str, Any]) -> bool:
    lost = any(before[k] and not now[k] for k in ("found", "localised"))
    return lost or now["alarms"] > before["alarms"]


def main(arguments: list[str]) -> int:
    names = [a for a in arguments if not a.startswith("--")] or sorted(
        p.name for p in ROOT.iterdir() if p.is_dir()
    )
    scores = {name: score(ROOT / name) for name in names}
    faults = {n: s for n, s in scores.items() if not s["clean"]}
    for name, s in scores.items():
        if name in faults and not s["localised"]:
            print(
                f"{'MISPLACED' if s['found'] else 'MISSED'} {name}: said {', '.join(s['said']) or 'nothing'}"
            )
        if s["alarms"]:
            print(f"FALSE ALARM {name}: {', '.join(s['alarms'])}")
    print(
        f"found {sum(s['found'] for s in faults.values())}/{len(faults)}, "
        f"localised {sum(s['localised'] for s in faults.values())}/{len(faults)}, "
        f"false alarms on {sum(bool(s['alarms']) for s in scores.values())} of {len(scores)} cases"
    )
    kept = {
        n: {"found": s["found"], "localised": s["localised"], "alarms": len(s["alarms"])}
        for n, s in scores.items()
    }
    if "--rebase" in arguments:
        BASELINE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if "--baseline" not in arguments:
        return 0
    before = json.loads(BASELINE.read_text(encoding="utf-8"))
    worse = [n for n, s in kept.items() if n in before and _worse(s, before[n])]
    for name in worse:
        print(f"WORSE {name}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
