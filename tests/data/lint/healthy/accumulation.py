import torch
from torch.amp import GradScaler, autocast


def train(net, data, every=4, max_norm=1.0):
    opt = torch.optim.AdamW(net.parameters())
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 100)
    gs = GradScaler("cuda")
    for i, (x, y) in enumerate(data):
        with autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(net(x), y) / every
        gs.scale(loss).backward()
        if (i + 1) % every == 0 or i + 1 == len(data):
            gs.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm)
            gs.step(opt)
            gs.update()
            opt.zero_grad(set_to_none=True)
            sched.step()
