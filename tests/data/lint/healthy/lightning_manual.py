import lightning as L
import torch


class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.g, self.d = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        opt_g, opt_d = self.optimizers()
        loss = self.d(self.g(batch)).mean()
        opt_g.zero_grad()
        self.manual_backward(loss)
        self.clip_gradients(opt_g, 1.0)
        opt_g.step()

    def configure_optimizers(self):
        return torch.optim.Adam(self.g.parameters()), torch.optim.Adam(self.d.parameters())
