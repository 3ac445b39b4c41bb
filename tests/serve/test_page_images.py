"""Images on the page, beside a real service over a federation of two sites with small convolutional nets."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_browser import chromium, needs_chromium, opened, served

from peerwise.data.task import Task
from peerwise.models.worker import Worker
from peerwise.run.peer import fit, found, join, train

sys.path.append(str(Path(__file__).parents[1] / "run"))
from peer_sites import QUICK, Sites, admitted

pytestmark = needs_chromium
TASK = Task("sky", "image", ("calm", "storm"), "y", positive="storm", shape={"x": (1, 28, 28)})
NAMES = ("north", "south")


def pictures(name: str, rows: int = 60) -> dict[str, np.ndarray[Any, Any]]:
    """Storms are brighter above."""
    rng, y = np.random.default_rng([*name.encode()]), np.arange(rows) % 2
    X = rng.integers(0, 150, (rows, 1, 28, 28)).astype(np.uint8)
    X[y == 1, :, :14] += 60
    return {"X": X, "y": y}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    root = tmp_path_factory.mktemp("sky")
    sites = Sites(root, NAMES)
    given = {**QUICK, "models": ["lenet5"], "ask": "never", "meeting": {"folder": str(root / "meeting")}}
    for name in NAMES:
        np.savez(root / f"{name}.npz", **pictures(name))
    told = found(root / "north", {**given, "data": "../north.npz"}, TASK)
    invite = root / "north" / "invite.json"
    admitted(sites, join(root / "south", {**given, "data": "../south.npz"}, invite, told["fingerprint"]))
    for name in NAMES:
        train(sites[name])
        sites.publish(name)
    with Worker() as worker:
        sites.pull("north", worker)
        fit(sites["north"], worker, use_peers=True)
    with served(root / "north") as address:
        yield address


def png(pixels: np.ndarray[Any, Any]) -> dict[str, Any]:
    from PIL import Image

    held = io.BytesIO()
    Image.fromarray(pixels).save(held, "PNG")
    return {"name": "sky.png", "mimeType": "image/png", "buffer": held.getvalue()}


def test_a_picture_is_uploaded_and_answered_as_the_same_pixels_are(home: tuple[str, str]) -> None:
    with chromium() as browser, opened(browser, *home) as page:
        page.get_by_label("Validation case").fill("4")
        page.get_by_role("button", name="Pick").click()
        page.get_by_text("True label of validation case 4").wait_for()
        first = page.locator(".classes").inner_text()
        drawn = page.evaluate(
            "(() => { const at = document.querySelector('canvas');"
            " return [...at.getContext('2d').getImageData(0, 0, 28, 28).data]; })()"
        )
        page.get_by_role("button", name="Clear").click()
        pixels = np.array(drawn, np.uint8).reshape(28, 28, 4)[..., 0]
        assert len(np.unique(pixels)) > 50, "the case was drawn"
        page.get_by_label("Choose an image").set_input_files(png(pixels))
        page.get_by_role("img", name="The image").wait_for()
        page.get_by_role("button", name="Ask", exact=True).first.click()
        page.locator(".answer .verdict").wait_for()
        assert page.locator(".classes").inner_text() == first
        assert page.locator(".truth").count() == 0
        page.get_by_label("Choose an image").set_input_files(png(np.repeat(np.repeat(pixels, 3, 0), 3, 1)))
        page.get_by_role("button", name="Ask", exact=True).first.click()
        page.get_by_role("heading", name="Notes").wait_for()
        assert "84" in page.locator(".notes").first.inner_text(), "that it was made smaller is told"
