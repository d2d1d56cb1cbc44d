"""Networks of a user's own: sound ones, and one for each thing that must not happen."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Net(nn.Module):
    """All that travels: parameters, tied ones, buffers of several types, and layers that differ by mode."""

    def __init__(self, shape: tuple[int, ...], outputs: int, width: int = 16) -> None:
        super().__init__()
        self.first = nn.Linear(shape[0], width)
        self.norm = nn.BatchNorm1d(width)
        self.middle = nn.Linear(width, width)
        self.again = nn.Linear(width, width)
        self.again.weight = self.middle.weight
        self.dropout = nn.Dropout(0.5)
        self.last = nn.Linear(width, outputs)
        self.register_buffer("scale", torch.tensor(2.0))
        self.register_buffer("order", torch.arange(outputs).flip(0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm(self.first(x)).tanh()
        hidden = self.again(self.dropout(self.middle(hidden).relu()))
        return (self.last(hidden) / self.scale)[:, self.order]


class Perceptron(nn.Module):
    """The built-in network of type mlp."""

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(shape[0], 16), nn.Linear(16, 16)])
        self.head = nn.Linear(16, outputs)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return self.head(x)


class Attention(nn.Module):
    """A transformer's layer over the numbers of an observation."""

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.embed = nn.Linear(1, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.last = nn.Linear(8 * shape[0], outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layer(self.embed(x[..., None])).flatten(1))


class Pixels(nn.Module):
    """Convolutions of images as bytes."""

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        height, width, channels = shape
        self.convolution = nn.Conv2d(channels, 4, 3, padding=1)
        self.last = nn.Linear(4 * height * width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.uint8:
            raise TypeError(f"{x.dtype} are no bytes")
        return self.last(self.convolution(x.permute(0, 3, 1, 2) / 255).relu().flatten(1))


class Wide(Net):
    """One number too many."""

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__(shape, outputs + 1)


class Raises(Net):
    def forward(self, x: Tensor) -> Tensor:
        raise ValueError(f"no idea of {len(x)}")


class Counts(Net):
    """State that a forward changes."""

    def forward(self, x: Tensor) -> Tensor:
        self.scale += 1
        return super().forward(x)


class Noisy(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + torch.randn_like(x))


class AlwaysDrops(Net):
    """Dropout that knows no evaluation mode."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(nn.functional.dropout(x))


class Branches(Net):
    """A branch on the batch's size."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + (0.5 if x.shape[0] == 1 else 0.0)


class OfTheBatch(Net):
    """Statistics of the batch, as in training mode."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0))


class OfTheWeights(Net):
    """A branch on a parameter: the file would have one side of it."""

    def forward(self, x: Tensor) -> Tensor:
        if self.scale.item() == 2.0:
            return super().forward(x)
        return -super().forward(x)


class OfTheExport(Net):
    """A branch that only the export takes, as libraries have for what it cannot follow."""

    def forward(self, x: Tensor) -> Tensor:
        return -super().forward(x) if torch.compiler.is_exporting() else super().forward(x)


class OfNumPy(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.from_numpy(x.numpy()[:, :1])


class Lazy(nn.Module):
    def __init__(self, _: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.last = nn.LazyLinear(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x)


class Doubles(Net):
    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__(shape, outputs)
        self.double()
