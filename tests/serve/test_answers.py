"""What the service answers: how sure, whom it comes from, in JSON and CSV; every answer is of the shape it promises."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from serve_desks import FEATURES, MODELS, SmallDesk, client

from peerwise.data import Sequences
from peerwise.serve import shapes
from peerwise.serve.desk import ServedModel

ROWS = {"rows": [{"age": 50 + place, "sex": "male"} for place in range(4)]}


def asked(desk: SmallDesk | None = None, path: str = "/v1/predict", **body: Any) -> dict[str, Any]:
    answer = client(desk).post(path, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_answers_carry_probabilities_trust_and_the_versions_of_the_models() -> None:
    found = asked(**ROWS)
    shapes.Predicted.model_validate(found, strict=True)
    first = found["answers"][0]
    assert first["answer"] == "healthy"
    assert first["probabilities"] == {"healthy": 0.9, "disease": 0.1}
    assert first["own"] == {"healthy": 0.1, "disease": 0.9}
    assert list(first["trust"]) == ["south", "north"]
    assert first["trust"]["south"] == pytest.approx(0.7)
    assert first["consulted"] == [model.name for model in MODELS]
    assert found["models"]["forest@south"]["version"] == "2026-01-02"
    assert [answer["row"] for answer in found["answers"]] == [1, 2, 3, 4]


def test_an_answer_is_unsure_unless_its_set_holds_it_alone() -> None:
    answers = asked(**ROWS)["answers"]
    assert [(answer["unsure"], answer["set"]) for answer in answers] == [
        (False, ["healthy"]),
        (False, ["disease"]),
        (True, ["healthy", "disease"]),
        (False, ["disease"]),
    ]
    assert [answer["why"] for answer in answers] == [
        "",
        "",
        "both healthy and disease are possible at 90 %",
        "",
    ]


def test_a_level_that_the_calibration_cases_cannot_carry_is_said() -> None:
    few = asked(SmallDesk(calibrated=5), row={"age": 50})["answers"][0]
    assert (few["unsure"], few["why"]) == (True, "5 calibration cases are too few for 90 %: at least 9 are needed")
    assert asked(SmallDesk(calibrated=9), row={"age": 50})["answers"][0]["unsure"] is False
    finer = asked(SmallDesk(calibrated=40), row={"age": 50}, level=0.99)["answers"][0]
    assert finer["why"] == "40 calibration cases are too few for 99 %: at least 99 are needed"
    assert asked(SmallDesk(calibrated=40), row={"age": 50}, level=0.8)["answers"][0]["unsure"] is False


def test_without_calibration_cases_every_answer_is_possible_and_unsure() -> None:
    found = asked(SmallDesk(calibrated=0), row={"age": 50})
    none = found["answers"][0]
    assert (none["unsure"], none["set"]) == (True, ["healthy", "disease"])
    assert "no calibration cases are left" in none["why"]
    assert found["record"]["sure"]["answers"] == found["record"]["unsure"]["answers"] == 0


def test_that_no_model_is_reliable_is_noted_and_does_not_change_the_verdict() -> None:
    found = asked(SmallDesk(fallback=True), row={"age": 50})["answers"][0]
    assert (found["note"], found["unsure"], found["why"]) == ("no model is reliable here", False, "")
    assert asked(row={"age": 50})["answers"][0]["note"] == ""


def test_an_answer_comes_with_how_often_such_answers_were_wrong() -> None:
    found = asked(**ROWS)
    assert found["sets"] == "marginal"
    assert found["record"]["unsure"] == {
        "answers": 40,
        "wrong": 20,
        "text": "20 of 40 unsure answers to cases with a known outcome were wrong",
    }
    assert found["record"]["sure"]["text"] == "no case with a known outcome got a sure answer"


def test_a_frugal_answer_names_the_models_that_were_asked() -> None:
    found = asked(row={"age": 50}, frugal=True)
    assert list(found["models"]) == ["forest@north", "linear@north"]
    assert found["answers"][0]["consulted"] == ["forest@north", "linear@north"]


def test_a_bundle_that_cannot_be_frugal_asks_all_models_and_says_so() -> None:
    desk = SmallDesk()
    desk.about = replace(desk.about, frugal=False)
    found = asked(desk, row={"age": 50}, frugal=True)
    assert found["notes"] == ["this bundle cannot be asked frugally: all models were asked."]
    assert found["answers"][0]["consulted"] == [model.name for model in MODELS]


def test_values_arrive_as_the_models_take_them() -> None:
    desk = SmallDesk()
    sent = [
        {"age": " 61 ", "chol": None, "sex": "male"},
        {"age": 61.0, "sex": "female "},
        {"chol": "?", "age": "6.1e1"},
    ]
    notes = asked(desk, rows=sent)["notes"]
    expected = np.array([[61, np.nan, 1], [61, np.nan, 0], [61, np.nan, np.nan]], np.float32)
    np.testing.assert_array_equal(np.asarray(desk.asked[0]), expected)
    assert desk.asked[0].dtype == np.float32
    assert notes == []


def test_a_number_out_of_range_is_noted_and_answered() -> None:
    assert asked(row={"age": 50, "chol": 6.2})["notes"] == [
        "chol has 6.2 outside 50 to 600 mg/dl: is it in another unit? Units are not converted."
    ]
    noted = asked(rows=[{"chol": 6.2}, {"chol": 5.9}, {"chol": 233}])["notes"]
    assert noted[0].startswith("chol has 2 of 3 values outside 50 to 600 mg/dl")


def test_a_csv_table_is_answered_as_the_same_rows_in_json() -> None:
    table, objects = SmallDesk(), SmallDesk()
    text = 'ward,sex,chol,age,outcome\r\nB2,male,233,61,disease\r\nB3,,"?",40,\r\n'
    by_csv = client(table).post("/v1/predict?level=0.8", content=text, headers={"Content-Type": "text/csv"}).json()
    by_json = asked(objects, rows=[{"sex": "male", "chol": 233, "age": 61}, {"age": 40}], level=0.8)
    np.testing.assert_array_equal(np.asarray(table.asked[0]), np.asarray(objects.asked[0]))
    assert by_csv["answers"] == by_json["answers"]
    assert by_csv["notes"] == ["1 columns that the task does not have are ignored: 'ward'."]


def test_an_odd_cell_of_a_table_becomes_a_missing_value_with_a_note() -> None:
    desk = SmallDesk()
    text = "age,chol,sex\r\nold,233,Male\r\n"
    found = client(desk).post("/v1/predict", content=text, headers={"Content-Type": "text/csv; charset=utf-8"}).json()
    np.testing.assert_array_equal(np.asarray(desk.asked[0]), np.array([[np.nan, 233, np.nan]], np.float32))
    assert "'old' (1 row), taken as missing" in found["notes"][0]
    assert "like 'male'" in found["notes"][1]


def test_answers_come_as_csv_where_that_is_wanted() -> None:
    answer = client().post("/v1/predict", json={"rows": [{"age": 500}] * 3}, headers={"Accept": "text/csv"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    lines = list(csv.reader(io.StringIO(answer.text)))
    assert lines[0] == ["row", "answer", "unsure", "set", "p_healthy", "p_disease", "trust_north", "trust_south"]
    assert lines[3] == ["3", "healthy", "true", "healthy; disease", "0.5", "0.5", "0.3", "0.7"]
    assert "outside 0 to 120 years" in json.loads(answer.headers["peerwise-notes"])[0]


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/json, text/csv", "text/html", ""])
def test_answers_come_as_json_otherwise(accept: str) -> None:
    answer = client().post("/v1/predict", json={"row": {"age": 50}}, headers={"Accept": accept})
    assert answer.headers["content-type"] == "application/json"


def test_names_that_a_spreadsheet_would_compute_are_text_in_csv() -> None:
    models = (ServedModel("m@=cmd()", "=cmd()", True, "", ""),)
    desk = SmallDesk(classes=("=HYPERLINK(1)", "@b"), models=models)
    text = client(desk).post("/v1/predict", json={"rows": [{"age": 50}] * 3}, headers={"Accept": "text/csv"}).text
    cells = [cell for line in csv.reader(io.StringIO(text)) for cell in line]
    assert "'=HYPERLINK(1)" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+", "-"))]


def test_pixels_and_pictures_arrive_as_the_models_take_them() -> None:
    desk = SmallDesk("image")
    grey = np.arange(20, dtype=np.uint8).reshape(4, 5)
    asked(desk, rows=[{"pixels": grey.tolist()}, {"pixels": [grey.tolist()]}])
    file = io.BytesIO()
    Image.fromarray(grey).save(file, "PNG")
    found = client(desk).post("/v1/predict", content=file.getvalue(), headers={"Content-Type": "image/png"}).json()
    for sent in (desk.asked[0][0], desk.asked[0][1], desk.asked[1][0]):
        assert sent.dtype == np.uint8
        np.testing.assert_array_equal(sent, grey[None])
    assert found["notes"] == []


@pytest.mark.parametrize(
    ("mode", "size", "format"),
    [
        ("RGB", (50, 40), "JPEG"),
        ("RGBA", (5, 4), "PNG"),
        ("P", (5, 4), "PNG"),
        ("1", (5, 4), "PNG"),
        ("CMYK", (9, 9), "JPEG"),
    ],
)
@pytest.mark.parametrize("kind", ["image", "colour"])
def test_pictures_of_other_colours_and_sizes_are_made_to_fit(mode: str, size: Any, format: str, kind: str) -> None:
    desk, file = SmallDesk(kind), io.BytesIO()
    Image.new(mode, size).save(file, format)
    headers = {"Content-Type": f"image/{format.lower()}"}
    found = client(desk).post("/v1/predict", content=file.getvalue(), headers=headers).json()
    assert desk.asked[0].shape == (1, *desk.about.inputs["x"])
    assert bool(found["notes"]) == (size != (5, 4))


def test_deep_grey_pictures_keep_their_upper_bits_and_turned_ones_are_upright() -> None:
    desk, deep, turned = SmallDesk("image"), io.BytesIO(), io.BytesIO()
    Image.fromarray(np.full((4, 5), 0x8000, np.uint16)).save(deep, "PNG")
    client(desk).post("/v1/predict", content=deep.getvalue(), headers={"Content-Type": "image/png"})
    assert set(desk.asked[0].ravel().tolist()) == {0x80}
    sideways = Image.new("L", (4, 5))
    exif = sideways.getexif()
    exif[0x0112] = 6
    sideways.save(turned, "JPEG", exif=exif)
    found = client(desk).post("/v1/predict", content=turned.getvalue(), headers={"Content-Type": "image/jpeg"}).json()
    assert found["notes"] == []


def test_sequences_arrive_as_the_models_take_them() -> None:
    desk = SmallDesk("sequence")
    asked(desk, row={"static": [1, None], "series": [[1, 2], [3, None], [5, 6.5]]})
    (sent,) = desk.asked
    assert isinstance(sent, Sequences)
    np.testing.assert_array_equal(sent.static, np.array([[1, np.nan]], np.float32))
    np.testing.assert_array_equal(sent.series, np.array([[[1, 2], [3, np.nan], [5, 6.5]]], np.float32))


def test_one_row_opened_says_what_speaks_for_and_against_each_site() -> None:
    found = asked(path="/v1/explain", row={"age": 50})
    shapes.Explained.model_validate(found, strict=True)
    opened = found["explanation"]
    assert [(line["site"], line["own"], line["text"]) for line in opened["evidence"]] == [
        ("south", False, "right on 6 of 7 such cases"),
        ("north", True, "wrong on 6 of 7 such cases"),
    ]
    assert opened["evidence"][1]["trust"] == pytest.approx(0.3)
    assert opened["models"][0]["version"] == "2026-01-02"
    assert opened["models"][0]["competence"] is None
    assert opened["neighbours"][0]["values"] == {"age": 61.0, "chol": None}


def test_a_method_that_cannot_explain_answers_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SmallDesk, "explain", lambda desk, X: None)
    found = asked(path="/v1/explain", row={"age": 50})
    assert found["explanation"] is None
    assert len(found["answers"]) == 1


def test_the_bundle_says_what_can_be_asked() -> None:
    found = client(rows=20, body_bytes=5000).get("/v1/bundle").json()
    shapes.Bundle.model_validate(found, strict=True)
    assert [feature["name"] for feature in found["features"]] == [feature.name for feature in FEATURES]
    assert found["limits"] == {"body_bytes": 5000, "rows": 20}
    assert found["has_cases"] is True


def test_cases_come_page_by_page() -> None:
    service = client()
    found = service.get("/v1/cases?offset=100&limit=50").json()
    shapes.Cases.model_validate(found, strict=True)
    assert (found["total"], [case["case"] for case in found["cases"]]) == (120, list(range(101, 121)))
    assert len(service.get("/v1/cases").json()["cases"]) == 50
    assert client(SmallDesk("image")).get("/v1/cases").status_code == 404


def test_peers_come_without_numbers_that_are_none() -> None:
    found = client().get("/v1/peers").json()
    shapes.Peers.model_validate(found, strict=True)
    assert (found["rows"], found["peers"][0]["accuracy"]) == (30, None)


def test_features_without_names_are_counted() -> None:
    desk = SmallDesk()
    object.__setattr__(desk.about, "features", ())
    asked(desk, row={"x0": 1, "x2": "2.5"})
    np.testing.assert_array_equal(np.asarray(desk.asked[0]), np.array([[1, np.nan, 2.5]], np.float32))


def test_the_openapi_document_has_every_path_and_every_kind_of_body() -> None:
    found = client().get("/v1/openapi.json").json()
    assert set(found["paths"]) == {"/v1/predict", "/v1/explain", "/v1/bundle", "/v1/peers", "/v1/cases", "/v1/health"}
    asks = found["paths"]["/v1/predict"]["post"]
    assert set(asks["requestBody"]["content"]) == {"application/json", "text/csv", "image/png", "image/jpeg"}
    assert set(asks["responses"]) >= {"200", "401", "413", "415", "422", "429", "503"}
    assert set(asks["responses"]["200"]["content"]) == {"application/json", "text/csv"}
    assert asks["security"] == [{"token": []}]
    for example in asks["requestBody"]["content"]["application/json"]["examples"].values():
        assert set(example["value"]) <= {"row", "rows", "level", "frugal"}
