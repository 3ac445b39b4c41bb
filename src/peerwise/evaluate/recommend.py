"""Which method for which site, answered from what was measured: the leaderboard, shipped as ``leaderboard.json``.

From a situation to comparable settings, and nothing else:

1. Own columns are compared with settings of kind "vertical", classes that only others have with "strangers", wrong
   labels at a peer with "flipped"; all else by label skew: strong ("strong", "few", "disjoint"), mild ("mild") or none
   ("quantity", "feature"). A natural setting, or a site's own labels, have the skew whose settings have the nearest
   class share (exp(entropy of the train labels) / classes). Without a word on skew all of these count.
2. Of these, settings with the same kind of rows, if there are any.

A method is recommended if its mean gain in these settings, over what a site has alone (its own models, or the same net
trained alone in as many rounds, whichever was better), is above 0 beyond the chance of seeds, best first; to be avoided
if it is as far below. Chance: a t-test of the gain against its standard error over seeds, Holm over all methods that
are considered. Three seeds tell little of their spread, so in a setting it is that of the method over all settings, or
the setting's own where that is larger.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

import numpy as np
from scipy import stats

from peerwise.errors import ConfigError, choices
from peerwise.evaluate.paired import LEVEL, holm
from peerwise.evaluate.summary import REFERENCES

Skew = Literal["strong", "mild", "none"]
Kind = Literal["table", "image", "sequence"]
LEVELS: dict[Skew, tuple[str, ...]] = {
    "strong": ("strong", "few", "disjoint"),
    "mild": ("mild",),
    "none": ("quantity", "feature"),
}
MOST = 3
LOWEST = {"rows": 1, "classes": 2, "sites": 2, "public": 0}
FAR = 3.0  # times more or fewer: worth a word


@dataclass(frozen=True)
class Situation:
    """A site as it sees itself. ``rows``: train rows. ``own_columns``: it has other columns than its peers;
    ``strangers``: it is asked about classes that only others have; ``wrong_labels``: some peer's may be wrong;
    ``public``: rows without labels that all sites have; ``one_shot``: no more than one exchange. None: not known."""

    kind: Kind
    rows: int | None = None
    classes: int | None = None
    sites: int | None = None
    skew: Skew | None = None
    own_columns: bool = False
    strangers: bool = False
    wrong_labels: bool = False
    public: int = 0
    one_shot: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ConfigError(choices(self.kind, get_args(Kind), "kind of rows"))
        if self.skew not in (None, *LEVELS):
            raise ConfigError(choices(str(self.skew), LEVELS, "label skew"))
        for name, least in LOWEST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"{name} is {value}: expected at least {least}.")
        said = [name for name in ("own_columns", "strangers", "wrong_labels") if getattr(self, name)]
        if len(said) > 1:
            raise ConfigError(f"{' and '.join(said)} at once were not measured: ask for one of them at a time.")
        if self.own_columns and self.kind != "table":
            raise ConfigError(f"own_columns with {self.kind} rows: expected a table, only tables have columns.")
        if self.strangers and self.skew in ("mild", "none"):
            raise ConfigError(f"strangers with label skew {self.skew}: a site that has all classes meets no strangers.")


@cache
def evidence() -> dict[str, Any]:
    """The leaderboard as `experiments/leaderboard_tables.py` writes it."""
    found: dict[str, Any] = json.loads((files("peerwise.evaluate") / "leaderboard.json").read_text("utf-8"))
    return found


def class_share(counts: Any) -> float:
    """
    >>> class_share([50, 50, 0, 0]), class_share([7, 0])
    (0.5, 0.5)
    """
    known = np.asarray(counts, dtype=np.float64)
    shares = known[known > 0] / known.sum()
    return round(float(np.exp(-(shares * np.log(shares)).sum())) / len(known), 6)


def skew_of(share: float, found: dict[str, Any] | None = None) -> Skew:
    """The label skew whose settings have the nearest class share, on average."""
    settings = (found or evidence())["settings"].values()
    shares = {
        level: [setting["class_share"] for setting in settings if setting["kind"] in kinds]
        for level, kinds in LEVELS.items()
    }
    means = {level: float(np.mean(each)) for level, each in shares.items() if each}
    return min(means, key=lambda level: abs(means[level] - share))


def comparable(situation: Situation, found: dict[str, Any] | None = None) -> tuple[list[str], list[str]]:
    """The names of the settings that are like this situation, and what has to be said about them."""
    found = found or evidence()
    settings: dict[str, dict[str, Any]] = found["settings"]
    special = {"vertical": situation.own_columns, "strangers": situation.strangers, "flipped": situation.wrong_labels}
    wanted = next((kind for kind, is_so in special.items() if is_so), None)
    if wanted is not None:
        names = [name for name, setting in settings.items() if setting["kind"] == wanted]
    else:
        ordinary = [name for name, setting in settings.items() if setting["kind"] not in special]
        names = [name for name in ordinary if situation.skew in (None, _level(settings[name], found))]
    if not names:
        raise ConfigError(f"nothing like {situation} was measured: leave out what is not sure, e.g. the label skew.")
    same = [name for name in names if settings[name]["data"] == situation.kind]
    notes = []
    if not same:
        notes.append(f"no such setting has {situation.kind} rows: these are of other kinds of rows.")
    return same or names, notes


def recommend(situation: Situation, found: dict[str, Any] | None = None) -> dict[str, Any]:
    """``use`` (at most three, best first; none: keep to your own models), ``avoid`` (worst first), each with what was
    measured in the comparable settings; ``left_out``: methods that this situation rules out, and why; ``comparable``,
    ``nearest`` and ``notes`` say how far that is from this situation."""
    found = found or evidence()
    names, notes = comparable(situation, found)
    lines, left_out = [], {}
    for method, about in found["methods"].items():
        why = _ruled_out(about, situation)
        if why:
            left_out[method] = why
        elif method not in REFERENCES and all(method in found["cells"][name] for name in names):
            lines.append(_line(method, about, names, found))
        elif method not in REFERENCES:
            left_out[method] = "did not run in these settings"
    for line, p in zip(lines, holm([line["p"] for line in lines]), strict=True):
        line["p"] = float(p)
    lines.sort(key=lambda line: -line["gain"])
    sure = [line for line in lines if line["p"] < 1 - LEVEL]
    nearest = min(names, key=lambda name: _distance(situation, found["settings"][name]))
    if len(names) < 3:
        notes.append(f"measured in {len(names)} setting{'s' if len(names) > 1 else ''} only.")
    return {
        "situation": asdict(situation),
        "use": [line for line in sure if line["gain"] > 0][:MOST],
        "avoid": [line for line in reversed(sure) if line["gain"] < 0],
        "left_out": left_out,
        "comparable": [{"setting": name, **found["settings"][name]} for name in names],
        "nearest": {"setting": nearest, **found["settings"][nearest]},
        "notes": notes + _far(situation, found["settings"][nearest]),
        "evidence": found["about"],
    }


def _level(setting: dict[str, Any], found: dict[str, Any]) -> str:
    named = [level for level, kinds in LEVELS.items() if setting["kind"] in kinds]
    return named[0] if named else skew_of(setting["class_share"], found)


def _ruled_out(about: dict[str, Any], situation: Situation) -> str:
    if situation.one_shot and about["rounds"]:
        return "has rounds"
    if "everybody's rows in one place" in about["needs"]:
        return "needs everybody's rows in one place"
    if not situation.public and "public rows" in about["needs"]:
        return "needs public rows"
    return "needs the same columns everywhere" if situation.own_columns and "same columns" in about["needs"] else ""


def _line(method: str, about: dict[str, Any], names: list[str], found: dict[str, Any]) -> dict[str, Any]:
    """Means over the settings; ``error``: of the mean gain, from the spread over seeds in each; ``p``: of no gain."""
    columns = found["columns"]
    table = np.array([found["cells"][name][method] for name in names], dtype=np.float64)
    of = {column: table[:, place] for place, column in enumerate(columns)}
    seeds = np.array([found["settings"][name]["seeds"] for name in names])
    usual, freedom = _usual_spread(method, found)
    gain = float(of["gain"].mean())
    error = float(np.sqrt((np.square(np.maximum(of["spread"], usual)) / seeds).sum())) / len(names)
    return {
        "method": method,
        "gain": gain,
        "error": error,
        "p": float(2 * stats.t.sf(abs(gain) / error, freedom)) if error else float(gain == 0),
        "lowest": float(of["gain"].min()),
        "highest": float(of["gain"].max()),
        "wins": float(of["wins"].mean()),
        "losses": float(of["losses"].mean()),
        "worst_site": float(of["worst"].mean()),
        "bytes": float(of["bytes"].mean()),
        "seconds": float(of["seconds"].mean()),
        "settings": len(names),
        "rounds": about["rounds"],
        "needs": about["needs"],
    }


def _usual_spread(method: str, found: dict[str, Any]) -> tuple[float, int]:
    """Of the gain over seeds, over all settings in which the method ran, and its degrees of freedom."""
    place = found["columns"].index("spread")
    of = {name: cells[method][place] for name, cells in found["cells"].items() if method in cells}
    freedom = np.array([found["settings"][name]["seeds"] - 1 for name in of])
    return float(np.sqrt(np.average(np.square(list(of.values())), weights=freedom))), int(freedom.sum())


def _ratios(situation: Situation, setting: dict[str, Any]) -> dict[str, float]:
    given = {name: getattr(situation, name) for name in ("rows", "classes", "sites")}
    return {name: value / setting[name] for name, value in given.items() if value is not None}


def _distance(situation: Situation, setting: dict[str, Any]) -> float:
    return sum(abs(math.log(ratio)) for ratio in _ratios(situation, setting).values())


def _far(situation: Situation, setting: dict[str, Any]) -> list[str]:
    found = []
    for name, ratio in _ratios(situation, setting).items():
        if not 1 / FAR <= ratio <= FAR:
            found.append(f"{getattr(situation, name)} {name}, measured with {setting[name]}: far from this situation.")
    return found
