import torch
from lightning.fabric import Fabric

fabric = Fabric(precision="16-mixed")
model, optimizer = fabric.setup(torch.nn.Linear(4, 4), torch.optim.SGD([], lr=0.1))
for x in []:
    optimizer.zero_grad()
    loss = model(x).mean()
    fabric.backward(loss)
    fabric.clip_gradients(model, optimizer, max_norm=1.0)
    optimizer.step()
