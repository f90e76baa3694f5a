import torch

model = torch.nn.Linear(4, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scale = 1024.0
for x in []:
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x).mean()
    (loss * scale).backward()
    for p in model.parameters():
        p.grad.div_(scale)
    if all(torch.isfinite(p.grad).all() for p in model.parameters()):
        opt.step()
    opt.zero_grad()
