"""A small U-Net that predicts the noise of a diffusion step: healthy under autocast."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, channels, out, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, channels), nn.Conv2d(channels, out, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, out), nn.Conv2d(out, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.skip = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, width=32, time=64):
        super().__init__()
        self.time_mlp = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.width = width
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([Block(width, width, time), Block(width, 2 * width, time)])
        self.middle = Block(2 * width, 2 * width, time)
        self.up = nn.ModuleList([Block(4 * width, width, time), Block(2 * width, width, time)])
        self.leave = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def embed(self, steps):
        frequencies = torch.exp(-math.log(10000) * torch.arange(self.width // 2) / (self.width // 2))
        angles = steps.float()[:, None] * frequencies
        return self.time_mlp(torch.cat([angles.sin(), angles.cos()], dim=-1))

    def forward(self, image, steps):
        t = self.embed(steps)
        h, skips = self.enter(image), []
        for block in self.down:
            h = block(h, t)
            skips.append(h)
            h = F.avg_pool2d(h, 2)
        h = self.middle(h, t)
        for block in self.up:
            h = F.interpolate(h, scale_factor=2, mode="nearest")
            h = block(torch.cat([h, skips.pop()], dim=1), t)
        return self.leave(h)


class NoisePrediction(nn.Module):
    """Noises a clean image at random steps and returns the prediction with its target."""

    def __init__(self):
        super().__init__()
        self.unet = UNet()
        betas = torch.linspace(1e-4, 0.02, 1000)
        self.register_buffer("alphas", torch.cumprod(1 - betas, dim=0))

    def forward(self, image, noise, steps):
        alpha = self.alphas[steps][:, None, None, None]
        return self.unet(alpha.sqrt() * image + (1 - alpha).sqrt() * noise, steps), noise


def build_model():
    torch.manual_seed(0)
    return NoisePrediction()


def example_inputs():
    generator = torch.Generator().manual_seed(1)
    image = torch.rand(4, 3, 32, 32, generator=generator) * 2 - 1
    return image, torch.randn(4, 3, 32, 32, generator=generator), torch.tensor([10, 300, 600, 950])


def loss(output):
    prediction, noise = output
    return F.mse_loss(prediction, noise)
