"""Residual networks (He et al., 2016) with the stem used for CIFAR.

block(x) = ReLU(BN(conv3x3(ReLU(BN(conv3x3(x))))) + shortcut(x))
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()),
            *(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet(blocks: tuple[int, int, int, int], channels: int, classes: int) -> nn.Module:
    """Four stages of ``blocks`` at 64, 128, 256 and 512 channels; each stage after the first halves the image."""
    layers: list[nn.Module] = [nn.Conv2d(channels, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    inputs = 64
    for stage, count in enumerate(blocks):
        outputs = 64 * 2**stage
        for number in range(count):
            layers.append(Block(inputs, outputs, 2 if stage and not number else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def resnet18(channels: int, size: int, classes: int) -> nn.Module:
    return resnet((2, 2, 2, 2), channels, classes)


def resnet34(channels: int, size: int, classes: int) -> nn.Module:
    return resnet((3, 4, 6, 3), channels, classes)
