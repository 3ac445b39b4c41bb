"""What all charts of a page have in common: how each method looks, short names, which seeds can be averaged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from peerwise.evaluate.summary import REFERENCES
from peerwise.report.page.canvas import MUTED, SERIES
from peerwise.report.page.markup import plain
from peerwise.report.story import Story

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "8")
DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
LONGEST = 15


@dataclass(frozen=True)
class Look:
    """Colour, marker and dashes of a method: told apart without the colour too."""

    colour: str
    marker: str
    dash: str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class Scene:
    """A story with its looks and names."""

    story: Story

    @cached_property
    def methods(self) -> list[str]:
        """The best first."""
        order = self.story.found.methods["accuracy"].sort_values(ascending=False, kind="stable")
        return [str(name) for name in order.index]

    def value(self, method: str, column: str) -> float:
        """A number of the table of methods."""
        return float(self.story.found.methods[column][method])

    @cached_property
    def looks(self) -> dict[str, Look]:
        others = [str(name) for name in self.story.found.methods.index if name not in REFERENCES]
        looks = {
            name: Look(SERIES[place % len(SERIES)], MARKERS[place % len(MARKERS)], DASHES[place % len(DASHES)])
            for place, name in enumerate(others)
        }
        return looks | dict.fromkeys(REFERENCES, Look(MUTED, "d", (0, (1, 2))))

    @cached_property
    def names(self) -> dict[str, str]:
        """Of sites and methods, short enough for an axis."""
        sites = dict.fromkeys(str(site) for site in self.story.found.sites["site"])
        for tree in self.story.run.predictions.values():  # a real site's report names peers that it has no rows of
            sites |= dict.fromkeys(model.split("@", 1)[1] for model in tree["details"].get("models", ()))
        return {**short_names(sites), **short_names(self.methods, 18)}

    @cached_property
    def classes(self) -> dict[str, str]:
        return short_names(self.story.found.settings["classes"], 11)

    @property
    def rows(self) -> str:
        return "validation rows" if self.story.is_site else "test rows"

    @property
    def seeds(self) -> list[int]:
        return sorted({int(seed) for seed in self.story.found.sites["seed"]})

    @property
    def same_sites(self) -> bool:
        """Whether a name is the same site in every seed, so that seeds can be averaged."""
        return len(self.seeds) == 1 or self.story.run.experiment.partition == "natural"

    @property
    def one_seed(self) -> int | None:
        """The seed to draw where seeds cannot be averaged."""
        return None if self.same_sites else self.seeds[0]

    @property
    def of_the_seeds(self) -> str:
        if len(self.seeds) == 1:
            return ""
        return (
            f"Mean over {len(self.seeds)} seeds."
            if self.same_sites
            else f"Seed {self.seeds[0]}, one of {len(self.seeds)}."
        )

    @property
    def choosing(self) -> list[str]:
        """Methods that say whom they trust, the best first."""
        said = {m for (_, m, _), tree in self.story.run.predictions.items() if "trust" in tree["details"]}
        return [name for name in self.methods if name in said]


def short_names(names: Iterable[str], longest: int = LONGEST) -> dict[str, str]:
    """Each name within ``longest`` signs, its middle left out, and no two alike."""
    found: dict[str, str] = {}
    for name in map(str, names):
        shown = plain(name) or "(no name)"
        if len(shown) > longest:
            shown = f"{shown[: longest // 2]}…{shown[-(longest - longest // 2 - 1) :]}"
        taken, count = shown, 2
        while taken in found.values():
            taken, count = f"{shown[: longest - 3]}·{count}", count + 1
        found[name] = taken
    return found


def left_out(shown: list[str], all_of_them: list[str]) -> str:
    """Says what a chart does not show."""
    rest = [name for name in all_of_them if name not in shown]
    return f"Not drawn: {', '.join(map(plain, rest))}." if rest else ""


def points(value: float) -> str:
    return "-" if pd.isna(value) else f"{100 * value:+.1f}".replace("-", "\u2212")
