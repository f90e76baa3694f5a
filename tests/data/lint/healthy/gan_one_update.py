import torch

G, D = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)
og = torch.optim.Adam(G.parameters())
od = torch.optim.Adam(D.parameters())
scaler = torch.amp.GradScaler("cuda")
for real in []:
    z = torch.randn(4, 8)
    with torch.autocast("cuda", dtype=torch.float16):
        ld = D(G(z).detach()).mean() - D(real).mean()
    od.zero_grad()
    scaler.scale(ld).backward()
    scaler.step(od)
    with torch.autocast("cuda", dtype=torch.float16):
        lg = -D(G(z)).mean()
    og.zero_grad()
    scaler.scale(lg).backward()
    scaler.step(og)
    scaler.update()
