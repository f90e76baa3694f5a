import torch


class Trainer:
    def __init__(self, model, loader):
        self.model = model
        self.loader = loader
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def compute(self, batch):
        with torch.autocast("cuda", dtype=torch.float16):
            return self.model(batch).mean()

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self):
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def run(self):
        for batch in self.loader:
            loss = self.compute(batch)
            self.backward(loss)
            self.step()

    def save(self, path):
        torch.save({"opt": self.optimizer.state_dict(), "scaler": self.scaler.state_dict()}, path)

    def load(self, path):
        state = torch.load(path)
        self.optimizer.load_state_dict(state["opt"])
        self.scaler.load_state_dict(state["scaler"])
