"""check_method: the contract of a Method, tried on a small federation with awkward sites."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Feature, Rows, Site
from peerwise.errors import ConfigError
from peerwise.federation import (
    RUN,
    Broadcast,
    HasDetails,
    Method,
    Session,
    answer,
    answer_with_details,
    combine,
    combines,
)
from peerwise.models import one_thread
from peerwise.parcels import Keep, Parcel, pack, unpack
from peerwise.run.participation import Participation
from peerwise.run.runner import run_method

Answers = dict[str, NDArray[np.float64]]
PICKLE = (b"\x80\x02", b"\x80\x03", b"\x80\x04\x95", b"\x80\x05\x95", b"sklearn.", b"numpy.core.multiarray")
CLASSES = ("low", "middle", "high")


def check_method(method: Method, sites: Callable[[], list[Site]] | None = None) -> None:
    """Raise an AssertionError that says what is wrong, or return.

    ``sites`` makes the federation anew each time; by default small tables at five sites, among them one that lacks a
    class, one with a single class, one without validation rows and one with two rows, with public rows beside them. A
    method that needs nets finds a small one at each, others two models that are not.
    """
    if isinstance(method, type):
        raise ConfigError(f"check_method({method.__name__}) has a class: expected an object, {method.__name__}().")
    # Not in alphabetical order, so that a method which relies on the order of a mapping is found out.
    recipes = ("mlp",) if method.needs_nets else ("logistic", "forest")
    make = sites or partial(awkward_sites, recipes)
    with one_thread():  # as runs do it: sums depend on the number of threads
        for check in CHECKS:
            check(copy.deepcopy(method), make)


def awkward_sites(recipes: tuple[str, ...] = ("logistic", "forest"), seed: int = 0) -> list[Site]:
    """Five sites with three overlapping classes of four features, some values missing."""
    rows: dict[str, tuple[list[int], int]] = {
        "full": ([0, 1, 2] * 16, 12),
        "lacks a class": ([0, 1] * 15, 8),
        "one class": ([2] * 20, 6),
        "no validation": ([0, 1, 2] * 8, 0),
        "two rows": ([0, 1], 0),
    }
    keep = Keep()
    return [_site(name, labels, held, recipes, seed, keep) for name, (labels, held) in rows.items()]


def _site(name: str, labels: list[int], held: int, recipes: tuple[str, ...], seed: int, keep: Keep) -> Site:
    rng = np.random.default_rng([seed, len(labels), held])
    y = np.array(labels)
    X = rng.normal(size=(len(y), 4)).astype(np.float32)
    X[:, 0] += 2 * y
    X[rng.random(X.shape) < 0.05] = np.nan
    every = Rows(X, y)
    cut = len(y) - held
    test = np.arange(min(9, len(y)))
    return Site(
        name=name,
        kind="table",
        classes=CLASSES,
        train=every.take(slice(0, cut)),
        val=every.take(slice(cut, len(y))),
        test=Rows(X[test] + np.float32(0.01), y[test]),
        features=tuple(Feature(f"f{i}") for i in range(4)),
        public=np.random.default_rng(seed).normal(1, 2, (20, 4)).astype(np.float32),
        recipes=recipes,
        seed=seed,
        keep=keep,
    )


def _run(method: Method, sites: list[Site]) -> Answers:
    run_method(method, sites)
    return {site.name: answer(method, site, site.test.X) for site in sites}


def _same(one: Answers, two: Answers) -> bool:
    return all(np.array_equal(one[name], two[name]) for name in one)


def _answers_everywhere(method: Method, make: Callable[[], list[Site]]) -> None:
    sites = make()
    answers = _run(method, sites)
    _are_probabilities(answers)
    for site in sites if isinstance(method, HasDetails) else ():
        found, _ = answer_with_details(method, site, site.test.X)
        assert np.array_equal(found, answers[site.name]), (
            f"predict_with_details and predict_proba give other probabilities at site {site.name!r}."
        )


def _are_probabilities(answers: Answers, when: str = "") -> None:
    for name, found in answers.items():
        assert np.allclose(found.sum(axis=1), 1, atol=1e-5), f"answers at site {name!r} do not sum to one{when}."
        assert (found >= 0).all(), f"answers at site {name!r} hold negative probabilities{when}."


def _keeps_its_settings(method: Method, make: Callable[[], list[Site]]) -> None:
    before = {name: repr(value) for name, value in vars(method).items()}
    _run(method, make())
    after = {name: repr(value) for name, value in vars(method).items()}
    assert before == after, (
        f"running changed the method itself: {before} became {after}. Learned things go to site.state."
    )


def _repeats(method: Method, make: Callable[[], list[Site]]) -> None:
    assert _same(_run(method, make()), _run(method, make())), "the same seed gives other answers the second time."


def _depends_on_its_seed(method: Method, make: Callable[[], list[Site]]) -> None:
    """Nets start from chance; a method that ignores the seed would show one draw as the truth."""
    if method.rounds > 1:
        other = [site.replace(seed=site.seed + 1) for site in make()]
        assert not _same(_run(method, make()), _run(method, other)), "another seed gives the same answers."


def _survives_restarts(method: Method, make: Callable[[], list[Site]]) -> None:
    """States and parcels go through bytes at every step, as at a peer that is restarted between any two messages."""
    sites = make()
    fresh = copy.deepcopy(method)
    sessions = [Session(method, site) for site in sites]
    broadcast: Broadcast | None = None
    memory: dict[str, Any] = {}
    for round in range(method.rounds):
        sessions = [_restarted(session, fresh if round % 2 else method) for session in sessions]
        shared = {session.site.name: session.step(broadcast, round) for session in sessions}
        broadcast, memory = combine(fresh, round, _arrived(shared), memory, sites[0].seed)
    sessions = [_restarted(session, fresh) for session in sessions]
    for session in sessions:
        session.finish(broadcast)
    found = {session.site.name: answer(fresh, session.site, session.site.test.X) for session in sessions}
    assert _same(found, _run(method, make())), "a restart between two steps changes the answers: is all in site.state?"


def _arrived(shared: dict[str, Parcel]) -> dict[str, Parcel]:
    return {name: Parcel.decode(*shared[name].encode()) for name in sorted(shared) if shared[name]}


def _restarted(session: Session, method: Method) -> Session:
    best = None if session.best is None else unpack(*pack(session.best))
    return Session(method, session.site.replace(), unpack(*pack(session.site.state)), best)


def _sends_what_it_counts(method: Method, make: Callable[[], list[Site]]) -> None:
    sites = make()
    sent, received = ({site.name: 0 for site in sites} for _ in range(2))
    broadcast: Broadcast | None = None
    memory: dict[str, Any] = {}
    sessions = [Session(method, site) for site in sites]
    for round in range(method.rounds):
        inbox = _arrived({session.site.name: session.step(broadcast, round) for session in sessions})
        weights = {name: _weighed(parcel) for name, parcel in inbox.items()}
        broadcast, memory = combine(method, round, inbox, memory, sites[0].seed)
        content = broadcast.content
        sizes = (
            _weighed(content) if isinstance(content, Parcel) else {name: _weighed(content[name]) for name in content}
        )
        for name in sent:
            sent[name] += weights.get(name, 0)
            received[name] += _received_by(name, method, sizes)
    for session in sessions:
        session.step(broadcast, method.rounds, shares=False)
    for site in sites:
        record = site.state[RUN]
        for what, counted, seen in (("sent", record["sent"], sent), ("received", record["received"], received)):
            weight = seen[site.name]
            assert counted == weight, f"site {site.name!r} counts {counted} bytes {what}, in truth they are {weight}."


def _received_by(site: str, method: Method, sizes: int | dict[str, int]) -> int:
    """One parcel for all; one for each site; or, where nothing is combined, what the others shared."""
    if isinstance(sizes, int):
        return sizes
    if method.addresses_sites:
        return sizes.get(site, 0)
    return sum(weight for name, weight in sizes.items() if combines(method) or name != site)


def _weighed(parcel: Parcel) -> int:
    """Its bytes on a wire, none of which may be a pickle."""
    manifest, blobs = parcel.encode()
    for blob in (manifest, *blobs.values()):
        assert not blob.startswith(PICKLE[:4]), "a parcel holds a pickle."
        assert not any(mark in blob for mark in PICKLE[4:]), "a parcel names Python modules: is it a pickle?"
    return len(manifest) + sum(map(len, blobs.values()))


def _never_learns_from_test_rows(method: Method, make: Callable[[], list[Site]]) -> None:
    asked = {site.name: site.test.X for site in make()}
    blind = [site.replace(test=site.test.take(slice(0, 0))) for site in make()]
    run_method(method, blind)
    found = {site.name: answer(method, site, asked[site.name]) for site in blind}
    assert _same(found, _run(method, make())), "answers change without the test rows: are they learned from?"


def _goes_on_without_a_site(method: Method, make: Callable[[], list[Site]]) -> None:
    _are_probabilities(_run(method, make()[1:]), " without the first site")


def _goes_on_while_sites_are_away(method: Method, make: Callable[[], list[Site]]) -> None:
    """The first joins late, the second is away in the last round, nobody but the third is there in the first."""
    if method.rounds == 1:
        return
    sites = make()
    last = method.rounds - 1
    away = {site.name: [0, *([last] if place == 1 else [])] for place, site in enumerate(sites) if place != 2}
    run_method(method, sites, participation=Participation(absent=away))
    for place, site in enumerate(sites):
        found = answer(method, site, site.test.X)
        assert np.allclose(found.sum(axis=1), 1, atol=1e-5), f"site {site.name!r} does not answer after missing rounds."
        expected = [round for round in range(method.rounds) if place == 2 or round not in away[site.name]]
        assert site.state[RUN]["took_part"] == expected, f"site {site.name!r} took part in other rounds than it should."


CHECKS: tuple[Callable[[Method, Callable[[], list[Site]]], None], ...] = (
    _answers_everywhere,
    _keeps_its_settings,
    _repeats,
    _depends_on_its_seed,
    _survives_restarts,
    _sends_what_it_counts,
    _never_learns_from_test_rows,
    _goes_on_without_a_site,
    _goes_on_while_sites_are_away,
)
