"""Images whose pixels are moved about, all of a batch at once: cut, rotated and shuffled. Chance is torch's own.

Every function takes pixels (n, channels, height, width) and gives as many of the same shape. Each is an index: pixel p
of the answer is pixel ``index[p]`` of the image, so nothing is computed image by image.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def rearranged(images: Tensor, index: Tensor) -> Tensor:
    """Pixel p of image i is its pixel ``index[i, p]``; index (n, height * width), the same for all channels."""
    flat = images.flatten(2)
    return flat.gather(2, index[:, None].expand(-1, flat.shape[1], -1)).view_as(images)


def cut(images: Tensor) -> Tensor:
    """Half of the columns or of the rows lies elsewhere: with chance 2/3 one band is copied over another that begins at
    least a quarter of the side away, else the halves change places."""
    n, _, height, width = images.shape
    device = images.device
    by_rows = torch.rand(n, device=device) < 0.5
    swapped = torch.rand(n, device=device) < 1 / 3
    rows = torch.where(by_rows[:, None], _cut_line(n, height, swapped), torch.arange(height, device=device))
    columns = torch.where(by_rows[:, None], torch.arange(width, device=device), _cut_line(n, width, swapped))
    return rearranged(images, (rows[:, :, None] * width + columns[:, None, :]).flatten(1))


def _cut_line(n: int, size: int, swapped: Tensor) -> Tensor:
    """Where each place of a line comes from, (n, size)."""
    place = torch.arange(size, device=swapped.device).expand(n, size)
    half = size // 2
    gap = max(1, half // 2)
    ends = size - half + 1  # where a band may begin
    shift = torch.randint(gap, max(ends, gap + 1), (n,), device=swapped.device)
    low = (torch.rand(n, device=swapped.device) * (ends - shift).clamp(min=1)).long()
    forward = torch.rand(n, device=swapped.device) < 0.5
    start = torch.where(forward, low, low + shift)[:, None]
    step = torch.where(forward, shift, -shift)[:, None]
    copied = torch.where((place >= start) & (place < start + half), place + step, place)
    return torch.where(swapped[:, None], (place + half) % size, copied.clamp(0, size - 1))


def rotate(images: Tensor) -> Tensor:
    """In a horizontal band of half the height, the squares at the left and at the right are turned by multiples of 90
    degrees, at least one of them by more than none."""
    n, _, height, width = images.shape
    device = images.device
    half = min(height, width) // 2
    top = torch.randint(0, height - half + 1, (n, 1), device=device)
    turns = torch.randint(1, 16, (n,), device=device)  # left and right, 0 to 3 each, not both 0
    index = torch.arange(height * width, device=device).expand(n, -1).clone()
    down, along = (part.flatten() for part in torch.meshgrid(*[torch.arange(half, device=device)] * 2, indexing="ij"))
    last = half - 1
    sources = torch.stack([down * width + along, along * width + last - down,
                           (last - down) * width + last - along, (last - along) * width + down])  # fmt: skip
    for left, turn in ((0, turns // 4), (width - half, turns % 4)):
        corner = top * width + left
        index.scatter_(1, corner + down * width + along, corner + sources[turn])
    return rearranged(images, index)


def shuffled(images: Tensor, grids: tuple[int, ...] = (2, 4), band: int = 1) -> Tensor:
    """Patches of a g x g grid change places, none stays, g drawn for each image from ``grids``; then ``band`` pixels on
    either side of every border are their 3 x 3 means, so that no edge tells what was done."""
    pick = torch.randint(len(grids), (len(images),), device=images.device)
    found = torch.empty_like(images)
    for place, grid in enumerate(grids):
        chosen = pick == place
        if chosen.any():
            found[chosen] = _smoothed(_patches_moved(images[chosen], grid), grid, band)
    return found


def _patches_moved(images: Tensor, grid: int) -> Tensor:
    n, _, height, width = images.shape
    down, along = height // grid, width // grid
    order = torch.rand(n, grid * grid, device=images.device).argsort(dim=1)
    source = torch.empty_like(order).scatter_(1, order, order.roll(1, dims=1))  # one cycle through all: none stays
    y, x = torch.meshgrid(
        torch.arange(height, device=images.device), torch.arange(width, device=images.device), indexing="ij"
    )
    patch = (y // down).clamp(max=grid - 1) * grid + (x // along).clamp(max=grid - 1)
    from_patch = source[:, patch.flatten()]
    moved_y = from_patch // grid * down + (y % down).flatten()
    moved_x = from_patch % grid * along + (x % along).flatten()
    return rearranged(images, moved_y * width + moved_x)


def _smoothed(images: Tensor, grid: int, band: int) -> Tensor:
    if not band:
        return images
    soft = nn.functional.avg_pool2d(images, 3, stride=1, padding=1, count_include_pad=False)
    near = [_near_border(size, grid, band, images.device) for size in images.shape[2:]]
    return torch.where(near[0][:, None] | near[1][None, :], soft, images)


def _near_border(size: int, grid: int, band: int, device: torch.device) -> Tensor:
    place = torch.arange(size, device=device)
    borders = torch.arange(1, grid, device=device) * (size // grid)
    return ((place[:, None] >= borders - band) & (place[:, None] < borders + band)).any(dim=1)
