import torch


def penalty(critic, x):
    with torch.autocast("cuda", enabled=False):
        x = x.float().requires_grad_(True)
        out = critic(x).sum()
        (g,) = torch.autograd.grad(out, x, create_graph=True)
    return (g.norm(dim=1) - 1).pow(2).mean()


def train(critic, data):
    opt = torch.optim.Adam(critic.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x in data:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = critic(x).mean()
            loss = loss + penalty(critic, x)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
