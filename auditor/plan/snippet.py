"""The plan as a training loop a person can paste."""

from __future__ import annotations

from auditor.contract import LossScale
from auditor.plan.solve import Solved

_DTYPES = {"fp16": "torch.float16", "bf16": "torch.bfloat16"}
_TF32 = [
    "# TF32 for matrix products; everything else stays FP32",
    'torch.backends.cuda.matmul.fp32_precision = "tf32"',
    'torch.backends.cudnn.conv.fp32_precision = "tf32"',
    "",
]
_PLAIN_STEP = ["        optimizer.step()"]
_SCALED_STEP = [
    "        scaler.step(optimizer)  # skips the step when gradients are not finite",
    "        scaler.update()  # once a step, after it",
]


def _regions(solved: Solved, device_type: str) -> list[str]:
    if not solved.regions:
        return []
    wide = sum(p == "fp32" for p in solved.regions.values())
    return [
        "from auditor.apply.regions import apply_regions",
        "",
        f"apply_regions(model, {{  # {wide} in FP32",
        *(f"    {path!r}: {precision!r}," for path, precision in solved.regions.items()),
        f"}}, device_type={device_type!r})",
        "",
    ]


def _loss(solved: Solved, device_type: str) -> list[str]:
    if solved.base not in _DTYPES:
        return ["    loss = compute_loss(model, batch) / accumulate"]
    autocast = f'    with torch.autocast("{device_type}", dtype={_DTYPES[solved.base]}):'
    if not solved.fp32_loss:
        return [autocast, "        loss = compute_loss(model, batch) / accumulate"]
    return [
        autocast,
        "        output = model(batch)",
        "    loss = compute_loss(output.float(), batch) / accumulate  # FP32, outside autocast",
    ]


def training_snippet(solved: Solved, scale: LossScale, device_type: str) -> str:
    """Python for the user's loop: autocast, regions, and the order of scaling, clipping and stepping."""
    scaled = solved.base in _DTYPES and scale.needed and scale.initial is not None
    scaler = f'scaler = torch.amp.GradScaler("{device_type}", init_scale=2.0**{scale.log2})'
    lines = [
        "import torch",
        "",
        "# yours: model, optimizer, loader, compute_loss(...), and",
        "accumulate, max_norm = 1, 1.0  # batches an optimizer step sums over; the clipping threshold",
        "",
        *(_TF32 if solved.base == "tf32" else []),
        *_regions(solved, device_type),
        *([scaler, ""] if scaled else []),
        "for step, batch in enumerate(loader):",
        *_loss(solved, device_type),
        "    scaler.scale(loss).backward()" if scaled else "    loss.backward()",
        "    if (step + 1) % accumulate == 0:",
        *(["        scaler.unscale_(optimizer)  # once, before clipping"] if scaled else []),
        "        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)",
        *(_SCALED_STEP if scaled else _PLAIN_STEP),
        "        optimizer.zero_grad(set_to_none=True)",
    ]
    return "\n".join(lines) + "\n"
