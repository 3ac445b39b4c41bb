"""A small vision transformer (Dosovitskiy et al., 2021): 4x4 patches, a class token, pre-norm encoder layers.

x = x + attention(norm(x)),  x = x + mlp(norm(x))
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTH, HEADS, DEPTH, PATCH = 128, 4, 6, 4


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.shape[1]
        parts = self.queries_keys_values(self.norm(x)).reshape(-1, tokens, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(mixed.transpose(1, 2).reshape(-1, tokens, WIDTH))
        changed: Tensor = self.mlp(x)
        return x + changed


class VisionTransformer(nn.Module):
    def __init__(self, channels: int, size: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, WIDTH, PATCH, PATCH)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.position = nn.Parameter(0.02 * torch.randn(1, (size // PATCH) ** 2 + 1, WIDTH))
        self.encoder = nn.Sequential(*(Encoder() for _ in range(DEPTH)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, classes))

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        token = self.token.expand(x.shape[0], -1, -1)
        encoded = self.encoder(torch.cat([token, patches], dim=1) + self.position)
        logits: Tensor = self.head(encoded[:, 0])
        return logits


def vit(channels: int, size: int, classes: int) -> nn.Module:
    return VisionTransformer(channels, size, classes)
