import torch

model = torch.nn.Linear(4, 4)
opt = torch.optim.AdamW(model.parameters())
for x in []:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(x).float().pow(2).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
torch.save({"opt": opt.state_dict()}, "last.pt")
