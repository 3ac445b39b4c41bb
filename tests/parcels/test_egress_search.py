"""Rows among numbers and bytes: found in every form that they may take on their way, and nowhere else."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from egress_models import cancer, digits, hospitals, of_zoo
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.data import Rows, Sequences
from peerwise.parcels import Parcel
from peerwise.parcels.egress import holds_rows
from peerwise.parcels.egress.search import Canaries


def complete(site):
    """Rows of a hospital without gaps."""
    return site.train.X[np.isfinite(site.train.X).all(axis=1)]


CANCER = Canaries.of(cancer().X)
FORMS = {
    "float32": lambda row: row.astype("<f4").tobytes(),
    "float64": lambda row: row.astype("<f8").tobytes(),
    "the other byte order": lambda row: row.astype(">f8").tobytes(),
    "whole numbers": lambda row: (row * 10).round().astype("<i4").tobytes(),
    "CSV": lambda row: ",".join(str(float(value)) for value in row).encode(),
    "JSON": lambda row: json.dumps({"x": [float(value) for value in row]}).encode(),
    "base64": lambda row: base64.b64encode(row.astype("<f4").tobytes()),
    "hexadecimal": lambda row: row.astype("<f4").tobytes().hex().encode(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", [0, 1, 6])
def test_a_row_is_found_in_any_form_at_any_place(form, before):
    rows = complete(hospitals()[0])
    if form == "whole numbers":
        rows = rows.round(1)
    noise = np.random.default_rng(0).bytes(3000)
    sent = b"." * before + FORMS[form](rows[20]) + b"|" + noise
    assert holds_rows(sent, rows * 10 if form == "whole numbers" else rows) == [20]


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    row=st.integers(0, 199),
    begin=st.integers(0, 10),
    length=st.integers(20, 30),
    place=st.integers(0, 970),
    scale=st.sampled_from([1.0, 0.001, 1000.0]),
)
def test_half_a_row_is_found_wherever_it_is(row, begin, length, place, scale):
    numbers = np.random.default_rng(row).normal(size=1000) * scale
    part = cancer().X[row, begin : begin + length]
    numbers[place : place + len(part)] = part
    assert np.flatnonzero(CANCER.held_by(numbers)).tolist() == [row]


@settings(max_examples=40, derandomize=True, deadline=None)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(["normal", "codes", "marginals"]))
def test_numbers_that_are_no_row_are_none(seed, kind):
    rng = np.random.default_rng(seed)
    X = complete(hospitals()[0])
    # drawn column by column from the rows' own values, where a row comes back by chance alone
    drawn = {
        "normal": lambda: rng.normal(size=5000),
        "codes": lambda: rng.integers(0, 5, size=5000),
        "marginals": lambda: np.array([rng.permutation(column)[:20] for column in X.T]).T.ravel(),
    }[kind]()
    assert not Canaries.of(X).held_by(drawn).any()


def test_a_whole_site_in_a_parcel_is_found_and_its_models_hold_none():
    site = hospitals()[1]
    _, blobs = Parcel(rows=site.train.X).encode()
    assert len(holds_rows(b"".join(blobs.values()), site.train)) > 0.9 * len(site.train)
    for recipe in ("logistic", "forest", "boosting", "mlp"):
        assert holds_rows(of_zoo(recipe, 1).to_onnx(), site.train) == []


def test_pixels_and_series_are_found():
    pictures = (digits().X[:50].reshape(-1, 1, 8, 8) * 15).astype(np.uint8)
    assert holds_rows(b"head" + pictures[7].tobytes() + b"tail", Rows(pictures, np.zeros(50, np.int64))) == [7]
    series = Sequences(digits().X[:50, :3], digits().X[:50].reshape(-1, 8, 8))
    assert holds_rows(b"head" + series.series[9].tobytes(), series) == [9]


def test_few_rows_are_found_too():
    rows = complete(hospitals()[0])[:3]
    assert holds_rows(b"x" + rows[1].tobytes(), rows) == [1]
    assert holds_rows(b"", rows) == []


def test_digits_within_a_digest_are_no_row_in_text():
    """Manifests are full of digests, and some of these have a row's numbers between their letters."""
    rows = complete(hospitals()[0])
    numbers = [f"{value:g}" for value in rows[20]]
    assert holds_rows(",".join(numbers).encode(), rows) == [20]
    assert holds_rows("_".join(numbers).encode(), rows) == [20]
    named = "_".join(f"v{number}" for number in numbers)
    assert holds_rows(named.encode(), rows) == [20]
    digest = "".join(number.replace(".", "c") + "abdf"[place % 4] for place, number in enumerate(numbers))
    assert holds_rows(f'["{digest.ljust(64, "a")}"]'.encode(), rows) == []
