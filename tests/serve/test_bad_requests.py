"""Whatever a client sends, it hears in one sentence what was wrong with it, and the service goes on."""

from __future__ import annotations

import io
import json
import struct
import time
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image
from serve_desks import SmallDesk, client

JSON = {"Content-Type": "application/json"}
CSV = {"Content-Type": "text/csv"}
PNG = {"Content-Type": "image/png"}


def png(array: Any, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.asarray(array)).save(file, kind)
    return file.getvalue()


def bomb(side: int) -> bytes:
    """A PNG file of a few kilobytes that says it has side x side pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    rows = chunk(b"IDAT", zlib.compress(bytes(1 << 20), 9))
    return b"\x89PNG\r\n\x1a\n" + header + rows + chunk(b"IEND", b"")


def row(**cells: Any) -> bytes:
    return json.dumps({"row": cells}).encode()


# what is sent, the status, what the sentence has to hold
TABLE = [
    (b"", JSON, 422, "not JSON"),
    (b"{", JSON, 422, "brackets are left open"),
    (b"\xff\xfe{}", JSON, 422, "utf-8"),
    ('{"row":{"age":1}}'.encode("utf-16"), JSON, 422, "not JSON"),
    (b"[1]", JSON, 422, "the body is a list"),
    (b'"text"', JSON, 422, "the body is a text"),
    (b"null", JSON, 422, "the body is null"),
    (b"3", JSON, 422, "the body is a number"),
    (b"{}", JSON, 422, "the body has no row"),
    (b'{"row":{"age":1},"rows":[]}', JSON, 422, "both row and rows"),
    (b'{"rows":[]}', JSON, 422, "rows is 'a list': expected a list with at least one row"),
    (b'{"rows":{"age":1}}', JSON, 422, "rows is 'an object'"),
    (b'{"rows":[{"age":1},[1,2]]}', JSON, 422, "rows[1] is 'a list': expected an object"),
    (b'{"row":[1,2,3]}', JSON, 422, "row is 'a list'"),
    (b'{"row":{"age":1},"levle":0.9}', JSON, 422, "levle is 0.9: expected one of row, rows, level, frugal"),
    (b'{"row":{"age":1},"level":0.4}', JSON, 422, "level is 0.4: expected a number from 0.5 to 0.999"),
    (b'{"row":{"age":1},"level":1}', JSON, 422, "level is 1: expected"),
    (b'{"row":{"age":1},"level":true}', JSON, 422, "level is true: expected"),
    (b'{"row":{"age":1},"level":"0.9"}', JSON, 422, "level is '0.9': expected"),
    (b'{"row":{"age":1},"frugal":1}', JSON, 422, "frugal is 1: expected true or false"),
    (b'{"row":{"age":1,"age":2}}', JSON, 422, "'age' is there twice"),
    (b'{"row":{"age":NaN}}', JSON, 422, "NaN is no JSON number"),
    (b'{"row":{"age":-Infinity}}', JSON, 422, "-Infinity is no JSON number"),
    (b'{"row":{"age":1e999}}', JSON, 422, "too large for a number"),
    (b'{"row":{"age":1e39}}', JSON, 422, "row.age is 1e+39: expected a number in years"),
    (b'{"row":{"age":' + b"9" * 5000 + b"}}", JSON, 422, "more than 64 bits"),
    (b'{"row":{"age":"\\ud800"}}', JSON, 422, "surrogates not allowed"),
    (b'{"row":' + b"[" * 100_000 + b"]" * 100_000 + b"}", JSON, 422, "nested"),
    (b'{"row":' + b'{"a":' * 50 + b"1" + b"}" * 50 + b"}", JSON, 422, "nested"),
    (b"[" + b"[]," * 1_000_000 + b"[]]", JSON, 422, "values: expected at most 1000000"),
    (row(), JSON, 422, "row is 'an object': expected at least one value among 'age', 'chol', 'sex'"),
    (row(age=None), JSON, 422, "expected at least one value"),
    (row(age="", chol="NA"), JSON, 422, "expected at least one value"),
    (row(age="old"), JSON, 422, "row.age is 'old': expected a number in years."),
    (row(age="1,5"), JSON, 422, "row.age is '1,5'"),
    (row(age="inf"), JSON, 422, "row.age is 'inf'"),
    (row(age="0x10"), JSON, 422, "row.age is '0x10'"),
    (row(age="1_000"), JSON, 422, "row.age is '1_000'"),
    (row(age=True), JSON, 422, "row.age is true: expected a number"),
    (row(age=[1]), JSON, 422, "row.age is 'a list'"),
    (row(age={"a": 1}), JSON, 422, "row.age is 'an object'"),
    (row(age="x" * 5_000_000), JSON, 422, "xxx...': expected a number"),
    (row(sex="Male"), JSON, 422, "row.sex is 'Male': expected one of 'female', 'male'. Did you mean 'male'?"),
    (row(sex=1), JSON, 422, "row.sex is 1: expected one of 'female', 'male'."),
    (row(sex=["male"]), JSON, 422, "row.sex is 'a list'"),
    (
        row(chool=1),
        JSON,
        422,
        "row.chool is not known: expected a name among 'age', 'chol', 'sex'. Did you mean 'chol'?",
    ),
    (row(**{"x" * 3_000_000: 1}), JSON, 422, "is not known"),
    (row(**{f"x{n}": n for n in range(50_000)}), JSON, 422, "And at least 1 more"),
    (json.dumps({"rows": [{"age": "x"}] * 9000}).encode(), JSON, 422, "And at least 19 more"),
    (json.dumps({"rows": [{"age": 1}] * 10_001}).encode(), JSON, 413, "10,001 rows: expected at most 10,000"),
    (b" " * 8_000_001, JSON, 413, "more than 8,000,000 bytes"),
    (b"age,chol,sex\n" + b"1,2,male\n" * 10_001, CSV, 413, "10,001 rows: expected at most 10,000"),
    (b"", CSV, 422, "the table lacks 'age', 'chol', 'sex'"),
    (b"\n\n", CSV, 422, "found no line"),
    (b"age,chol,sex\n", CSV, 422, "has no rows"),
    (b"age;chol;sex\n1;2;male\n", CSV, 422, "the table lacks 'age', 'chol', 'sex'"),
    (b"age,sex\n1,male\n", CSV, 422, "the table lacks 'chol'"),
    (b"age,age,chol,sex\n1,1,2,male\n", CSV, 422, "column 'age' is there twice"),
    (b"age,chol,sex\n1,2\n", CSV, 422, "line 2 has 2 cells, the first one 3"),
    (b'age,chol,sex\n1,2,"male\n', CSV, 422, "no CSV table"),
    (b"age,chol,sex\n1,2,\xff\n", CSV, 422, "utf-8"),
    ("age,chol,sex\n1,2,male\n".encode("utf-16"), CSV, 422, "utf-8"),
    (b"age,chol,sex\n1,2," + b"m" * 200_000 + b"\n", CSV, 422, "field larger than field limit"),
    (b"," * 999_000, CSV, 422, "999,001 cells"),
    (b"," * 2_000_000, CSV, 413, "cells: expected at most 1,000,000"),
    (b'"\n"' + b"," * 900_000, CSV, 422, "cells: expected the 3 columns"),
    (b"age", {"Content-Type": "text/plain"}, 415, "expected application/json or text/csv for table rows"),
    (png(np.zeros((4, 5), np.uint8)), PNG, 415, "expected application/json or text/csv for table rows"),
    (row(age=1), {"Content-Type": "application/json; charset=latin-1"}, 415, "'latin-1': expected UTF-8"),
    (row(age=1), {**JSON, "Content-Encoding": "gzip"}, 415, "packed with 'gzip'"),
    (row(age=1), {"Content-Type": ""}, 415, "no content type"),
]


@pytest.mark.parametrize(("body", "headers", "status", "said"), TABLE, ids=range(len(TABLE)))
def test_a_table_is_told_what_is_wrong_with_its_rows(
    body: bytes, headers: dict[str, str], status: int, said: str
) -> None:
    service = client()
    began = time.process_time()
    check_refused(service.post("/v1/predict", content=body, headers=headers), status, said)
    assert time.process_time() - began < 3
    assert service.post("/v1/predict", json={"row": {"age": 50}}).status_code == 200


def check_refused(answer: Any, status: int, said: str) -> dict[str, Any]:
    error: dict[str, Any] = answer.json()["error"]
    assert (answer.status_code, error["status"]) == (status, status), error
    assert said in error["message"], error["message"]
    assert len(error["message"]) < 1000
    assert len(answer.content) < 20_000
    assert error["message"].endswith((".", "?"))
    return error


def test_a_wrong_field_is_named_with_its_value_and_what_was_expected() -> None:
    rows = [{"age": 50}, {"age": "old", "sex": "f"}]
    error = check_refused(client().post("/v1/predict", json={"rows": rows}), 422, "And 1 more.")
    assert error["fields"] == [
        {
            "field": "rows[1].age",
            "value": "old",
            "message": "rows[1].age is 'old': expected a number in years.",
            "expected": "a number in years",
        },
        {
            "field": "rows[1].sex",
            "value": "f",
            "message": "rows[1].sex is 'f': expected one of 'female', 'male'.",
            "expected": "one of 'female', 'male'",
        },
    ]


@pytest.mark.parametrize("query", ["level=0.4", "level=much", "frugal=perhaps", "levle=0.9", "level=nan", "level=inf"])
def test_what_is_asked_for_in_the_address_is_checked_too(query: str) -> None:
    rows = b"age,chol,sex\n1,2,male\n"
    check_refused(
        client().post(f"/v1/predict?{query}", content=rows, headers=CSV), 422, f"{query.partition('=')[0]} is "
    )


def test_with_json_nothing_is_asked_for_in_the_address() -> None:
    check_refused(client().post("/v1/predict?level=0.8", content=row(age=1), headers=JSON), 422, "in the body")


def test_only_one_row_is_explained() -> None:
    check_refused(
        client().post("/v1/explain", json={"rows": [{"age": 1}, {"age": 2}]}), 413, "2 rows: expected at most 1"
    )


FLAT = [[0] * 5 for _ in range(4)]
PICTURES = [
    (
        {"pixels": FLAT[:3]},
        "row.pixels is 'of the size [3, 5]': expected a nested list of the size [4, 5] or [1, 4, 5]",
    ),
    ({"pixels": [FLAT, FLAT]}, "of the size [2, 4, 5]"),
    ({"pixels": [[0] * 5, [0] * 4]}, "row.pixels is 'a list'"),
    ({"pixels": [[256] * 5] * 4}, "a list with 256"),
    ({"pixels": [[-1] * 5] * 4}, "a list with -1"),
    ({"pixels": [[0.5] * 5] * 4}, "a list with 0.5"),
    ({"pixels": [[None] * 5] * 4}, "a list with a gap"),
    ({"pixels": [["1"] * 5] * 4}, "row.pixels is 'a list'"),
    ({"pixels": [[2**63] * 5] * 4}, "a list with 9.22337e+18"),
    ({"pixels": "abc"}, "row.pixels is 'abc'"),
    ({"pixels": {}}, "row.pixels is 'an object'"),
    ({}, "row.pixels is null"),
    ({"pixels": FLAT, "label": 1}, "row.label is 1: expected no such field"),
]


@pytest.mark.parametrize(("sent", "said"), PICTURES, ids=range(len(PICTURES)))
def test_an_image_is_told_what_is_wrong_with_its_pixels(sent: Any, said: str) -> None:
    check_refused(client(SmallDesk("image")).post("/v1/predict", json={"row": sent}), 422, said)


FILES = [
    (b"", 422, "cannot be read"),
    (b"GIF89a" + bytes(100), 422, "cannot be read"),
    (png(np.zeros((4, 5), np.uint8))[:40], 422, "cannot be read"),
    (png(np.zeros((40, 50), np.uint8))[:-30], 422, "cannot be read"),
    (bomb(60_000), 413, "more than 25,000,000 pixels"),
    (bomb(5001), 413, "more than 25,000,000 pixels"),
]


@pytest.mark.parametrize(("body", "status", "said"), FILES, ids=range(len(FILES)))
def test_a_picture_that_cannot_be_read_is_refused_before_it_is_unpacked(body: bytes, status: int, said: str) -> None:
    check_refused(client(SmallDesk("image")).post("/v1/predict", content=body, headers=PNG), status, said)


def test_a_table_is_not_taken_for_pictures_nor_a_file_for_images_of_other_channels() -> None:
    service = client(SmallDesk("image"))
    check_refused(
        service.post("/v1/predict", content=b"age\n1\n", headers=CSV), 415, "expected application/json or image/png"
    )
    desk = SmallDesk("image")
    desk.about.inputs["x"] = (7, 4, 5)
    answer = client(desk).post("/v1/predict", content=png(np.zeros((4, 5), np.uint8)), headers=PNG)
    check_refused(answer, 415, "7 channels")


SEQUENCES = [
    ({"static": [1, 2]}, "row.series is null: expected a nested list of the size [3, 2], numbers or null"),
    ({"static": [1], "series": [[1, 2]] * 3}, "row.static is 'of the size [1]'"),
    ({"static": [1, 2], "series": [[1, 2]] * 2}, "row.series is 'of the size [2, 2]'"),
    ({"static": [1, "b"], "series": [[1, 2]] * 3}, "row.static is 'a list'"),
    ({"static": [1, 1e39], "series": [[1, 2]] * 3}, "row.static is 'a list with 1e+39'"),
    ({"static": [1, True], "series": [[1, None]] * 3, "more": 1}, "row.more is 1"),
]


@pytest.mark.parametrize(("sent", "said"), SEQUENCES, ids=range(len(SEQUENCES)))
def test_a_sequence_is_told_what_is_wrong_with_its_numbers(sent: Any, said: str) -> None:
    check_refused(client(SmallDesk("sequence")).post("/v1/predict", json={"row": sent}), 422, said)


@pytest.mark.parametrize("query", ["offset=-1", "limit=501", "limit=x", "offset=99999999999", "limit=%C2%B2"])
def test_a_page_of_cases_that_there_cannot_be_is_refused(query: str) -> None:
    check_refused(client().get(f"/v1/cases?{query}"), 422, f"{query.partition('=')[0]} is ")


def test_paths_and_methods_that_there_are_not_are_told_in_the_same_shape() -> None:
    service = client()
    check_refused(service.get("/v2/predict"), 404, "no such path")
    check_refused(service.get("/v1/predict/"), 404, "no such path")
    check_refused(service.get("/v1/predict"), 405, "does not take this method")
    check_refused(service.get("/docs"), 404, "no such path")
    check_refused(service.get("/page/..%2fapp.py"), 404, "no such")
    check_refused(service.get("/page/../app.py"), 404, "no such")
