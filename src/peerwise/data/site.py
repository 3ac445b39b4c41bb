"""A site: one organisation's rows, split, with its models' names, its seed and its state."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self, get_args

import numpy as np

from peerwise.data.dataset import Dataset
from peerwise.data.partitions import Partition, Share, partition_rows
from peerwise.data.public import PublicSet, public_set, set_aside
from peerwise.data.rows import Feature, Indices, Inputs, Kind, Rows, Sequences, digest
from peerwise.data.split import FRACTIONS, check_fractions, split_rows
from peerwise.errors import ConfigError, DataError
from peerwise.registry import path_of

SHORTEST_SECRET = 16  # bytes
PARTS = ("train", "val", "test")
Test = Literal["site", "common"]
ClassBalance = Literal["none", "balanced"]

Tree = dict[str, Any]
Keep = Callable[[Tree, Callable[[], Tree]], Tree]
Opener = Callable[[bytes, str], Any]


def work_anew(parts: Tree, work: Callable[[], Tree]) -> Tree:
    """The keep of a site that keeps nothing: the work is done every time."""
    return work()


def derived_seed(*parts: object) -> int:
    """A 31-bit seed (what every library takes) from these parts, the same in every process and on every machine."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


@dataclass(frozen=True, eq=False)
class SiteData:
    """A site's rows and what they are about: the same for every method, and sent to a worker once.

    ``classes`` is the common label set; a site may lack some of it. ``public`` are the unlabelled rows common to all
    sites, ``public_set`` says which they are. ``index``: the row numbers of each part.
    """

    name: str
    kind: Kind
    classes: tuple[str, ...]
    train: Rows
    val: Rows
    test: Rows
    features: tuple[Feature, ...] = ()
    public: Inputs | None = None
    public_set: PublicSet | None = None
    index: dict[str, Indices] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class SiteContext:
    """What a run gives a site.

    ``own_recipes``: those of the ``recipes`` that were given as objects, by name. ``class_balance`` "balanced": classes
    count alike, however rare, in the training of methods with rounds, in the choice of their best round, and in what
    PeerwiseClassifier answers. ``keep(parts, work)`` returns what ``work()`` made for these parts before, so that a
    second method never trains the same model again. Where there is an ``opener(data, name)``, peers' models are run by
    it, in a process of their own. ``secret`` is known to this site alone: where there is one, noise that protects rows
    is drawn from it. ``keep`` and ``opener`` work in one process alone: a pickled context goes without them.
    """

    recipes: tuple[str, ...] = ()
    own_recipes: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    device: str = "cpu"
    class_balance: ClassBalance = "none"
    keep: Keep = work_anew
    opener: Opener | None = None
    secret: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if self.class_balance not in get_args(ClassBalance):
            raise ConfigError(f"class_balance is {self.class_balance!r}: expected 'none' or 'balanced'.")
        if self.secret and len(self.secret) < SHORTEST_SECRET:
            raise ConfigError(
                f"a site has a secret of {len(self.secret)} bytes: expected at least {SHORTEST_SECRET}, such as "
                f"secrets.token_bytes(32)."
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "keep": work_anew, "opener": None}


