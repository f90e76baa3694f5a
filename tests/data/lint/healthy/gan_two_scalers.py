import torch

G, D = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)
og, od = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
sg, sd = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")
for real in []:
    z = torch.randn(4, 8)
    with torch.autocast("cuda", dtype=torch.float16):
        ld = D(G(z).detach()).mean() - D(real).mean()
    od.zero_grad()
    sd.scale(ld).backward()
    sd.step(od)
    sd.update()
    with torch.autocast("cuda", dtype=torch.float16):
        lg = -D(G(z)).mean()
    og.zero_grad()
    sg.scale(lg).backward()
    sg.step(og)
    sg.update()
