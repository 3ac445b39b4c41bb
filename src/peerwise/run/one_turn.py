"""One site's turn, for runtimes that see a site only when a message comes: absorb what was told last, score, share."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from peerwise.data import Site
from peerwise.methods import Method
from peerwise.models import one_thread
from peerwise.parcels import Parcel
from peerwise.run.rounds import RUN, begin, catch_up, finish, learned, speak

Told = tuple[int, Any]  # the newest round of which anything was told, and what was told: parcels by site, or one parcel


@dataclass(frozen=True)
class Turn:
    """``state``: all that the next turn needs. ``best``: what the method holds, where it does better on the validation
    rows than in any turn before, else None; whoever keeps it hands it to the last turn. ``parcel``: what the site says,
    empty where it says nothing."""

    state: dict[str, Any]
    best: dict[str, Any] | None
    parcel: Parcel


def take_turn(
    method: Method,
    site: Site,
    state: dict[str, Any] | None,
    round: int | None,
    told: Told | None = None,
    *,
    best: dict[str, Any] | None = None,
    shares: bool = True,
) -> Turn:
    """What `run_method` does at a site from the end of one round to the sharing of the next, with the same numbers.

    ``state`` is what the last turn left, None before the first. ``round`` is the one to share in; None after the last,
    when the site goes back to the ``best`` state that its turns have told of, where there is one. ``told`` counts once,
    however often it is told. Where it raises, the turn has not happened: its ``state`` may be in pieces, and whoever
    goes on does so with a copy from before, as packing makes them.
    """
    newest, what = (-1, None) if told is None else told
    with one_thread():
        if state is None:
            begin(method, site)
        else:
            site.state = state
        better = None
        if catch_up(method, site, (method.rounds if round is None else round) - 1, newest, what):
            better = copy.deepcopy(learned(site))
        if round is None:
            _conclude(method, site, best if better is None else better)
            return Turn(site.state, better, Parcel())
        parcel = speak(method, site, round) if shares else Parcel()
        site.state[RUN]["sent"] += parcel.nbytes
        return Turn(site.state, better, parcel)


def _conclude(method: Method, site: Site, best: dict[str, Any] | None) -> None:
    """What is guaranteed to the people behind the rows counts all rounds, also those after the best."""
    site.state[RUN]["privacy"] = method.privacy(site) if learned(site) else None
    finish(site, best)
