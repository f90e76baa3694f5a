import torch
from torch import nn

model = nn.Linear(4, 1).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x, y in []:
    opt.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        out = model(x)
        loss = nn.functional.mse_loss(out, y)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
