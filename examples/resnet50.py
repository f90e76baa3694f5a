"""ResNet-50 (He et al., 2015) written out, for small images: healthy under autocast."""

import torch
import torch.nn.functional as F
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.reduce = nn.Conv2d(channels, width, 1, bias=False)
        self.spatial = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.expand = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(c) for c in (width, width, 4 * width))
        self.shortcut = None
        if stride != 1 or channels != 4 * width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x):
        y = F.relu(self.norms[0](self.reduce(x)))
        y = F.relu(self.norms[1](self.spatial(y)))
        y = self.norms[2](self.expand(y))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet50(nn.Module):
    def __init__(self, classes=100):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks, channels = [], 64
        for width, depth, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(depth):
                blocks.append(Bottleneck(channels, width, stride if i == 0 else 1))
                channels = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def build_model():
    torch.manual_seed(0)
    model = ResNet50()
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


def example_inputs():
    return (torch.randn(8, 3, 96, 96, generator=torch.Generator().manual_seed(1)),)


def loss(logits):
    return F.cross_entropy(logits, torch.arange(len(logits)) % logits.shape[1])
