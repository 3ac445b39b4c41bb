"""Who is asked about: the stays of a cohort with their labels, patients and hospitals (FIDDLE, Tang et al. 2020)."""

from __future__ import annotations

import pandas as pd

from peerwise.data.loaders.eicu.channels import NOT_PRESSORS, PRESSORS, RUNNING
from peerwise.data.loaders.eicu.database import Database
from peerwise.errors import DataError, MissingData

CLASSES = {"mortality": ("survived", "died"), "shock": ("no shock", "shock")}
WINDOWS = {"mortality": 48, "shock": 4}  # hours
ADULT = 18
# Codes of the drugs' ingredients (HICL), for orders whose names were taken out.
CODES = (
    "2051, 36346, 37410, 2050, 34361, 36437, 37407, 39089, 2087, 35517, 35587, 37028, 2839, 38883, 38884, 2059, 2060"
)


def cohort(database: Database, task: str, window: int) -> pd.DataFrame:
    """By stay: ``stay``, ``patient``, ``hospital``, ``region``, ``y``, and of the patient's own columns those that are
    features. Stays of adults that were still in the unit at the end of the window."""
    stays = _adults(database)
    stays = stays[stays["minutes"] >= 60 * window]
    found = _mortality(stays) if task == "mortality" else _shock(database, stays, window)
    if found.empty:
        raise DataError(
            f"eicu: no stay in {database.folder} is in the {task} cohort with a window of {window} h; check the "
            f"tables, or take a shorter window."
        )
    return found.drop(columns=["minutes", "status"]).sort_values("stay", ignore_index=True)


def _adults(database: Database) -> pd.DataFrame:
    """Ages of 90 and more are written "> 89". A stay without an age cannot be told to be an adult's."""
    region = "region" if database.has("hospital") else "NULL"
    joined = "LEFT JOIN hospital USING (hospitalid)" if database.has("hospital") else ""
    return database.frame(
        f"""
        SELECT patient.*, {region} AS region, hospitaldischargestatus AS status,
               TRY_CAST(unitdischargeoffset AS INTEGER) AS minutes,
               CASE WHEN age LIKE '>%' THEN 90 ELSE TRY_CAST(age AS INTEGER) END AS years
        FROM (SELECT * FROM patient QUALIFY row_number() OVER (PARTITION BY stay ORDER BY uniquepid) = 1) AS patient
        JOIN (SELECT stay, hospitaldischargestatus, unitdischargeoffset FROM outcome
              QUALIFY row_number() OVER (PARTITION BY stay ORDER BY hospitaldischargestatus) = 1) USING (stay)
        {joined}
        WHERE stay IS NOT NULL AND years >= {ADULT}
        """,
        "patient",
        "outcome",
    )


def _mortality(stays: pd.DataFrame) -> pd.DataFrame:
    known = stays[stays["status"].isin(["Alive", "Expired"])]
    return known.assign(y=(known["status"] == "Expired").astype("int64"))


def _shock(database: Database, stays: pd.DataFrame, window: int) -> pd.DataFrame:
    """Shock is the first vasopressor of a stay: none yet within the window, and one before the unit is left. Only
    hospitals that wrote any infusion or order down can tell that there was none."""
    told = [name for name in ("infusionDrug", "medication") if database.has(name)]
    if not told:
        raise MissingData(
            f"eicu: {database.folder} has neither infusionDrug nor medication, which tell of vasopressors; the shock "
            f"cohort needs one of them."
        )
    seen = " UNION ".join(f"SELECT stay FROM {name}" for name in told)
    hospitals = database.frame(f"SELECT DISTINCT hospitalid FROM patient WHERE stay IN ({seen})", "patient", *told)[
        "hospitalid"
    ]
    stays = stays[stays["hospitalid"].isin(hospitals)]
    first = database.frame(
        f"SELECT stay, min(minute) AS onset FROM ({_pressors(told)}) WHERE minute IS NOT NULL GROUP BY stay", *told
    )
    joined = stays.merge(first, on="stay", how="left")
    joined = joined[~(joined["onset"] < 60 * window)]
    shock = joined["onset"] < joined["minutes"]
    return joined.drop(columns="onset").assign(y=shock.astype("int64"))


def _pressors(told: list[str]) -> str:
    """Infusions that run, and orders into a vein that were neither cancelled nor for need only."""
    named = f"regexp_matches(drugname, '{PRESSORS}', 'i') AND NOT regexp_matches(drugname, '{NOT_PRESSORS}', 'i')"
    parts = {
        "infusionDrug": f"SELECT stay, minute FROM infusionDrug WHERE {named} AND {RUNNING}",
        "medication": f"""
            SELECT stay, minute FROM medication
            WHERE (({named}) OR TRY_CAST(drughiclseqno AS INTEGER) IN ({CODES}))
              AND regexp_matches(routeadmin, '\\biv|intraven|central', 'i')
              AND coalesce(drugordercancelled, 'No') <> 'Yes' AND coalesce(prn, 'No') <> 'Yes'""",
    }
    return " UNION ALL ".join(parts[name] for name in told)
