"""What is told of every hour of a stay, table by table. A value out of its range was miswritten and is left out."""

from __future__ import annotations

from dataclasses import dataclass

# Decimals are summed exactly: the same rows give the same numbers, however many threads read them.
NUMBER = "TRY_CAST({} AS DECIMAL(12, 3))"
VITAL = "%/Vital Sign and Physiological Data/"

PRESSORS = "norepinephrine|levophed|epinephrine|phenylephrine|neo-?synephrine|vasopressin|dopamine"
NOT_PRESSORS = "racepinephrine|racemic|lidocaine|bupivacaine|articaine"


@dataclass(frozen=True)
class Channel:
    """An aggregate (SQL) over the rows of one hour, or of one stay. A ``carried`` one holds until it is measured
    again, and has a second column that says in which hours it was; another is 0 in an hour without rows."""

    name: str
    sql: str
    carried: bool = True


def level(name: str, value: str, low: float, high: float, where: str = "true") -> Channel:
    number = NUMBER.format(value)
    return Channel(name, f"avg({number}) FILTER (WHERE {where} AND {number} BETWEEN {low} AND {high})")


def amount(name: str, value: str, high: float, where: str) -> Channel:
    number = NUMBER.format(value)
    return Channel(name, f"sum({number}) FILTER (WHERE {where} AND {number} BETWEEN 0 AND {high})", carried=False)


def flag(name: str, where: str) -> Channel:
    return Channel(name, f"max(CASE WHEN {where} THEN 1 ELSE 0 END)", carried=False)


def _exam(name: str, what: str, low: float, high: float) -> Channel:
    return level(name, "physicalexamtext", low, high, f"physicalexampath LIKE '{VITAL}{what}'")


def _score(name: str, what: str, high: int) -> Channel:
    return level(name, "physicalexamvalue", 1, high, f"physicalexampath LIKE '%/GCS/{what} Score/%'")


def _breath(name: str, labels: str, low: float, high: float) -> Channel:
    return level(name, "respchartvalue", low, high, f"respchartvaluelabel IN ({labels})")


def _nurse(name: str, what: str, low: float, high: float) -> Channel:
    return level(name, "nursingchartvalue", low, high, f"nursingchartcelltypevalname = '{what}'")


def _lab(name: str, label: str, low: float, high: float) -> Channel:
    return level(name, "labresult", low, high, f"labname = '{label}'")


def _drip(name: str, names: str) -> Channel:
    return flag(name, f"regexp_matches(drugname, '{names}', 'i') AND {RUNNING}")


# A rate that was not written down does not say that nothing ran; one that is no number ("OFF", "ERROR") does.
RUNNING = "(drugrate IS NULL OR trim(drugrate) = '' OR TRY_CAST(drugrate AS DOUBLE) > 0)"

