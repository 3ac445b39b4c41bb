"""Names of columns, codes and groups in the UCI tables."""

from __future__ import annotations

ADULT_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
)
COUNTRY_GROUPS = {
    "united_states": ("United-States",),
    "europe_canada": (
        "Germany",
        "Canada",
        "England",
        "Italy",
        "Poland",
        "Portugal",
        "Greece",
        "France",
        "Ireland",
        "Yugoslavia",
        "Scotland",
        "Hungary",
        "Holand-Netherlands",
    ),
    "latin_america": (
        "Mexico",
        "Puerto-Rico",
        "El-Salvador",
        "Cuba",
        "Jamaica",
        "Dominican-Republic",
        "Guatemala",
        "Columbia",
        "Haiti",
        "Nicaragua",
        "Peru",
        "Ecuador",
        "Trinadad&Tobago",
        "Honduras",
        "Outlying-US(Guam-USVI-etc)",
    ),
    "asia": (
        "Philippines",
        "India",
        "China",
        "South",
        "Japan",
        "Vietnam",
        "Taiwan",
        "Iran",
        "Thailand",
        "Hong",
        "Cambodia",
        "Laos",
    ),
}

COVERTYPE_COLUMNS = (
    "Elevation",
    "Aspect",
    "Slope",
    "Horizontal_Distance_To_Hydrology",
    "Vertical_Distance_To_Hydrology",
    "Horizontal_Distance_To_Roadways",
    "Hillshade_9am",
    "Hillshade_Noon",
    "Hillshade_3pm",
    "Horizontal_Distance_To_Fire_Points",
    *(f"Wilderness_Area{place}" for place in range(1, 5)),
    *(f"Soil_Type{place}" for place in range(1, 41)),
)
COVERTYPE_CLASSES = (
    "spruce-fir",
    "lodgepole pine",
    "ponderosa pine",
    "cottonwood-willow",
    "aspen",
    "douglas-fir",
    "krummholz",
)
WILDERNESS = ("rawah", "neota", "comanche_peak", "cache_la_poudre")

CREDIT_TARGETS = ("class", "default.payment.next.month", "default payment next month", "Y")
_EDUCATION = {1: "graduate school", 2: "university", 3: "high school"}
CREDIT_CODES = {
    "SEX": {1: "male", 2: "female"},
    "EDUCATION": {**_EDUCATION, **dict.fromkeys((0, 4, 5, 6), "other")},
    "MARRIAGE": {1: "married", 2: "single", 0: "other", 3: "other"},
}
