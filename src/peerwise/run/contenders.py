"""The methods of a run: what each is called, what its files are called, and the learning rates it is tried with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, islice

from peerwise.data import Site
from peerwise.errors import ConfigError
from peerwise.federation import check_sites
from peerwise.methods import Method, OneShot, make_method
from peerwise.methods.registry import base_name, is_path, short_hash, tag_of
from peerwise.registry import source_digest
from peerwise.run.experiment import Experiment
from peerwise.run.objects import NO_OBJECTS, Objects
from peerwise.trust import TrustLearner


@dataclass(frozen=True)
class Contender:
    """One method with one learning rate (None: it has no budget): ``label`` in the tables, ``file`` in file names."""

    label: str
    file: str
    method: Method
    lr: float | None

    def named(self, seed: int) -> str:
        """Its run with one seed, as the files are called."""
        return f"{self.file}-s{seed}"


def contenders(
    experiment: Experiment, sites: Sequence[Site], objects: Objects = NO_OBJECTS
) -> dict[str, list[Contender]]:
    """By label, each method able to run on these sites: once, or once for each learning rate to be tried."""
    found: dict[str, list[Contender]] = {}
    for name in experiment.methods:
        budget = experiment.budget(name)
        if budget is None:
            trials = [_contender(experiment, name, None, len(sites), objects)]
        else:
            rates = learning_rates(budget["lr"], max(experiment.tune, 1))
            trials = [_contender(experiment, name, {**budget, "lr": lr}, len(sites), objects) for lr in rates]
        check_sites(trials[0].method, sites)
        if (label := experiment.label(name)) in found:
            raise ConfigError(f"methods has two that are called {label!r} in tables: expected others, or a tag.")
        found[label] = trials
    _check_missed_rounds(experiment, found)
    return found


def _check_missed_rounds(experiment: Experiment, found: dict[str, list[Contender]]) -> None:
    """Refuse sites that miss rounds where there are none to be missed."""
    if not experiment.misses_rounds:
        return
    rounds = max(trial.method.rounds for trials in found.values() for trial in trials)
    given = f"join is {experiment.join:g}" if experiment.join < 1 else f"absent is {experiment.absent}"
    if rounds == 1:
        raise ConfigError(
            f"{given}, but {', '.join(experiment.methods)} have one round only, in which all sites take part: expected "
            f"a method with more rounds, e.g. fedavg with training.rounds=10. Add one, or leave it out."
        )
    for site, missed in experiment.absent.items():
        if late := sorted(round for round in missed if round >= rounds):
            raise ConfigError(
                f"absent.{site} has {', '.join(map(str, late))}: expected rounds from 0 to {rounds - 1}, as no method "
                f"has more. Leave them out."
            )


def learning_rates(base: float, number: int) -> list[float]:
    """
    >>> learning_rates(0.01, 7)
    [0.01, 0.00333333, 0.03, 0.001, 0.1, 0.000333333, 0.3]
    """
    factors = (factor for power in count() for each in (3, 10) for factor in (10**-power / each, each * 10**power))
    return [base, *(float(f"{base * factor:.6g}") for factor in islice(factors, number - 1))]


def _contender(
    experiment: Experiment, name: str, budget: dict[str, float] | None, sites: int, objects: Objects
) -> Contender:
    made = objects.methods.get(name)
    method = make_method(
        name,
        {**(experiment.settings(name) if made is None else made.settings), **(budget or {})},
        folds=experiment.folds,
        epochs=experiment.epochs,
        sites=sites,
        kind=None if made is None else made.kind,
    )
    lr = None if budget is None else budget["lr"]
    return Contender(experiment.label(name), _file(experiment, name, budget, method), method, lr)


def _file(experiment: Experiment, name: str, budget: dict[str, float] | None, method: Method) -> str:
    """The label, and a hash of all else that decides the numbers, so that no two runs in a folder share files."""
    decides: dict[str, object] = {}
    if is_path(name):
        decides["class"] = base_name(name)
        decides["source"] = _sources(type(method.learner if type(method) is OneShot else method))
    if tag_of(name) and experiment.settings(name):
        decides["settings"] = experiment.settings(name)
    if budget is not None:
        decides["budget"] = budget
    if method.rounds > 1 and experiment.misses_rounds:
        decides["present"] = [experiment.join, experiment.absent]
    name_there = experiment.label(name).replace(":", "+")  # no colon in a file name: not every system takes it
    return f"{name_there}~{short_hash(decides)}" if decides else name_there


def _sources(kind: type) -> list[str]:
    """Of a class of one's own and of those it is made of: after a change of the code it runs again."""
    own = [each for each in kind.__mro__ if not issubclass(Method, each) and not issubclass(TrustLearner, each)]
    return [source_digest(each) for each in own if not each.__module__.startswith("peerwise.")]
