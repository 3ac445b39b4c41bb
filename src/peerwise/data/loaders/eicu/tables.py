"""The tables of eICU-CRD that are read, and of each the columns that may be: what is not listed here is never seen.

Left out for what they tell of the end: the table apachePatientResult, every column with "discharge" in its name,
diedinhospital, dischargeweight, var03hspxlos. The two that make labels and cohorts stand apart, as `outcome`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A file and its columns. ``at``: minutes from admission to the unit at which a row's value was; ``entered``: at
    which it was written down, or last corrected, and before which nobody knew it. ``same_row_twice``: whether the
    file may hold copies of a row, which then count once. ``of_a_stay``: whether it is about stays."""

    file: str
    columns: tuple[str, ...]
    at: str | None = None
    entered: str | None = None
    required: bool = False
    same_row_twice: bool = True
    of_a_stay: bool = True


TABLES = {
    "patient": Table(
        "patient",
        (
            "gender",
            "age",
            "ethnicity",
            "hospitalid",
            "admissionheight",
            "admissionweight",
            "hospitaladmitoffset",
            "unittype",
            "unitadmitsource",
            "unitvisitnumber",
            "unitstaytype",
            "uniquepid",
        ),
        required=True,
    ),
    "outcome": Table("patient", ("hospitaldischargestatus", "unitdischargeoffset"), required=True),
    "hospital": Table("hospital", ("hospitalid", "region"), of_a_stay=False),
    "infusionDrug": Table("infusionDrug", ("drugname", "drugrate"), at="infusionoffset"),
    "medication": Table(
        "medication",
        ("drugname", "drughiclseqno", "routeadmin", "drugordercancelled", "prn"),
        at="drugstartoffset",
    ),
    "vitalAperiodic": Table(
        "vitalAperiodic",
        ("noninvasivesystolic", "noninvasivediastolic", "noninvasivemean"),
        at="observationoffset",
    ),
    "vitalPeriodic": Table(
        "vitalPeriodic",
        ("temperature", "sao2", "heartrate", "respiration", "systemicsystolic", "systemicdiastolic", "systemicmean"),
        at="observationoffset",
        same_row_twice=False,  # 146 million rows, one every 5 minutes: to look for copies would cost more than they do
    ),
    "nurseCharting": Table(
        "nurseCharting",
        ("nursingchartcelltypevallabel", "nursingchartcelltypevalname", "nursingchartvalue"),
        at="nursingchartoffset",
        entered="nursingchartentryoffset",
    ),
    "lab": Table("lab", ("labname", "labresult"), at="labresultoffset", entered="labresultrevisedoffset"),
    "physicalExam": Table(
        "physicalExam", ("physicalexampath", "physicalexamvalue", "physicalexamtext"), at="physicalexamoffset"
    ),
    "intakeOutput": Table(
        "intakeOutput",
        ("cellpath", "celllabel", "cellvaluenumeric"),
        at="intakeoutputoffset",
        entered="intakeoutputentryoffset",
    ),
    "respiratoryCharting": Table(
        "respiratoryCharting",
        ("respchartvaluelabel", "respchartvalue"),
        at="respchartoffset",
        entered="respchartentryoffset",
    ),
    "admissionDx": Table("admissionDx", ("admitdxpath",), at="admitdxenteredoffset"),
    "pastHistory": Table(
        "pastHistory", ("pasthistorypath",), at="pasthistoryoffset", entered="pasthistoryenteredoffset"
    ),
    "apacheApsVar": Table(
        "apacheApsVar",
        (
            *("intubated", "vent", "dialysis", "eyes", "motor", "verbal", "meds", "urine", "wbc", "temperature"),
            *("respiratoryrate", "sodium", "heartrate", "meanbp", "ph", "hematocrit", "creatinine", "albumin"),
            *("pao2", "pco2", "bun", "glucose", "bilirubin", "fio2"),
        ),
    ),
    "apachePredVar": Table(
        "apachePredVar",
        (
            *("aids", "hepaticfailure", "lymphoma", "metastaticcancer", "leukemia", "immunosuppression"),
            *("cirrhosis", "diabetes", "electivesurgery"),
        ),
    ),
}
