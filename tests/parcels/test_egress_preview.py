"""Exactly what would leave, before it does."""

from __future__ import annotations

import numpy as np
import pytest
from egress_models import of_zoo

from peerwise.errors import ParcelError
from peerwise.parcels import Parcel, sha256
from peerwise.parcels.egress import contents
from peerwise.parcels.signed import Identity, Manifest, opened, seal


def sealed(**items):
    identity = Identity.new()
    when = {"version": 1, "created": 1_000_000_000, "expires": 1_000_000_600}
    data, blobs = seal(Parcel(**items), identity, federation="ab" * 32, site="a", topic="models", **when)
    return opened(data, "manifest", [identity.public]), blobs, data


def test_every_byte_that_leaves_is_in_the_list():
    forest, mlp = of_zoo("forest").to_onnx(), of_zoo("mlp").to_onnx()
    counts = np.arange(3.0)
    payload, blobs, signed = sealed(models={"forest": forest, "mlp": mlp}, counts=counts, note="two", raw=b"\x00odd")
    items = {item.name: item for item in contents(payload, blobs)}
    assert set(items) == {"manifest", "parcel", "arrays", "models/forest", "models/mlp", "raw"}
    assert {item.sha256 for item in items.values() if item.name != "manifest"} == set(blobs)
    assert sum(item.bytes for item in items.values()) == sum(map(len, blobs.values())) + items["manifest"].bytes
    assert items["manifest"].bytes < len(signed)
    model = items["models/forest"]
    assert (model.kind, model.bytes, model.sha256) == ("model", len(forest), sha256(forest))
    assert model.operators["TreeEnsembleClassifier"] == 1
    assert items["models/mlp"].parameters > 10_000
    assert items["arrays"].kind == "arrays"
    assert "(3,)" in items["arrays"].holds[0]
    assert (items["raw"].kind, items["parcel"].kind, items["manifest"].kind) == ("bytes", "JSON", "JSON")
    assert items["parcel"].holds == ("counts", "models", "note", "raw")


def test_two_names_for_one_model_are_one_blob():
    data = of_zoo("logistic").to_onnx()
    payload, blobs, _ = sealed(first=data, second=data)
    assert len([item for item in contents(payload, blobs) if item.kind == "model"]) == 1


def test_blobs_that_do_not_fit_the_manifest_are_refused():
    payload, blobs, _ = sealed(note=b"one")
    name = next(key for key, data in blobs.items() if data == b"one")
    for odd in ({**blobs, name: b"two"}, {**blobs, sha256(b"more"): b"more"}, {name: b"one"}):
        with pytest.raises(ParcelError, match="Publish again"):
            contents(payload, odd)


def test_a_withdrawal_is_its_manifest_alone():
    manifest = Manifest("ab" * 32, "a", "models", 2, 1_000_000_000, 1_000_000_600, "", withdrawn="retrained")
    assert [item.name for item in contents(manifest.payload, {})] == ["manifest"]
