"""eICU-CRD, the demo or the full database: in-hospital mortality and shock, hospitals or regions as sites."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from peerwise.data.dataset import Dataset
from peerwise.data.loaders.eicu.cohort import CLASSES, WINDOWS, cohort
from peerwise.data.loaders.eicu.database import Database, opened
from peerwise.data.loaders.eicu.hourly import hourly_features
from peerwise.data.loaders.eicu.static import static_features
from peerwise.data.loaders.files import first_of, missing, user_folder
from peerwise.data.rows import Feature, Sequences
from peerwise.errors import ConfigError, DataError, MissingData, choices

__all__ = ["eicu"]

ADDRESS = "https://physionet.org/content/eicu-crd/2.0/ (or eicu-crd-demo/2.0.1/)"
LAYOUT = "eicu/{patient,hospital,...}.csv.gz"
PLACES = ("eicu", "eicu-crd", "eicu_demo/csv", "eicu_demo", ".")
SITES = {"hospital": "hospitalid", "region": "region"}
SUBGROUPS = {"hospital": "hospitalid", "region": "region", "sex": "gender", "ethnicity": "ethnicity"}


def eicu(
    data_dir: str | Path | None = None,
    *,
    task: str = "mortality",
    window: int | None = None,
    sites: str = "hospital",
    min_stays: int = 150,
    min_events: int = 5,
    top: int | None = None,
    memory: str = "1GB",
) -> Dataset:
    """Intensive care stays of eICU-CRD as hourly series, 2 classes (mortality or shock), sites: hospitals or regions.

    ``task``: "mortality" (died in hospital; stays of ``window`` hours or more, 48 unless told) or "shock" (a first
    vasopressor after ``window`` hours, 4 unless told). Nothing that was written down after the window is a feature.
    ``sites`` "hospital" or "region"; those with fewer than ``min_stays`` stays, or fewer than ``min_events`` of either
    class, are left out; of the others the ``top`` with the largest share of events among all their stays are kept.
    ``memory``: what DuckDB may use while it reads; ``docs/eicu.md`` has the rest.
    """
    hours = _checked(task, window, sites, min_stays, min_events, top)
    with opened(_folder(data_dir), memory) as database:
        if sites == "region" and not database.has("hospital"):
            raise MissingData(
                f"eicu: {database.folder} has no hospital.csv.gz, which says where; use sites='hospital'."
            )
        stays = _at_sites(cohort(database, task, hours), SITES[sites], min_stays, min_events, top)
        database.keep("cohort", pd.DataFrame({"stay": stays["stay"], "place": np.arange(len(stays))}))
        static, static_names = static_features(database, stays, hours)
        # Nobody in this cohort has had one yet.
        without = ["drip_pressor"] if task == "shock" else []
        series, series_names = hourly_features(database, len(stays), hours, without=without)
        source = _source(database)
    return Dataset(
        name=f"eicu_{task}_{hours}h",
        kind="sequence",
        X=Sequences(static, series),
        y=stays["y"].to_numpy(dtype=np.int64),
        classes=CLASSES[task],
        features=tuple(Feature(name) for name in [*static_names, *series_names]),
        site=_text(stays[SITES[sites]]),
        group=_text(stays["uniquepid"].fillna(stays["stay"].astype(str))),
        columns={name: _text(stays[column]) for name, column in SUBGROUPS.items()},
        source=source,
        licence="eICU Collaborative Research Database: PhysioNet credentialed data use agreement; demo: ODbL 1.0",
    )


def _checked(task: str, window: int | None, sites: str, min_stays: int, min_events: int, top: int | None) -> int:
    """The window in hours, or an error that names the wrong option."""
    if task not in CLASSES:
        raise ConfigError(f"eicu: {choices(task, CLASSES, 'task')}")
    if sites not in SITES:
        raise ConfigError(f"eicu: sites: {choices(sites, SITES, 'kind of site')}")
    hours = WINDOWS[task] if window is None else window
    least = {"window": (hours, 1), "min_stays": (min_stays, 1), "min_events": (min_events, 0)}
    least |= {} if top is None else {"top": (top, 2)}
    for name, (value, lowest) in least.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
            raise ConfigError(f"eicu: {name} is {value!r}: expected a whole number of at least {lowest}.")
    return hours


def _folder(data_dir: str | Path | None) -> Path:
    folder = user_folder(data_dir)
    names = [f"{place}/patient.csv{end}" for place in PLACES for end in (".gz", "")]
    found = None if folder is None else first_of(folder, *names)
    if found is None:
        raise missing("eicu", folder, LAYOUT, ADDRESS)
    return found.parent


def _at_sites(stays: pd.DataFrame, column: str, min_stays: int, min_events: int, top: int | None) -> pd.DataFrame:
    """The stays at sites that have enough of them."""
    by_site = stays.groupby(column, dropna=True)["y"].agg(["size", "sum"])
    rarer = np.minimum(by_site["sum"], by_site["size"] - by_site["sum"])
    kept = by_site[(by_site["size"] >= min_stays) & (rarer >= min_events)]
    if kept.empty:
        raise DataError(
            f"eicu: none of {len(by_site)} sites has {min_stays} stays with {min_events} of each class; the largest "
            f"has {by_site['size'].max()}, the most events at one are {by_site['sum'].max()}. Lower min_stays or "
            f"min_events, or use sites='region'."
        )
    if top is not None:
        share = (kept["sum"] / kept["size"]).sort_values(ascending=False, kind="stable")
        kept = kept.loc[share.index[:top]]
    return stays[stays[column].isin(kept.index)].reset_index(drop=True)


def _source(database: Database) -> str:
    lacking = ", ".join(sorted(database.missing)) or "none"
    return f"{ADDRESS}; tables that are not there and were done without: {lacking}"


def _text(values: pd.Series) -> np.ndarray:
    return values.fillna("unknown").to_numpy(dtype=str)
