import torch

net, extra = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
o1, o2 = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(extra.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for i, x in enumerate([]):
    o1.zero_grad()
    o2.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        if i % 2:
            x = extra(x)
        loss = net(x).mean()
    scaler.scale(loss).backward()
    scaler.step(o1)
    if i % 2:
        scaler.step(o2)
    scaler.update()
