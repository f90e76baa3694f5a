import contextlib
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def train(rank, net, loader, accum):
    net = DDP(net.to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for it, (x, y) in enumerate(loader):
        sync = (it + 1) % accum == 0
        with contextlib.nullcontext() if sync else net.no_sync():
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.cross_entropy(net(x), y) / accum
            scaler.scale(loss).backward()
        if not sync:
            continue
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
