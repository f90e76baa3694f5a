import torch


def go(model, get_batch, steps, dtype, grad_clip, micro):
    scaler = torch.amp.GradScaler("cuda", enabled=(dtype == "float16"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4)
    ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
    ctx = torch.amp.autocast(device_type="cuda", dtype=ptdtype)
    x, y = get_batch()
    while True:
        for micro_step in range(micro):
            with ctx:
                logits, loss = model(x, y)
                loss = loss / micro
            x, y = get_batch()
            scaler.scale(loss).backward()
        if grad_clip != 0.0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        steps -= 1
        if steps == 0:
            break
