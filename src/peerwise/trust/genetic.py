"""NSGA-II (Deb et al., 2002) over subsets, as rows of bits: deap sorts and selects, chance is the caller's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from deap import base, tools
from numpy.typing import NDArray

Chromosome = NDArray[np.bool_]
CROSSOVER, MUTATION = 0.9, 0.05


class BothLarge(base.Fitness):  # type: ignore[misc]
    weights = (1.0, 1.0)


@dataclass(frozen=True)
class Individual:
    """A subset in the form that deap sorts."""

    chosen: Chromosome
    fitness: BothLarge


def pareto_front(
    fitness: Callable[[Chromosome], tuple[float, float]],
    first: Chromosome,
    population: int,
    generations: int,
    largest: int,
    rng: np.random.Generator,
) -> list[Chromosome]:
    """The subsets of one to ``largest`` members that no other of the last generation beats in both respects.

    mu + lambda with mu = ``population`` and lambda = 2 mu. ``first``, if it has any members, is the first subset of the
    first generation whatever its size.
    """
    known: dict[bytes, tuple[float, float]] = {}

    def alive(chosen: Chromosome) -> Individual:
        key = chosen.tobytes()
        if key not in known:
            known[key] = fitness(chosen)
        return Individual(chosen, BothLarge(known[key]))

    drawn = rng.random((population, len(first))) < 0.5
    living = [alive(_repaired(chosen, largest, rng)) for chosen in drawn]
    if first.any():
        living[0] = alive(first)
    for _ in range(generations):
        parents = [each.chosen for each in living]
        children = [alive(_repaired(_child(parents, rng), largest, rng)) for _ in range(2 * population)]
        living = tools.selNSGA2(living + children, population)
    front = tools.sortNondominated(living, len(living), first_front_only=True)[0]
    return list({each.chosen.tobytes(): each.chosen for each in front}.values())


def _child(parents: list[Chromosome], rng: np.random.Generator) -> Chromosome:
    chance = rng.random()
    one, other = (parents[place] for place in rng.choice(len(parents), 2, replace=False))
    if chance < CROSSOVER:
        return np.asarray(np.where(rng.random(len(one)) < 0.5, one, other))
    if chance < CROSSOVER + MUTATION:
        return np.asarray(one ^ (rng.random(len(one)) < 1 / len(one)))
    return np.asarray(one)


def _repaired(chosen: Chromosome, largest: int, rng: np.random.Generator) -> Chromosome:
    """With at least one member, and at most ``largest``: which of them go or come is left to chance."""
    if not chosen.any():
        chosen = np.arange(len(chosen)) == rng.integers(len(chosen))
    members = np.flatnonzero(chosen)
    if len(members) > largest:
        chosen = np.isin(np.arange(len(chosen)), rng.choice(members, largest, replace=False))
    return np.asarray(chosen)
