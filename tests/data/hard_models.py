"""Models that break tools: recurrent, in-place, checkpointed, sparse, lazy, double backward and so on."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(50, 32)
        self.r = nn.LSTM(32, 32, 2, batch_first=True, bidirectional=True)
        self.h = nn.Linear(64, 5)

    def forward(self, x):
        return self.h(self.r(self.e(torch.arange(20).view(2, 10)))[0])


class GRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.r = nn.GRUCell(16, 16)

    def forward(self, x):
        h = torch.zeros(x.shape[0], 16, device=x.device, dtype=x.dtype)
        for _t in range(4):
            h = self.r(x, h)
        return h


class FFT(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(16, 16)

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(self.l(x).float()) * 2).to(x.dtype)


class Func(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x > 0)


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(16, 16)

    def forward(self, x):
        return Func.apply(self.l(x))


class Ckpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Linear(16, 16), nn.GELU())
        self.b = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.1))

    def forward(self, x):
        return checkpoint(self.b, checkpoint(self.a, x, use_reentrant=True), use_reentrant=False)


class Inplace(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(16, 16)
        self.bn = nn.BatchNorm1d(16)
        self.register_buffer("n", torch.zeros(1))

    def forward(self, x):
        self.n += 1
        y = self.l(x)
        y = F.relu_(self.bn(y))
        z = torch.zeros(2, x.shape[0], 16, dtype=y.dtype)
        z[0] = y
        z[1, :, ::2] = y[:, ::2] * 2
        z.mul_(2)
        return z.sum(0)


class WN(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.utils.parametrizations.weight_norm(nn.Linear(16, 16))
        self.sn = nn.utils.parametrizations.spectral_norm(nn.Linear(16, 16))

    def forward(self, x):
        return self.sn(self.l(x))


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(30, 16, sparse=True)
        self.l = nn.Linear(16, 4)

    def forward(self, x):
        return self.l(self.e(torch.tensor([[1, 2], [3, 4]])))


class MHA(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)

    def forward(self, x):
        return self.t(x[None], src_key_padding_mask=torch.tensor([[False] * 3 + [True]]))


class Einsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 16, 8))

    def forward(self, x):
        return {"a": torch.einsum("bi,kio->bko", x, self.w), "n": 3, "idx": torch.topk(x, 2).indices}


class Double(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x):
        x = x.detach().requires_grad_()
        e = self.l(x).sum()
        (g,) = torch.autograd.grad(e, x, create_graph=True)
        return g


class F64(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(16, 16).double()

    def forward(self, x):
        return self.l(x.double()).float()


class NoParam(nn.Module):
    def forward(self, x):
        return x * 2


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.LazyLinear(4)

    def forward(self, x):
        return self.l(x)


class Share(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(16, 16)

    def forward(self, x):
        for _ in range(3):
            x = x + self.l(x)
        return x


class Bce(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(16, 16)

    def forward(self, x):
        return F.binary_cross_entropy(torch.sigmoid(self.l(x)), torch.ones(4, 16, dtype=x.dtype))


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.ConvTranspose2d(4, 4, 2, 2)
        self.g = nn.InstanceNorm2d(4, affine=True)

    def forward(self, x):
        return F.interpolate(self.g(self.l(x.view(4, 4, 2, 2))), scale_factor=2, mode="bilinear")


class Quant(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.EmbeddingBag(30, 16)
        self.l = nn.Linear(16, 4)
        self.p = nn.PReLU()

    def forward(self, x):
        return self.p(self.l(self.e(torch.tensor([[1, 2], [3, 4]]))))


def example_inputs():
    return (torch.randn(4, 16, generator=torch.Generator().manual_seed(0)),)
