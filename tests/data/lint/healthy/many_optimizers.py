import torch

a, b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
optimizers = [torch.optim.SGD(a.parameters(), lr=0.1), torch.optim.Adam(b.parameters())]
scaler = torch.amp.GradScaler("cuda")
for x in []:
    for o in optimizers:
        o.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = b(a(x)).float().square().mean()
    scaler.scale(loss).backward()
    for o in optimizers:
        scaler.unscale_(o)
    torch.nn.utils.clip_grad_norm_(a.parameters(), 1.0)
    torch.nn.utils.clip_grad_norm_(b.parameters(), 1.0)
    for o in optimizers:
        scaler.step(o)
    scaler.update()