class Site:
    """One site of a federation: its ``data`` (`SiteData`), the ``context`` of the run (`SiteContext`), and ``state``,
    the dict of all that survives a round.

    What the data and the context hold is read here too, as in ``site.train`` or ``site.seed``. It does not change:
    `replace` makes a site with other values.
    """

    def __init__(
        self,
        name: str,
        kind: Kind,
        classes: tuple[str, ...],
        train: Rows,
        val: Rows,
        test: Rows,
        features: tuple[Feature, ...] = (),
        public: Inputs | None = None,
        recipes: tuple[str, ...] = (),
        seed: int = 0,
        own_recipes: Mapping[str, Any] | None = None,
        device: str = "cpu",
        state: dict[str, Any] | None = None,
        index: dict[str, Indices] | None = None,
        keep: Keep = work_anew,
        public_set: PublicSet | None = None,
        opener: Opener | None = None,
        secret: bytes = b"",
        class_balance: ClassBalance = "none",
    ) -> None:
        index = {} if index is None else index
        own_recipes = {} if own_recipes is None else own_recipes
        self.data = SiteData(name, kind, classes, train, val, test, features, public, public_set, index)
        self.context = SiteContext(recipes, own_recipes, seed, device, class_balance, keep, opener, secret)
        self.state: dict[str, Any] = {} if state is None else state

    @classmethod
    def of(cls, data: SiteData, context: SiteContext, state: dict[str, Any]) -> Self:
        """The site with this very data and context."""
        site = cls.__new__(cls)
        site.data, site.context, site.state = data, context, state
        return site

    def replace(self, **changes: Any) -> Self:
        """A site with other values of the constructor's arguments. It shares the rest with this one, the state too."""
        state = changes.pop("state", self.state)
        in_data = {name: changes.pop(name) for name in _DATA_FIELDS & changes.keys()}
        return self.of(
            replace(self.data, **in_data) if in_data else self.data,
            replace(self.context, **changes) if changes else self.context,
            state,
        )

    def __repr__(self) -> str:
        return f"Site.of({self.data!r}, {self.context!r}, {self.state!r})"

    @property
    def name(self) -> str:
        return self.data.name

    @property
    def kind(self) -> Kind:
        return self.data.kind

    @property
    def classes(self) -> tuple[str, ...]:
        return self.data.classes

    @property
    def train(self) -> Rows:
        return self.data.train

    @property
    def val(self) -> Rows:
        return self.data.val

    @property
    def test(self) -> Rows:
        return self.data.test

    @property
    def features(self) -> tuple[Feature, ...]:
        return self.data.features

    @property
    def public(self) -> Inputs | None:
        return self.data.public

    @property
    def public_set(self) -> PublicSet | None:
        return self.data.public_set

    @property
    def index(self) -> dict[str, Indices]:
        return self.data.index

    @property
    def recipes(self) -> tuple[str, ...]:
        return self.context.recipes

    @property
    def own_recipes(self) -> Mapping[str, Any]:
        return self.context.own_recipes

    @property
    def seed(self) -> int:
        return self.context.seed

    @property
    def device(self) -> str:
        return self.context.device

    @property
    def class_balance(self) -> ClassBalance:
        return self.context.class_balance

    @property
    def keep(self) -> Keep:
        return self.context.keep

    @property
    def opener(self) -> Opener | None:
        return self.context.opener

    @property
    def secret(self) -> bytes:
        return self.context.secret

    def seed_for(self, purpose: str) -> int:
        """A seed for one purpose at this site; it never depends on order or on the number of workers."""
        return derived_seed(self.seed, self.name, purpose)

    def rng(self, purpose: str) -> np.random.Generator:
        return np.random.default_rng(self.seed_for(purpose))

    def noise_rng(self, purpose: str, *about: Inputs) -> np.random.Generator:
        """For noise that protects rows, and for what else must not be foreseen: from all 256 bits of a hash of the
        secret. Without one it is `rng`, which whoever knows the run's seed can draw again.

        ``about``: what the noise covers. With a secret the same value is covered alike however often a round is begun
        again, and another one anew, as the difference of two with the same noise would tell. The generator is numpy's,
        which was not made to withstand cryptanalysis.
        """
        if not self.secret:
            return self.rng(purpose)
        told = "\x1f".join([str(self.seed), self.name, purpose, *(digest(value) for value in about)])
        drawn = int.from_bytes(hmac.digest(self.secret, told.encode(), "sha256"), "big")
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(drawn, pool_size=8)))


_DATA_FIELDS = {each.name for each in fields(SiteData)}


def make_sites(
    dataset: Dataset,
    partition: str | Partition | None = None,
    sites: int | None = None,
    *,
    seed: int = 0,
    recipes: Sequence[str] = (),
    assign: Literal["all", "cycle"] = "all",
    public: int = 0,
    public_alpha: float | None = None,
    fractions: tuple[float, float, float] = FRACTIONS,
    test: Test = "site",
    class_balance: ClassBalance = "none",
    device: str = "cpu",
    **partition_params: Any,
) -> list[Site]:
    """Share a data set out among sites, and split each site's rows into train, validation and test.

    ``partition`` is by default the data set's own sites where it has them (hospitals, domains, those of a split file,
    whose splits are then used too), else "dirichlet"; a function is called as a partition's is. ``sites`` is 10 for the
    drawn partitions; natural sites are as many as the column has values. ``public`` rows are set aside first,
    unlabelled and common to all (whole groups
    where there are groups, so at least that many); ``public_alpha`` skews their classes by a Dirichlet draw. With
    ``assign="cycle"`` site i trains only ``recipes[i % len(recipes)]``. With ``test="common"`` the test rows are the
    same everywhere and at no site: the data set's official test part where it has one, else the last of ``fractions``,
    set aside before all else; each site is then split into train and validation rows alone. ``class_balance``: see
    `SiteContext`.
    """
    if assign not in ("all", "cycle"):
        raise DataError(f"assign is {assign!r}; use 'all' or 'cycle'.")
    present = np.unique(dataset.y)
    if len(present) < 2:
        only = [dataset.classes[code] for code in present]
        raise DataError(f"{dataset.name}: all {len(dataset)} rows are of one class {only}; at least two are needed.")
    chosen = partition or default_partition(dataset)
    name = chosen if isinstance(chosen, str) else path_of(chosen)
    tested, left = _common_test(dataset, test, fractions, seed)
    aside, rest = (left[rows] for rows in set_aside(dataset.take(left), public, _rng(seed, "public"), public_alpha))
    shares = partition_rows(dataset.take(rest), chosen, sites, _rng(seed, "partition"), **partition_params)
    given = np.concatenate([share.rows for share in shares])
    overlap = len(np.unique(given)) < len(given)
    if overlap and tested is None:
        raise DataError(
            f"partition {name!r} gives the same rows to several sites: one site's test rows would be another's train "
            f"rows. Use test='common', which sets test rows aside for all."
        )
    fixed = dataset.natural_split is not None and name == "natural"
    drawn = []
    for place, share in enumerate(shares):
        # Sites with the same rows split them alike, so that nobody's validation rows were trained on elsewhere.
        rng = _rng(seed, "split" if overlap else f"split {share.name}")
        parts = _parts(dataset, rest[share.rows], tested, fixed, fractions, rng)
        drawn.append(_site(dataset, parts, share, seed, device, _assigned(recipes, assign, place), class_balance))
    if public == 0:
        return drawn
    shown, common = dataset.X[aside], public_set(dataset, aside)
    return [
        site.replace(public=_seen(shown, share.features), public_set=common)
        for site, share in zip(drawn, shares, strict=True)
    ]


