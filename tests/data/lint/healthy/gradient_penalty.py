import torch

critic = torch.nn.Linear(4, 1)
opt = torch.optim.Adam(critic.parameters())
scaler = torch.amp.GradScaler("cuda")
for x in []:
    x.requires_grad_(True)
    with torch.autocast("cuda", dtype=torch.float16):
        out = critic(x).mean()
    scaled = torch.autograd.grad(outputs=scaler.scale(out), inputs=x, create_graph=True)
    inv = 1.0 / scaler.get_scale()
    grads = [p * inv for p in scaled]
    with torch.autocast("cuda", dtype=torch.float16):
        loss = out + sum(g.pow(2).sum() for g in grads).sqrt()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
