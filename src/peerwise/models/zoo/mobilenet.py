"""MobileNetV2 (Sandler et al., 2018): inverted residuals with linear bottlenecks, with a CIFAR stem.

block(x) = project1x1(ReLU6(depthwise3x3(ReLU6(expand1x1(x))))), plus x where the shape is kept
"""

from __future__ import annotations

from torch import Tensor, nn

# expansion, channels, repeats, stride of the first; the paper's table with its two earliest strides set to 1
STAGES = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        layers: list[nn.Module] = [conv(inputs, hidden, 1)] if expansion > 1 else []
        layers += [conv(hidden, hidden, 3, stride, groups=hidden)]
        layers += [nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.body = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.body(x)
        return x + out if self.residual else out


def mobilenet_v2(channels: int, size: int, classes: int) -> nn.Module:
    layers: list[nn.Module] = [conv(channels, 32, 3)]
    inputs = 32
    for expansion, outputs, repeats, stride in STAGES:
        for number in range(repeats):
            layers.append(InvertedResidual(inputs, outputs, expansion, stride if not number else 1))
            inputs = outputs
    layers += [conv(inputs, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2)]
    return nn.Sequential(*layers, nn.Linear(1280, classes))
