"""The plan as a training loop a person can paste."""

from __future__ import annotations

from auditor.contract import LossScale
from auditor.plan.solve import Solved

_DTYPES = {"fp16": "torch.float16", "bf16": "torch.bfloat16"}


def training_snippet(solved: Solved, scale: LossScale, device_type: str) -> str:
    """Python for the user's loop: autocast, regions, and the order of scaling, clipping and stepping."""
    lines = ["import torch", ""]
    if solved.base == "tf32":
        lines += [
            "# TF32 for matrix products; everything else stays FP32",
            'torch.backends.cuda.matmul.fp32_precision = "tf32"',
            'torch.backends.cudnn.conv.fp32_precision = "tf32"',
            "",
        ]
    if solved.base not in _DTYPES:
        lines += [
            "for step, batch in enumerate(loader):",
            "    loss = compute_loss(model, batch) / accumulate",
            "    loss.backward()",
            "    if (step + 1) % accumulate == 0:",
            "        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)",
            "        optimizer.step()",
            "        optimizer.zero_grad(set_to_none=True)",
        ]
        return "\n".join(lines) + "\n"
    regions = solved.regions
    if regions:
        lines += ["from auditor.apply.regions import apply_regions", ""]
        lines += [f"apply_regions(model, {{  # {sum(p == 'fp32' for p in regions.values())} in FP32"]
        lines += [f"    {path!r}: {precision!r}," for path, precision in regions.items()]
        lines += [f"}}, device_type={device_type!r})", ""]
    scaled = scale.needed and scale.initial is not None
    if scaled:
        lines += [f'scaler = torch.amp.GradScaler("{device_type}", init_scale=2.0**{scale.log2})', ""]
    lines += [
        "for step, batch in enumerate(loader):",
        f'    with torch.autocast("{device_type}", dtype={_DTYPES[solved.base]}):',
    ]
    if solved.fp32_loss:
        lines += [
            "        output = model(batch)",
            "    loss = compute_loss(output.float(), batch) / accumulate  # FP32, outside autocast",
        ]
    else:
        lines += ["        loss = compute_loss(model, batch) / accumulate"]
    if scaled:
        lines += [
            "    scaler.scale(loss).backward()",
            "    if (step + 1) % accumulate == 0:",
            "        scaler.unscale_(optimizer)  # once, before clipping",
            "        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)",
            "        scaler.step(optimizer)  # skips the step when gradients are not finite",
            "        scaler.update()  # once a step, after it",
            "        optimizer.zero_grad(set_to_none=True)",
        ]
    else:
        lines += [
            "    loss.backward()",
            "    if (step + 1) % accumulate == 0:",
            "        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)",
            "        optimizer.step()",
            "        optimizer.zero_grad(set_to_none=True)",
        ]
    return "\n".join(lines) + "\n"
