import torch


def main(args, model, loader):
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda") if args.amp else None
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
            loss = torch.nn.functional.mse_loss(model(x), y)
        if args.amp:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
        else:
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad()
