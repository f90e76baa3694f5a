"""Nine small cases that separate precision tools: which line is at fault, and two that are sound."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, masked):
        super().__init__()
        self.proj, self.masked = nn.Linear(16, 16), masked

    def forward(self, x):
        mask = torch.zeros(8, 8, dtype=x.dtype)
        mask[:, 5:] = 1
        if self.masked:
            mask[3] = 1
        h = self.proj(x)
        scores = h @ h.transpose(-2, -1) / 4
        bias = mask * -1e9
        weights = torch.softmax(scores + bias, dim=-1)  # fault of masked_row
        return weights @ h


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj, self.weight = nn.Linear(16, 16), nn.Parameter(torch.ones(16))
        nn.init.constant_(self.proj.bias, 300.0)

    def forward(self, x):
        h = self.proj(x)
        mean = h.pow(2).mean(-1, keepdim=True)  # fault of rms_norm
        return h * torch.rsqrt(mean + 1e-6) * self.weight


class Logits(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 10)
        nn.init.normal_(self.head.weight, std=3e4)

    def forward(self, x):
        logits = self.head(x)  # fault of logits
        return F.cross_entropy(logits.flatten(0, 1), torch.arange(16) % 10)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        return self.net(x)


class ConstantRows(nn.Module):
    def __init__(self, by_hand):
        super().__init__()
        self.norm, self.by_hand = nn.LayerNorm(16, eps=1e-12), by_hand
        self.shift = nn.Parameter(torch.zeros(16))

    def forward(self, x):
        h = torch.full_like(x, 0.5) + self.shift
        if not self.by_hand:
            return 1000 * self.norm(h) + x  # fault of layer_norm
        gap = h - h.mean(-1, keepdim=True)
        var = gap.pow(2).mean(-1, keepdim=True)
        return gap / torch.sqrt(var + 1e-12) + x  # fault of layer_norm_by_hand


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(16, 8)

    def forward(self, x):
        h = self.proj(x)
        place = torch.arange(4096, dtype=h.dtype)  # fault of positions
        angle = place[:, None] * torch.tensor([1.0, 0.5, 0.25, 0.125], dtype=h.dtype)
        return torch.cat([angle.sin(), angle.cos()], -1) @ h[0].t()


class Count(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        ones = torch.ones(70_000, dtype=x.dtype) * self.scale
        return ones.sum()  # fault of count


def _seeded(make):
    def build():
        torch.manual_seed(0)
        return make()

    return build


mask = _seeded(lambda: Attention(False))
masked_row = _seeded(lambda: Attention(True))
rms_norm = _seeded(RMSNorm)
logits = _seeded(Logits)
mlp = _seeded(MLP)
layer_norm = _seeded(lambda: ConstantRows(False))
layer_norm_by_hand = _seeded(lambda: ConstantRows(True))
positions = _seeded(Positions)
count = _seeded(Count)


def example_inputs():
    return (torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(0)),)
