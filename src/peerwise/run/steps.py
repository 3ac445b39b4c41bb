"""What one site does in one step of a simulation, in whichever process; each step leaves its state in the folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from peerwise.data import Site
from peerwise.errors import PeerwiseError
from peerwise.methods import Inbox, Method
from peerwise.models import one_thread
from peerwise.parcels import Parcel
from peerwise.run.folder import RunFolder
from peerwise.run.rounds import RUN, answer, begin, finish, hear, say

Observer = Callable[[dict[str, Any]], None]


def share(site: Site, method: Method, folder: RunFolder, run: str, round: int) -> None:
    state = folder.load_state(site.name, run)
    if state is None:
        begin(method, site)
    else:
        site.state = state
    if site.state[RUN].get("shared", -1) >= round:
        return
    say(method, site, round, folder.exchange(run))
    site.state[RUN]["shared"] = round
    folder.save_state(site.name, run, site.state)


def absorb(site: Site, method: Method, folder: RunFolder, run: str, round: int) -> None:
    site.state = _state(site, folder, run)
    if site.state[RUN].get("absorbed", -1) >= round:
        return
    told: Inbox | Parcel = folder.load_told(run, round) if combines(method) else folder.exchange(run).collect(round)
    hear(method, site, round, told)
    site.state[RUN]["absorbed"] = round
    folder.save_state(site.name, run, site.state)


def predict(site: Site, method: Method, folder: RunFolder, run: str) -> None:
    site.state = _state(site, folder, run)
    finish(site)
    started = time.perf_counter()
    probabilities = answer(method, site, site.test.X)
    elapsed = time.perf_counter() - started
    record = site.state[RUN]
    phases = {"train": record["seconds"].get("share", 0.0), "fit": record["seconds"].get("absorb", 0.0)}
    tree = {
        "y": site.test.y,
        "probabilities": probabilities,
        "details": method.details(site, site.test.X) if len(site.test) else {},
        "sent": record["sent"],
        "best_round": record.get("best_round"),
        "seconds": {**phases, **site.state.get("seconds", {}), "predict": elapsed},
    }
    folder.save_predictions(site.name, run, tree)


def combines(method: Method) -> bool:
    """Whether sites are told something else than the parcels themselves, which lie in the folder already."""
    return type(method).combine is not Method.combine


def everywhere(
    step: Callable[..., None],
    sites: list[Site],
    arguments: tuple[Any, ...],
    workers: int,
    tell: Observer,
    about: dict[str, Any],
) -> None:
    """One step at every site, in this process or in workers, told as they end."""
    if workers == 1:
        for site in sites:
            tell({**about, "site": _alone(step, site, arguments)})
        return
    left = [site.name for site in sites]
    try:
        with parallel_config("loky", n_jobs=min(workers, len(sites)), inner_max_num_threads=1):
            pool = Parallel(return_as="generator_unordered", batch_size=1)
            for name in pool(delayed(_alone)(step, site, arguments) for site in sites):
                left.remove(name)
                tell({**about, "site": name})
    except TerminatedWorkerError as error:
        raise PeerwiseError(
            f"a worker process was ended from outside while these sites were waiting or at work: {', '.join(left)}. "
            f"Was there too little memory? Run again, perhaps with fewer workers: it goes on where it stopped."
        ) from error


def _alone(step: Callable[..., None], site: Site, arguments: tuple[Any, ...]) -> str:
    """Run one site's step on one thread, so that the numbers never depend on how many workers there are."""
    try:
        with one_thread():
            step(site, *arguments)
    except PeerwiseError as error:
        raise type(error)(f"site {site.name!r}: {error}") from error
    except Exception as error:
        raise RuntimeError(f"site {site.name!r}: {type(error).__name__}: {error}") from error
    return site.name


def _state(site: Site, folder: RunFolder, run: str) -> dict[str, Any]:
    state = folder.load_state(site.name, run)
    assert state is not None, "share comes first"
    return state
