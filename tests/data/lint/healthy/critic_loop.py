import torch


def fit(gen, critic, batches, opt_g, opt_c):
    scaler = torch.amp.GradScaler("cuda")
    for real in batches:
        for _ in range(5):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = critic(gen(real).detach()).mean() - critic(real).mean()
            opt_c.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(opt_c)
            scaler.update()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = -critic(gen(real)).mean()
        opt_g.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt_g)
        scaler.update()
