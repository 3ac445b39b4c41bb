"""The words of eICU's lists, as they become static features: the same columns for every hospital and release."""

from __future__ import annotations

CATEGORIES = {
    "gender": ("Female", "Male"),
    "ethnicity": ("African American", "Asian", "Caucasian", "Hispanic", "Native American"),
    "unittype": ("CCU-CTICU", "CSICU", "CTICU", "Cardiac ICU", "MICU", "Med-Surg ICU", "Neuro ICU", "SICU"),
    "unitadmitsource": (
        *("Acute Care/Floor", "Chest Pain Center", "Direct Admit", "Emergency Department", "Floor", "ICU"),
        *("ICU to SDU", "Observation", "Operating Room", "Other Hospital", "Other ICU", "PACU", "Recovery Room"),
        "Step-Down Unit (SDU)",
    ),
    "unitstaytype": ("admit", "readmit", "stepdown/other", "transfer"),
}
SYSTEMS = (
    *("Cardiovascular", "Gastrointestinal", "Genitourinary", "Hematology", "Metabolic/Endocrine"),
    *("Musculoskeletal/Skin", "Neurologic", "Respiratory", "Transplant", "Trauma"),
)
DIAGNOSES = {
    "sepsis": "Sepsis",
    "cardiac_arrest": "Cardiac arrest",
    "heart_failure": "CHF",
    "infarction": "Infarction, acute myocardial|MI admitted",
    "cardiogenic_shock": "Shock, cardiogenic",
    "rhythm": "Rhythm disturbance",
    "bypass_or_valve": "CABG|valve",
    "pneumonia": "Pneumonia",
    "respiratory_arrest": "ARDS|Arrest, respiratory",
    "bronchitis": "Emphysema|Asthma",
    "embolism": "Embolus, pulmonary|Thrombus",
    "bleeding": "Bleeding|Hemorrhage|Hematoma",
    "stroke": "CVA|stroke",
    "seizures": "Seizures",
    "coma": "Coma",
    "overdose": "Overdose|withdrawal",
    "ketoacidosis": "ketoacidosis",
    "renal_failure": "Renal failure|Renal obstruction",
    "liver": "Hepatic|Cirrhosis|Pancreatitis",
    "cancer": "Cancer|neoplasm|Leukemia|Lymphoma",
}
HISTORY = {
    "none": "/No Health Problems",
    "hypertension": "/Hypertension Requiring",
    "diabetes": "/(Non-)?Insulin Dependent Diabetes",
    "heart_failure": "/Congestive Heart Failure",
    "infarction": "/Myocardial Infarction",
    "coronary_procedure": "/Procedural Coronary|/Coronary Artery Bypass",
    "valve": "/Valve disease",
    "fibrillation": "/atrial fibrillation",
    "vascular": "/Peripheral Vascular",
    "thrombosis": "/Venous Thrombosis|/Pulmonary Embol",
    "lungs": "/COPD|/Asthma",
    "home_oxygen": "/Home Oxygen",
    "stroke": "/Strokes|/TIA",
    "dementia": "/Dementia",
    "seizures": "/Seizures",
    "renal_failure": "/Renal Failure",
    "renal_insufficiency": "/Renal Insufficiency",
    "cirrhosis": "/Cirrhosis",
    "cancer": "/Cancer",
    "immune": "/Immunosuppression|/AIDS|/HIV|/Steroid|/Chemotherapy",
}
