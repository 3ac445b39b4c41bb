"""Small federations with public rows, and what their sites said."""

from __future__ import annotations

from typing import Any

from peerwise.data import Site, load, make_sites
from peerwise.federation import answer
from peerwise.parcels import Parcel
from peerwise.run import run_method

SMALL: Any = {"rounds": 3, "lr": 0.1}


def digits(public: int = 40, recipes: tuple[str, ...] = ("mlp",), sites: int = 3, **more: Any) -> list[Site]:
    return make_sites(load("digits"), "dirichlet", sites, alpha=1.0, public=public, recipes=recipes, **more)


def answers(sites: list[Site], method: Any) -> list[Any]:
    return [answer(method, site, site.test.X) for site in sites]


def heard_by_all(method: Any, sites: list[Site], rounds: int) -> list[dict[str, Any]]:
    """The parcels that were shared in each round."""
    found: list[dict[str, Any]] = [{} for _ in range(rounds)]
    share = method.share

    def recorded(site: Site, round: int) -> Parcel:
        parcel = share(site, round).frozen()
        if parcel:
            found[round][site.name] = parcel
        return parcel

    method.share = recorded
    try:
        run_method(method, sites)
    finally:
        del method.share
    return found
