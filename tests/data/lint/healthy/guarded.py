import contextlib
import torch


def main(args, model, loader):
    optimizer = torch.optim.Adam(model.parameters())
    use_amp = args.amp
    scaler = torch.amp.GradScaler("cuda") if use_amp else None
    context = torch.autocast("cuda", dtype=torch.float16) if use_amp else contextlib.nullcontext()
    for x, y in loader:
        with context:
            loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        if scaler is not None:
            scaler.scale(loss).backward()
            if args.clip:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            if args.clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            optimizer.step()
