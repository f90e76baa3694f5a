import torch

model = torch.nn.Linear(4, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x in []:
    loss = model(x).pow(2).mean()
    loss.backward()
    for p in model.parameters():
        p.grad = torch.nan_to_num(p.grad)
    norm = sum(p.grad.pow(2).sum() for p in model.parameters()).sqrt()
    opt.step()
    opt.zero_grad()
