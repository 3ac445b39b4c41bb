"""FedOV's destroyed images: what a site shows its net as "unknown". All images of a batch at once, torch's own chance.

Pixels are float32 of 0..255, (n, channels, height, width), as nets for images take them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from peerwise.models.open_set.rearrange import cut, rotate

Negative = Callable[[Tensor], Tensor]
CROPPED, ERASED = (0.10, 0.33), (0.33, 0.50)  # shares of the area
CROP_RATIO, ERASE_RATIO = (3 / 4, 4 / 3), (0.3, 3.3)  # height by width
BLUR_LONG, BLUR_SHORT, BLUR_SIGMA = (3, 5, 7, 9), (1, 3, 5), (10.0, 100.0)


def destroyed(images: Tensor) -> Tensor:
    """One operation for each image, drawn from seven slots: crop, blur, erase, cut (twice), rotate (twice)."""
    pick = torch.randint(len(SLOTS), (len(images),), device=images.device)
    found = torch.empty_like(images)
    for operation in dict.fromkeys(SLOTS):
        slots = [slot for slot, other in enumerate(SLOTS) if other is operation]
        chosen = torch.isin(pick, torch.tensor(slots, device=images.device))
        if chosen.any():
            found[chosen] = operation(images[chosen])
    return found


def crop(images: Tensor) -> Tensor:
    """10 to 33 % of the area, blown up to the whole."""
    height, width = _sides(images, CROPPED, CROP_RATIO)
    centre = torch.rand(2, len(images), device=images.device) * 2 - 1
    zero = torch.zeros_like(height)
    across = torch.stack([width, zero, centre[0] * (1 - width)], dim=1)
    down = torch.stack([zero, height, centre[1] * (1 - height)], dim=1)
    grid = nn.functional.affine_grid(torch.stack([across, down], dim=1), list(images.shape), align_corners=False)
    return nn.functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def blur(images: Tensor) -> Tensor:
    """A strong Gaussian, 3 to 9 pixels one way and 1 to 5 the other."""
    n, device = len(images), images.device
    sigma = BLUR_SIGMA[0] + torch.rand(n, device=device) * (BLUR_SIGMA[1] - BLUR_SIGMA[0])
    long = torch.tensor(BLUR_LONG, device=device)[torch.randint(len(BLUR_LONG), (n,), device=device)]
    short = torch.tensor(BLUR_SHORT, device=device)[torch.randint(len(BLUR_SHORT), (n,), device=device)]
    upright = torch.rand(n, device=device) < 0.5
    soft = _blurred_along(images, torch.where(upright, long, short), sigma)
    return _blurred_along(soft.mT, torch.where(upright, short, long), sigma).mT


def _blurred_along(images: Tensor, size: Tensor, sigma: Tensor) -> Tensor:
    """Down the columns, with a kernel of its own for each image: a weighted sum of shifted images."""
    reach = BLUR_LONG[-1] // 2
    offset = torch.arange(-reach, reach + 1, device=images.device)
    kernel = torch.exp(-0.5 * (offset / sigma[:, None]) ** 2) * (offset.abs() <= size[:, None] // 2)
    kernel = kernel / kernel.sum(dim=1, keepdim=True)
    padded = nn.functional.pad(images, (0, 0, reach, reach), mode="reflect")
    found = torch.zeros_like(images)
    for place in range(len(offset)):
        found += kernel[:, place, None, None, None] * padded[:, :, place : place + images.shape[2]]
    return found


def erase(images: Tensor) -> Tensor:
    """33 to 50 % of the area is black."""
    n, _, height, width = images.shape
    shares = _sides(images, ERASED, ERASE_RATIO)
    inside = []
    for size, share in zip((height, width), shares, strict=True):
        length = (share * size).round().long().clamp(1, size)
        start = (torch.rand(n, device=images.device) * (size - length + 1)).long()
        place = torch.arange(size, device=images.device)
        inside.append((place >= start[:, None]) & (place < (start + length)[:, None]))
    return images.masked_fill((inside[0][:, :, None] & inside[1][:, None, :])[:, None], 0.0)


def _sides(images: Tensor, area: tuple[float, float], ratio: tuple[float, float]) -> tuple[Tensor, Tensor]:
    """Height and width of a rectangle that fits, as shares of the image's: area and log ratio are drawn evenly."""
    share = area[0] + torch.rand(len(images), device=images.device) * (area[1] - area[0])
    low = share.log().clamp(min=math.log(ratio[0]))
    high = (-share.log()).clamp(max=math.log(ratio[1]))
    drawn = torch.exp(low + torch.rand_like(share) * (high - low))
    return torch.sqrt(share * drawn), torch.sqrt(share / drawn)


SLOTS: tuple[Negative, ...] = (crop, blur, erase, cut, cut, rotate, rotate)