HOURLY: dict[str, tuple[Channel, ...]] = {
    "vitalAperiodic": (
        level("cuff_systolic", "noninvasivesystolic", 30, 300),
        level("cuff_diastolic", "noninvasivediastolic", 10, 200),
        level("cuff_mean", "noninvasivemean", 15, 250),
    ),
    "vitalPeriodic": (
        level("temperature", "temperature", 25, 45),
        level("saturation", "sao2", 20, 100),
        level("heart_rate", "heartrate", 10, 300),
        level("respiration", "respiration", 1, 90),
        level("systolic", "systemicsystolic", 30, 300),
        level("diastolic", "systemicdiastolic", 10, 200),
        level("mean_pressure", "systemicmean", 15, 250),
    ),
    "nurseCharting": (
        _nurse("nurse_heart_rate", "Heart Rate", 10, 300),
        _nurse("nurse_respiration", "Respiratory Rate", 1, 90),
        _nurse("nurse_saturation", "O2 Saturation", 20, 100),
        _nurse("nurse_temperature", "Temperature (C)", 25, 45),
        _nurse("nurse_coma_score", "GCS Total", 3, 15),
    ),
    "physicalExam": (
        _exam("exam_heart_rate", "HR/HR Current", 10, 300),
        _exam("exam_respiration", "Resp Rate/Resp Current", 1, 90),
        _exam("exam_saturation", "O2 Sat%/O2 Sat% Current", 20, 100),
        _exam("exam_systolic", "BP (systolic)/BP (systolic) Current", 30, 300),
        _exam("exam_lowest_systolic", "BP (systolic)/BP (systolic) Lowest", 30, 300),
        _score("exam_eyes", "Eyes", 4),
        _score("exam_verbal", "Verbal", 5),
        _score("exam_motor", "Motor", 6),
    ),
    "lab": (
        _lab("sodium", "sodium", 90, 190),
        _lab("potassium", "potassium", 1, 12),
        _lab("chloride", "chloride", 50, 160),
        _lab("bicarbonate", "bicarbonate", 2, 60),
        _lab("urea_nitrogen", "BUN", 1, 300),
        _lab("creatinine", "creatinine", 0.1, 30),
        _lab("glucose", "glucose", 10, 2000),
        _lab("bedside_glucose", "bedside glucose", 10, 2000),
        _lab("calcium", "calcium", 2, 20),
        _lab("magnesium", "magnesium", 0.1, 20),
        _lab("haemoglobin", "Hgb", 1, 25),
        _lab("white_cells", "WBC x 1000", 0, 500),
        _lab("platelets", "platelets x 1000", 0, 3000),
        _lab("albumin", "albumin", 0.1, 10),
        _lab("bilirubin", "total bilirubin", 0, 80),
        _lab("ast", "AST (SGOT)", 0, 30_000),
        _lab("inr", "PT - INR", 0.1, 30),
        _lab("lactate", "lactate", 0, 40),
        _lab("acidity", "pH", 6.3, 8.0),
        _lab("oxygen_pressure", "paO2", 10, 800),
        _lab("carbon_dioxide", "paCO2", 5, 250),
        _lab("troponin", "troponin - I", 0, 1000),
    ),
    "respiratoryCharting": (
        _breath("vent_oxygen", "'FiO2', 'O2 Percentage'", 21, 100),
        _breath("oxygen_flow", "'LPM O2'", 0, 100),
        _breath("vent_rate", "'RR (patient)', 'Total RR'", 1, 90),
        _breath("vent_saturation", "'SaO2'", 20, 100),
        _breath("peep", "'PEEP', 'PEEP/CPAP'", 0, 50),
        _breath("tidal_volume", "'Tidal Volume (set)'", 50, 2000),
        _breath("airway_pressure", "'Mean Airway Pressure'", 0, 80),
    ),
    "intakeOutput": (
        amount("taken_in", "cellvaluenumeric", 10_000, "cellpath LIKE '%|Intake (ml)|%'"),
        amount("urine", "cellvaluenumeric", 5000, "cellpath LIKE '%|Output (ml)|%' AND celllabel ILIKE '%urin%'"),
        amount("put_out", "cellvaluenumeric", 10_000, "cellpath LIKE '%|Output (ml)|%'"),
        flag("dialysis", "cellpath LIKE '%|Dialysis (ml)|%'"),
    ),
    "infusionDrug": (
        _drip("drip_pressor", PRESSORS),
        _drip("drip_inotrope", "dobutamine|milrinone"),
        _drip("drip_sedation", "propofol|midazolam|dexmedetomidine|lorazepam|ketamine"),
        _drip("drip_opioid", "fentanyl|morphine|hydromorphone"),
        _drip("drip_insulin", "insulin"),
        _drip("drip_heparin", "heparin"),
        _drip("drip_rhythm", "amiodarone|diltiazem|esmolol|lidocaine"),
        _drip("drip_lowering", "nitroglycerin|nicardipine|nitroprusside|labetalol|clevidipine"),
        _drip("drip_blocker", "rocuronium|vecuronium|cisatracurium"),
        _drip("drip_bicarbonate", "bicarb"),
    ),
}
