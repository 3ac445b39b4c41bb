"""A small eICU of our own: tables as PhysioNet names them, with rows that a test can count by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from peerwise.data.loaders.eicu.tables import TABLES

Row = dict[str, Any]
Tables = dict[str, list[Row]]

# What a test does not say of a row; columns that tell of the end are there, so that somebody could use them.
USUAL: dict[str, Row] = {
    "patient": {
        "patientunitstayid": 0, "gender": "Female", "age": "60", "ethnicity": "Asian", "hospitalid": 1,
        "apacheadmissiondx": "Sepsis, pulmonary", "admissionheight": 170, "hospitaladmitoffset": -120,
        "hospitaldischargeyear": 2015, "hospitaldischargeoffset": 9000, "hospitaldischargelocation": "Home",
        "hospitaldischargestatus": "Alive", "unittype": "MICU", "unitadmitsource": "Floor", "unitvisitnumber": 1,
        "unitstaytype": "admit", "admissionweight": 70, "dischargeweight": 69, "unitdischargeoffset": 6000,
        "unitdischargelocation": "Floor", "unitdischargestatus": "Alive", "uniquepid": "",
    },
    "hospital": {"hospitalid": 1, "numbedscategory": "<100", "teachingstatus": "f", "region": "South"},
    "vitalAperiodic": {
        "patientunitstayid": 0, "observationoffset": 30, "noninvasivesystolic": 120, "noninvasivediastolic": 70,
        "noninvasivemean": 90,
    },
    "vitalPeriodic": {
        "patientunitstayid": 0, "observationoffset": 30, "temperature": 37, "sao2": 97, "heartrate": 80,
        "respiration": 18, "systemicsystolic": 120, "systemicdiastolic": 70, "systemicmean": 90,
    },
    "nurseCharting": {
        "patientunitstayid": 0, "nursingchartoffset": 30, "nursingchartentryoffset": 31,
        "nursingchartcelltypevallabel": "Heart Rate", "nursingchartcelltypevalname": "Heart Rate",
        "nursingchartvalue": "80",
    },
    "lab": {
        "patientunitstayid": 0, "labresultoffset": 30, "labname": "lactate", "labresult": 2.0,
        "labresultrevisedoffset": 40,
    },
    "physicalExam": {
        "patientunitstayid": 0, "physicalexamoffset": 30,
        "physicalexampath": "notes/Progress Notes/Physical Exam/Physical Exam/Neurologic/GCS/Eyes Score/4",
        "physicalexamvalue": "4", "physicalexamtext": "4",
    },
    "intakeOutput": {
        "patientunitstayid": 0, "intakeoutputoffset": 30, "intakeoutputentryoffset": 31,
        "cellpath": "flowsheet|Flowsheet Cell Labels|I&O|Output (ml)|Urine", "celllabel": "Urine",
        "cellvaluenumeric": 100,
    },
    "respiratoryCharting": {
        "patientunitstayid": 0, "respchartoffset": 30, "respchartentryoffset": 31, "respchartvaluelabel": "PEEP",
        "respchartvalue": "5",
    },
    "infusiondrug": {
        "patientunitstayid": 0, "infusionoffset": 30, "drugname": "Norepinephrine (mcg/min)", "drugrate": "4",
    },
    "medication": {
        "patientunitstayid": 0, "drugstartoffset": 30, "drugname": "NOREPINEPHRINE 4 MG", "drughiclseqno": "2051",
        "routeadmin": "IV", "drugordercancelled": "No", "prn": "No",
    },
    "admissionDx": {
        "patientunitstayid": 0, "admitdxenteredoffset": 30,
        "admitdxpath": "admission diagnosis|All Diagnosis|Non-operative|Diagnosis|Cardiovascular|Sepsis, pulmonary",
    },
    "pastHistory": {
        "patientunitstayid": 0, "pasthistoryoffset": 10, "pasthistoryenteredoffset": 30,
        "pasthistorypath": "notes/Progress Notes/Past History/Organ Systems/Cardiovascular (R)/Arrhythmias/x",
    },
    "apacheApsVar": {
        "patientunitstayid": 0,
        **dict.fromkeys(TABLES["apacheApsVar"].columns, -1),
    },
    "apachePredVar": {
        "patientunitstayid": 0, "diedinhospital": 0, "var03hspxlos": 0, "dischargelocation": 4,
        **dict.fromkeys(TABLES["apachePredVar"].columns, 0),
    },
}  # fmt: skip
# The minute of each table's rows, by which a test moves them.
OFFSETS = {
    "vitalAperiodic": "observationoffset", "vitalPeriodic": "observationoffset", "nurseCharting": "nursingchartoffset",
    "lab": "labresultoffset", "physicalExam": "physicalexamoffset", "intakeOutput": "intakeoutputoffset",
    "respiratoryCharting": "respchartoffset", "infusiondrug": "infusionoffset", "admissionDx": "admitdxenteredoffset",
    "pastHistory": "pasthistoryenteredoffset",
}  # fmt: skip
ENTERED = {
    "nurseCharting": "nursingchartentryoffset", "lab": "labresultrevisedoffset",
    "intakeOutput": "intakeoutputentryoffset", "respiratoryCharting": "respchartentryoffset",
    "pastHistory": "pasthistoryenteredoffset",
}  # fmt: skip


def stay(number: int, **told: Any) -> Row:
    return {"patientunitstayid": number, "uniquepid": f"p{number}", **told}


def write(folder: Path, tables: Tables) -> Path:
    """The tables as files in a folder; a table without rows has its header."""
    folder.mkdir(exist_ok=True)
    for name, rows in tables.items():
        frame = pd.DataFrame([{**USUAL[name], **row} for row in rows], columns=list(USUAL[name]))
        frame.to_csv(folder / f"{name}.csv.gz", index=False)
    return folder


def twenty_stays() -> Tables:
    """Two hospitals with ten stays each, of whom every other one died; a row of every kind in the first hour."""
    status = {0: "Alive", 1: "Expired"}
    patients = [
        stay(number, hospitalid=1 + number // 10, hospitaldischargestatus=status[number % 2]) for number in range(20)
    ]
    tables: Tables = {"patient": patients, "hospital": [{"hospitalid": 1}, {"hospitalid": 2, "region": "West"}]}
    for name in USUAL:
        if name not in tables:
            tables[name] = [stay(number) for number in range(20)]
    tables["infusiondrug"] = [stay(number, drugname="Propofol (ml/hr)") for number in range(20)]
    tables["medication"] = [stay(number, drugstartoffset=1000) for number in range(1, 20, 2)]
    return tables
