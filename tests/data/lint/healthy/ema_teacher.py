import copy
import torch

student = torch.nn.Linear(4, 4)
teacher = copy.deepcopy(student).requires_grad_(False)
opt = torch.optim.AdamW(student.parameters())
scaler = torch.amp.GradScaler("cuda")
for x in []:
    with torch.autocast("cuda", dtype=torch.float16):
        with torch.no_grad():
            target = teacher(x)
        loss = torch.nn.functional.mse_loss(student(x), target)
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    with torch.no_grad():
        for t, s in zip(teacher.parameters(), student.parameters()):
            t.lerp_(s, 0.01)