def site_of(
    dataset: Dataset,
    name: str,
    *,
    seed: int = 0,
    recipes: Sequence[str] = (),
    fractions: tuple[float, float, float] = FRACTIONS,
    public: tuple[Inputs, PublicSet] | None = None,
    class_balance: ClassBalance = "none",
    device: str = "cpu",
) -> Site:
    """One site with all of these rows, split as `make_sites` splits the natural site of that name: where the rows are
    the same in the same order, so are its parts, and so is what is learned from them. ``public`` are the public rows,
    as `peerwise.data.task.read_public` gives them."""
    if not len(dataset):
        raise DataError(f"{dataset.name}: no rows for site {name!r}, expected at least one. Check the file.")
    fixed = dataset.natural_split is not None
    parts = _parts(dataset, np.arange(len(dataset)), None, fixed, fractions, _rng(seed, f"split {name}"))
    site = _site(dataset, parts, Share(parts[0], name), seed, device, tuple(recipes), class_balance)
    return site if public is None else site.replace(public=public[0], public_set=public[1])


def default_partition(dataset: Dataset) -> str:
    return "natural" if dataset.site is not None else "dirichlet"


def _rng(seed: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng(derived_seed(seed, purpose))


def _assigned(recipes: Sequence[str], assign: str, place: int) -> tuple[str, ...]:
    return (recipes[place % len(recipes)],) if assign == "cycle" and recipes else tuple(recipes)


def _common_test(
    dataset: Dataset, test: Test, fractions: tuple[float, float, float], seed: int
) -> tuple[Indices | None, Indices]:
    """The common test rows, None if every site has its own; and all the others."""
    everything = np.arange(len(dataset))
    if test == "site":
        return None, everything
    if test != "common":
        raise DataError(f"test is {test!r}: expected 'site' (each its own test rows) or 'common' (one for all).")
    official = dataset.columns.get("official_split")
    if dataset.natural_split is not None:
        taken = dataset.natural_split == 2
    elif official is not None:
        taken = official == "test"
    else:
        check_fractions(fractions)
        drawn = split_rows(
            dataset.y,
            _rng(seed, "common test"),
            fractions=(1 - fractions[2], 0.0, fractions[2]),
            group=dataset.group,
            time=dataset.time,
        )
        taken = np.isin(everything, drawn[2])
    if not taken.any() or taken.all():
        raise DataError(
            f"test='common' finds {taken.sum()} test rows among the {len(dataset)} of {dataset.name}: expected some, "
            f"and others to train on. Give fractions whose last number is above 0, e.g. {FRACTIONS}, or more rows."
        )
    return everything[taken], everything[~taken]


def _parts(
    dataset: Dataset,
    rows: Indices,
    tested: Indices | None,
    fixed: bool,
    fractions: tuple[float, float, float],
    rng: np.random.Generator,
) -> list[Indices]:
    """Train, validation and test rows of one site."""
    if fixed and dataset.natural_split is not None:
        parts = [rows[dataset.natural_split[rows] == part] for part in range(3)]
    else:
        group = None if dataset.group is None else dataset.group[rows]
        time = None if dataset.time is None else dataset.time[rows]
        if tested is not None:
            check_fractions(fractions)
            at_home = fractions[0] + fractions[1]
            fractions = (fractions[0] / at_home, fractions[1] / at_home, 0.0)
        parts = [rows[p] for p in split_rows(dataset.y[rows], rng, fractions=fractions, group=group, time=time)]
    return parts if tested is None else [parts[0], parts[1], tested]


def _site(
    dataset: Dataset,
    parts: list[Indices],
    share: Share,
    seed: int,
    device: str,
    recipes: tuple[str, ...],
    class_balance: ClassBalance,
) -> Site:
    groups = None if dataset.group is None else np.unique(dataset.group, return_inverse=True)[1]
    train, val, test = (
        Rows(_seen(dataset.X[part], share.features), dataset.y[part], None if groups is None else groups[part])
        for part in parts
    )
    features = dataset.features
    if share.features is not None:
        features = tuple(features[place] for place in share.features)
    return Site(
        name=share.name,
        kind=dataset.kind,
        classes=dataset.classes,
        train=train,
        val=val,
        test=test,
        features=features,
        recipes=recipes,
        seed=seed,
        device=device,
        class_balance=class_balance,
        index=dict(zip(PARTS, parts, strict=True)),
    )


def _seen(X: Inputs, features: tuple[int, ...] | None) -> Inputs:
    return X if features is None or isinstance(X, Sequences) else X[:, list(features)]
