"""Recipes for images of 28 or 32 pixels with one or three channels.

Every net takes raw pixels 0..255 and scales them inside. The deep ones have the stem used for CIFAR: 3x3, stride 1,
no pooling. ReLU comes after max-pooling, which gives the same numbers as before it from a quarter of the work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from peerwise.data.rows import Feature, Inputs, Sequences
from peerwise.errors import ModelError
from peerwise.models.fitted import fit_built
from peerwise.models.recipe import Build, Fit
from peerwise.models.zoo.mobilenet import mobilenet_v2
from peerwise.models.zoo.resnet import resnet18, resnet34
from peerwise.models.zoo.vit import vit


class Pixels(nn.Module):
    """uint8 pixels to -1..1, in the memory order in which CPU convolutions are fastest."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        scaled = x.to(torch.float32) / 127.5 - 1.0
        logits: Tensor = self.body(scaled.contiguous(memory_format=torch.channels_last))
        return logits


def small_cnn(channels: int, size: int, classes: int) -> nn.Module:
    """Two 5x5 convolutions (32 and 64 channels) with pooling, then 512 units."""
    side = ((size - 4) // 2 - 4) // 2
    return nn.Sequential(
        *(nn.Conv2d(channels, 32, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(32, 64, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(64 * side * side, 512), nn.ReLU(), nn.Linear(512, classes)),
    )


def lenet(channels: int, size: int, classes: int) -> nn.Module:
    """LeNet-5 (LeCun et al., 1998) with ReLU and max-pooling."""
    side = ((32 - 4) // 2 - 4) // 2
    return nn.Sequential(
        *(nn.Conv2d(channels, 6, 5, padding=(32 - size) // 2), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(16 * side * side, 120), nn.ReLU()),
        *(nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes)),
    )


def lenet5(channels: int, size: int, classes: int) -> nn.Module:
    """LeNet-5 with the tanh and average pooling of 1998, without padding."""
    side = ((size - 4) // 2 - 4) // 2
    return nn.Sequential(
        *(nn.Conv2d(channels, 6, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(16 * side * side, 120), nn.Tanh()),
        *(nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, classes)),
    )


def cnn16(channels: int, size: int, classes: int) -> nn.Module:
    return _light(16, 128, channels, size, classes)


def mlp64(channels: int, size: int, classes: int) -> nn.Module:
    """64 hidden units on all pixels."""
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, 64), nn.ReLU(), nn.Linear(64, classes))


def cnn8(channels: int, size: int, classes: int) -> nn.Module:
    return _light(8, 64, channels, size, classes)


def _light(filters: int, hidden: int, channels: int, size: int, classes: int) -> nn.Module:
    """Two 3x3 convolutions with pooling, the second with twice the filters, then a hidden layer."""
    return nn.Sequential(
        *(nn.Conv2d(channels, filters, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(filters, 2 * filters, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(2 * filters * (size // 4) ** 2, hidden), nn.ReLU(), nn.Linear(hidden, classes)),
    )


def simple_cnn(channels: int, size: int, classes: int) -> nn.Module:
    """Two 5x5 convolutions (8 and 16 channels) with pooling, then 544 units: 149 k parameters on 28x28 grey pixels, the
    size of the simple CNN of FedSOV's paper, which does not give its layers."""
    side = ((size - 4) // 2 - 4) // 2
    return nn.Sequential(
        *(nn.Conv2d(channels, 8, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(8, 16, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(16 * side * side, 544), nn.ReLU(), nn.Linear(544, classes)),
    )


def large_cnn(channels: int, size: int, classes: int) -> nn.Module:
    """Four 3x3 convolutions (32, 64, 128, 128 channels), pooled after the first, second and fourth, then 512 units."""
    side = size // 8
    return nn.Sequential(
        *(nn.Conv2d(channels, 32, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(64, 128, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(128, 128, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(128 * side * side, 512), nn.ReLU(), nn.Linear(512, classes)),
    )


def alexnet(channels: int, size: int, classes: int) -> nn.Module:
    """AlexNet's five convolutions and three dense layers (Krizhevsky et al., 2012), with 3x3 kernels."""
    side = size // 8
    return nn.Sequential(
        *(nn.Conv2d(channels, 64, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(64, 192, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Dropout(0.5), nn.Linear(256 * side * side, 1024), nn.ReLU()),
        *(nn.Dropout(0.5), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, classes)),
    )


Net = Callable[[int, int, int], nn.Module]


def build_image(net: Net, X: Inputs, features: tuple[Feature, ...], classes: int) -> nn.Module:
    shape = None if isinstance(X, Sequences) else X.shape
    if shape is None or len(shape) != 4 or shape[2] != shape[3] or shape[2] not in (28, 32):
        raise ModelError(
            f"image rows of shape {shape}: expected (n, channels, 28, 28) or (n, channels, 32, 32). Resize the images."
        )
    return Pixels(net(shape[1], shape[2], classes))


BUILDS: dict[str, Build] = {
    net.__name__: partial(build_image, net)
    for net in (
        small_cnn,
        lenet,
        lenet5,
        cnn16,
        cnn8,
        mlp64,
        simple_cnn,
        large_cnn,
        alexnet,
        vit,
        mobilenet_v2,
        resnet18,
        resnet34,
    )
}
FITS: dict[str, Fit] = {name: partial(fit_built, build) for name, build in BUILDS.items()}
