"""Made-up outliers: what is done to a batch is what its definition does to each image or row."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from peerwise.data.rows import Feature
from peerwise.errors import DataError
from peerwise.models.open_set.destroy import blur, crop, destroyed, erase
from peerwise.models.open_set.outliers import outliers_for
from peerwise.models.open_set.rearrange import cut, rotate, shuffled
from peerwise.models.open_set.table_rows import blended, permuted

WAYS = [crop, blur, erase, cut, rotate, destroyed, shuffled]
seeds = st.integers(0, 2**31 - 1)


def _numbered(n: int, side: int, channels: int = 1) -> Tensor:
    """Every pixel has a value of its own, so that one can see where it went."""
    plane = torch.arange(1, side * side + 1, dtype=torch.float32).view(1, 1, side, side)
    return plane.expand(n, channels, side, side).contiguous()


def _places(images: Tensor) -> list[np.ndarray]:
    return [image[0].long().numpy() - 1 for image in images]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32), (2, 8)])
def test_every_image_is_destroyed_and_stays_an_image(way, channels, side):
    torch.manual_seed(0)
    images = torch.rand(60, channels, side, side) * 255
    before = images.clone()
    found = way(images)
    assert found.shape == images.shape
    assert found.dtype == torch.float32
    assert torch.equal(images, before)
    assert (found != images).flatten(1).any(dim=1).all()
    assert found.min() >= 0
    assert found.max() <= 255.001


@pytest.mark.parametrize("way", WAYS)
def test_the_same_seed_makes_the_same_outliers_and_another_makes_others(way):
    images = torch.rand(20, 1, 28, 28) * 255

    def made(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return way(images)

    assert torch.equal(made(1), made(1))
    assert not torch.equal(made(1), made(2))


@pytest.mark.parametrize("way", WAYS)
def test_no_image_and_one_image_are_batches_too(way):
    torch.manual_seed(0)
    assert way(torch.rand(1, 1, 28, 28)).shape == (1, 1, 28, 28)
    if way in (destroyed, shuffled):
        assert way(torch.rand(0, 1, 28, 28)).shape == (0, 1, 28, 28)


@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from([8, 28, 32]))
def test_cut_moves_a_band_of_half_the_side_or_swaps_the_halves(seed, side):
    torch.manual_seed(seed)
    half = side // 2
    rows, columns = np.arange(side)[:, None], np.arange(side)
    for found in _places(cut(_numbered(16, side))):
        sideways = (found // side == rows).all()
        line = (found % side)[0] if sideways else (found // side)[:, 0]
        assert (found == (rows * side + line if sideways else line[:, None] * side + columns)).all()
        if (line == np.roll(columns, -half)).all():
            continue
        moved = np.flatnonzero(line != columns)
        assert len(moved) == half
        assert (np.diff(moved) == 1).all()
        step = np.unique(line[moved] - moved)
        assert len(step) == 1
        assert half // 2 <= abs(step[0]) <= half


def test_cut_swaps_in_a_third_and_goes_both_ways_equally_often():
    torch.manual_seed(0)
    swap = np.roll(np.arange(8), -4)
    columns, swaps = 0, 0
    for found in _places(cut(_numbered(6000, 8))):
        sideways = (found // 8 == np.arange(8)[:, None]).all()
        columns += sideways
        swaps += ((found % 8)[0] == swap).all() if sideways else ((found // 8)[:, 0] == swap).all()
    assert columns / 6000 == pytest.approx(1 / 2, abs=0.03)
    assert swaps / 6000 == pytest.approx(1 / 3, abs=0.03)


@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from([8, 28]))
def test_rotate_turns_two_squares_of_one_band(seed, side):
    """Against every image that the definition allows."""
    torch.manual_seed(seed)
    half = side // 2
    plain = np.arange(side * side).reshape(side, side)
    allowed = set()
    for top, left, right in product(range(side - half + 1), range(4), range(4)):
        image = plain.copy()
        for start, turns in ((0, left), (side - half, right)):
            square = np.s_[top : top + half, start : start + half]
            image[square] = np.rot90(plain[square], turns)
        if left or right:
            allowed.add(image.tobytes())
    for found in _places(rotate(_numbered(16, side))):
        assert found.tobytes() in allowed


@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from([(2, 28), (4, 28), (4, 32), (2, 8)]))
def test_shuffle_moves_every_patch_whole_and_leaves_none_in_place(seed, shape):
    grid, side = shape
    torch.manual_seed(seed)
    wide = side // grid
    for found in _places(shuffled(_numbered(8, side), grids=(grid,), band=0)):
        assert sorted(found.flatten()) == list(range(side * side))
        for down, along in product(range(grid), range(grid)):
            patch = found[down * wide : (down + 1) * wide, along * wide : (along + 1) * wide]
            source = patch[0, 0] // side // wide, patch[0, 0] % side // wide
            inside = (np.arange(wide) + source[0] * wide)[:, None] * side + np.arange(wide) + source[1] * wide
            assert (patch == inside).all()
            assert source != (down, along)


def test_smoothing_changes_nothing_but_the_band_along_the_borders():
    images = torch.rand(12, 3, 28, 28) * 255
    for grid, band in product((2, 4), (1, 2)):
        torch.manual_seed(5)
        sharp = shuffled(images, grids=(grid,), band=0)
        torch.manual_seed(5)
        smooth = shuffled(images, grids=(grid,), band=band)
        near = np.zeros(28, dtype=bool)
        for border in range(28 // grid, 28, 28 // grid):
            near[border - band : border + band] = True
        inside = torch.from_numpy(near[:, None] | near[None, :])
        assert torch.equal(sharp[:, :, ~inside], smooth[:, :, ~inside])
        for y, x in np.argwhere(inside.numpy())[::7]:
            window = sharp[:, :, max(0, y - 1) : y + 2, max(0, x - 1) : x + 2]
            torch.testing.assert_close(smooth[:, :, y, x], window.mean(dim=(2, 3)), rtol=1e-5, atol=1e-3)


def test_both_grids_are_drawn():
    torch.manual_seed(0)
    found = _places(shuffled(_numbered(200, 8), band=0))
    whole = sum(image[1, 1] - image[0, 0] == 9 and image[2, 2] - image[0, 0] == 18 for image in found)
    assert 60 < whole < 140


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_erase_blackens_one_rectangle_of_a_third_to_a_half(seed):
    torch.manual_seed(seed)
    for image in erase(_numbered(16, 28, 2)):
        black = (image == 0).numpy()
        assert (black[0] == black[1]).all()
        rows, columns = np.flatnonzero(black[0].any(axis=1)), np.flatnonzero(black[0].any(axis=0))
        assert black[0][rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
        assert 0.33 - 0.04 <= black[0].mean() <= 0.50 + 0.04  # sides are whole pixels
        assert torch.equal(image[~torch.from_numpy(black)], _numbered(1, 28, 2)[0][~torch.from_numpy(black)])


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_crop_shows_a_rectangle_of_a_tenth_to_a_third(seed):
    """On a ramp, what is seen is the part of it that was cut out."""
    torch.manual_seed(seed)
    ramp = torch.arange(28.0)
    images = torch.stack([ramp[:, None].expand(28, 28), ramp[None].expand(28, 28)])[None].expand(16, 2, 28, 28)
    found = crop(images)
    tall = (found[:, 0, -1, 5] - found[:, 0, 0, 5]) / 27
    wide = (found[:, 1, 5, -1] - found[:, 1, 5, 0]) / 27
    area = tall * wide
    assert ((area > 0.085) & (area < 0.335)).all()  # a pixel at the margin is seen as flat


def test_blur_is_a_mean_over_one_of_its_sizes():
    """Kernels so wide that they are nearly even: of a single white pixel, a rectangle of equal grey is left."""
    torch.manual_seed(0)
    images = torch.zeros(80, 1, 28, 28)
    images[:, :, 14, 14] = 255
    seen = set()
    for image in blur(images)[:, 0]:
        rows, columns = (image > 0.1).any(dim=1).sum().item(), (image > 0.1).any(dim=0).sum().item()
        seen.add((rows, columns))
        lit = image[image > 0.1]
        assert lit.sum() == pytest.approx(255, rel=1e-4)
        assert lit.max() / lit.min() < 1.2
    assert all(max(size) in (3, 5, 7, 9) and min(size) in (1, 3, 5) for size in seen)
    assert {size[0] > size[1] for size in seen if size[0] != size[1]} == {True, False}


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(1, 20))
def test_permuted_columns_hold_the_same_values(seed, n):
    torch.manual_seed(seed)
    rows = torch.rand(n, 4)
    found = permuted(rows)
    assert torch.equal(found.sort(dim=0).values, rows.sort(dim=0).values)


def test_permuted_rows_are_none_of_the_true_ones():
    torch.manual_seed(0)
    rows = torch.rand(64, 8)
    assert (torch.cdist(permuted(rows), rows) > 1e-6).float().mean() > 0.999


def test_blended_rows_lie_between_two_and_categories_are_one_of_both():
    torch.manual_seed(0)
    rows = torch.stack([torch.arange(50.0), torch.arange(50.0) % 3, torch.full((50,), float("nan"))], dim=1)
    found = blended(rows, torch.tensor([False, True, False]))
    assert set(found[:, 1].tolist()) <= {0.0, 1.0, 2.0}
    assert found[:, 2].isnan().all()
    assert (found[:, 0] != rows[:, 0]).all()
    assert found[:, 0].min() > 0
    assert found[:, 0].max() < 49


def test_the_unit_of_a_table_is_each_columns_spread_and_one_where_there_is_none():
    X = np.array([[1.0, 5.0, np.nan, 2.0], [3.0, 5.0, np.nan, np.nan]], dtype=np.float32)
    made = outliers_for("table", X, tuple(Feature(name) for name in "abcd"))
    assert made.unit.tolist() == [1.0, 1.0, 1.0, 1.0]
    assert outliers_for("table", X * 4).unit.tolist() == [4.0, 1.0, 1.0, 1.0]
    assert outliers_for("image", np.zeros((1, 1, 28, 28), np.uint8)).unit == 255


def test_sequences_are_refused_with_what_to_use_instead():
    with pytest.raises(DataError, match="no outliers are known for sequence rows: expected images or tables"):
        outliers_for("sequence", np.zeros((1, 2)))
