"""What the answers look like, for the OpenAPI document; the tests hold every answer against it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class WrongField(Shape):
    field: str = Field(examples=["rows[0].chol"])
    value: Any = Field(examples=["abc"])
    message: str = Field(examples=["rows[0].chol is 'abc': expected a number in mg/dl."])
    expected: str = Field(examples=["a number in mg/dl"])


class Error(Shape):
    status: int = Field(examples=[422])
    message: str = Field(description="One sentence: the value, what was expected, what to do.")
    fields: list[WrongField] = Field(default=[], description="Only where fields are at fault.")


class Problem(Shape):
    error: Error


class Model(Shape):
    site: str = Field(examples=["va"])
    own: bool
    version: str = Field(description="The edition that its site published; empty where there is none.")
    sha256: str


class NamedModel(Model):
    name: str = Field(examples=["forest@va"])


class Answer(Shape):
    row: int = Field(description="From 1, in the order of the request.")
    answer: str = Field(
        description="The likeliest class, or as the bundle answers for balanced accuracy.", examples=["disease"]
    )
    unsure: bool = Field(description="Whether `set` has more than one class; `why` says the reason.")
    why: str = Field(examples=["both healthy and disease are possible at 90 %"])
    set: list[str] = Field(description="Holds the truth with the probability `level`, and always the answer.")
    note: str = Field(description="What else is worth knowing, or empty.", examples=["no model is reliable here"])
    probabilities: dict[str, float] = Field(examples=[{"healthy": 0.1, "disease": 0.9}])
    own: dict[str, float] | None = Field(description="What the site's own models say on average.")
    trust: dict[str, float] | None = Field(description="By site, the largest first; sums to 1.")
    consulted: list[str] = Field(description="Names of the models that were asked.")


class Tally(Shape):
    answers: int = Field(description="To calibration cases, each judged by the others.")
    wrong: int
    text: str = Field(examples=["3 of 41 sure answers to cases with a known outcome were wrong"])


class Record(Shape):
    sure: Tally
    unsure: Tally


class Predicted(Shape):
    bundle: str = Field(description="Stands for all models and settings behind the answer.")
    site: str
    level: float
    calibration_rows: int
    sets: Literal["marginal", "by-class"] = Field(
        description="Whether `level` holds over all cases, or for each class."
    )
    record: Record = Field(description="How often sure and unsure answers were wrong, at this level.")
    notes: list[str] = Field(description="What was odd about the rows.")
    models: dict[str, Model] = Field(description="Those that were asked about any row.")
    answers: list[Answer]


class Says(Shape):
    name: str
    site: str
    own: bool
    version: str
    says: str
    confidence: float | None = None
    trust: float | None = None
    competence: float | None = None
    right_nearby: int | None = None
    of_nearby: int | None = None


class Neighbour(Shape):
    row: int
    part: str | None = None
    label: str
    distance: float | None = None
    weight: float | None = None
    values: dict[str, Any] | None = None
    case: int | None = Field(default=None, description="Its number among `GET /v1/cases`, where it is one of them.")


class Evidence(Shape):
    site: str
    own: bool
    influence: float | None = Field(description="The answer's probability, less what it would be without this site.")
    trust: float
    right_nearby: int | None
    of_nearby: int | None
    text: str = Field(examples=["wrong on 6 of 7 such cases"])


class Opened(Shape):
    models: list[Says]
    neighbours: list[Neighbour]
    fallback: bool = Field(description="Whether no model seemed reliable.")
    note: str
    agreed: bool = Field(description="Whether every model gives this answer.")
    agreement: str = Field(examples=["3 of 12 models say otherwise"])
    evidence: list[Evidence] = Field(description="By site, the one that moved the answer most first.")


class Explained(Predicted):
    explanation: Opened | None = Field(description="null where the method cannot tell.")


class Feature(Shape):
    name: str
    type: Literal["number", "category"]
    unit: str
    low: float | None
    high: float | None
    values: list[str]


class Limits(Shape):
    body_bytes: int
    rows: int


class Bundle(Shape):
    digest: str
    site: str
    method: str
    task: str
    kind: Literal["table", "image", "sequence"]
    classes: list[str]
    positive: str | None
    target: str
    inputs: dict[str, list[int]] = Field(examples=[{"x": [13]}])
    features: list[Feature]
    models: list[NamedModel]
    made: int | None = Field(description="Seconds since 1970.")
    calibration_rows: int
    frugal: bool = Field(description="Whether fewer models can be asked.")
    level: float = Field(description="Of the prediction sets, where a request has none.")
    sets: Literal["marginal", "by-class"]
    validation: dict[str, Any] | None
    own_models_answer: bool = Field(description="Whether the own models answer alone: with peers `fit` did worse.")
    has_cases: bool
    limits: Limits


class Peers(Shape):
    site: str
    rows: int | None = Field(description="Validation rows behind the figures.")
    peers: list[dict[str, Any]]


class Case(Shape):
    case: int
    label: str
    row: dict[str, Any]


class Cases(Shape):
    total: int
    cases: list[Case]


class Health(Shape):
    status: Literal["ok", "starting", "failing"]
    bundle: str | None
    uptime_seconds: float
