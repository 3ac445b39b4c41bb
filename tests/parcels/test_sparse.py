"""Weights that are mostly zero: they come back bit by bit, cost what is left of them, and nothing hostile gets in."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from peerwise.errors import ParcelError
from peerwise.parcels import Parcel
from peerwise.parcels.flat import NAMES
from peerwise.parcels.sparse import MOST_BYTES, dense_weights, sparse_weights


def there_and_back(weights):
    parcel = Parcel(weights=sparse_weights(weights))
    return dense_weights(Parcel.decode(*parcel.encode())["weights"])


def same_bits(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def net(pruned, seed=0):
    """The two convolutional and two linear layers of a net of about 150,000 parameters."""
    rng = np.random.default_rng(seed)
    shapes = {"conv1": (16, 1, 5, 5), "conv2": (32, 16, 5, 5), "hidden": (256, 512), "out": (11, 256)}
    weights = {}
    for name, shape in shapes.items():
        weight = rng.normal(size=shape).astype(np.float32)
        if name != "out":
            weight[rng.random(shape) < pruned] = 0
        weights |= {f"{name}.weight": weight, f"{name}.bias": rng.normal(size=shape[0]).astype(np.float32)}
    return weights


@given(
    arrays.arrays(
        st.sampled_from(list(NAMES)),
        arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=12),
        fill=st.just(0),
    )
)
def test_any_array_comes_back_bit_by_bit(array):
    assert same_bits(there_and_back({"a": array})["a"], array)


@given(st.integers(0, 3000), st.floats(0, 1), st.sampled_from(list(NAMES)), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_any_share_of_zeros_comes_back_bit_by_bit(size, share, dtype, seed):
    rng = np.random.default_rng(seed)
    array = rng.integers(1, 2, size).astype(dtype) * (rng.random(size) >= share)
    array = array.astype(dtype)
    assert same_bits(there_and_back({"a": array})["a"], array)


def test_minus_zero_and_nan_are_values():
    array = np.zeros(1000, np.float32)
    array[3], array[700], array[999] = -0.0, np.nan, np.inf
    array.view(np.uint32)[500] = 0x7FC01234  # a NaN with a message of its own
    tree = sparse_weights({"a": array})
    assert len(tree["a"]["values"]) == 4
    assert same_bits(there_and_back({"a": array})["a"], array)


def test_an_array_in_another_order_in_memory_comes_back_as_it_looks():
    array = np.zeros((60, 50), np.float32, order="F")
    array[59, 0], array[0, 49] = 1, 2
    back = there_and_back({"a": array, "b": array[::2, ::-1]})
    assert np.array_equal(back["a"], array)
    assert np.array_equal(back["b"], array[::2, ::-1])


def test_gaps_longer_than_a_byte_are_bridged():
    for gap in (253, 254, 255, 256, 509, 510, 511, 100_000):
        array = np.zeros(gap + 5000, np.int64)
        array[gap] = array[gap + 1] = 7
        assert "gaps" in sparse_weights({"a": array})["a"]
        assert same_bits(there_and_back({"a": array})["a"], array)


def test_bytes_sent_fall_with_the_share_that_is_pruned():
    weights = net(0.0)
    dense = Parcel(weights=weights).nbytes
    sent = {pruned: Parcel(weights=sparse_weights(net(pruned))).nbytes for pruned in (0, 0.8, 0.9, 0.95, 0.99)}
    assert sent[0] == dense
    kept_whole = sum(array.nbytes for name, array in weights.items() if name.startswith("out") or "bias" in name)
    prunable = dense - kept_whole
    for pruned, size in sent.items():
        # a value takes four bytes, its place at most one more or a bit of each element; names and shapes little
        position = min((1 - pruned) * 1.15 / 4, 1 / 32) if pruned else 0
        assert size <= kept_whole + prunable * (1 - pruned + position) * 1.03 + 1500, pruned
    assert list(sent.values()) == sorted(sent.values(), reverse=True)


def test_the_smaller_of_bits_and_gaps_is_taken():
    assert "mask" in sparse_weights(net(0.8))["hidden.weight"]
    assert "gaps" in sparse_weights(net(0.95))["hidden.weight"]
    assert isinstance(sparse_weights(net(0.0))["hidden.weight"], np.ndarray)
    assert isinstance(sparse_weights(net(0.99))["hidden.bias"], np.ndarray)


def test_what_no_parcel_can_hold_is_refused_as_ever():
    with pytest.raises(ParcelError, match="complex"):
        Parcel(weights=sparse_weights({"a": np.zeros(5000, np.complex64)})).encode()


def hostile(**changes):
    array = np.zeros(4000, np.float32)
    array[[5, 900, 3999]] = 1
    return {"a": {**sparse_weights({"a": array})["a"], **changes}}


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (hostile(gaps=np.array([5, 255], np.uint8)), "3 values for 1 positions"),
        (hostile(shape=[3999]), "position 3999: expected below 3999"),
        (hostile(values=np.ones(2, np.float32)), "2 values for 3 positions"),
        (hostile(values=np.ones((3, 1), np.float32)), "no array"),
        (hostile(values=[1, 1, 1]), "no array"),
        (hostile(gaps=[1, 2]), "positions of another kind"),
        (hostile(gaps=np.array([1, 2], np.int32)), "positions of another kind"),
        (hostile(shape=[-4000]), "whole numbers"),
        (hostile(shape=["4000"]), "whole numbers"),
        (hostile(shape=[True]), "whole numbers"),
        (hostile(shape=4000), "whole numbers"),
        (hostile(shape=[1] * 70), "70 dimensions"),
        (hostile(shape=[0, 2**70], values=np.ones(0, np.float32), gaps=np.zeros(0, np.uint8)), "expected at most"),
        (hostile(more=1), "no array"),
        ({"a": 3}, "no array"),
        ([1], "arrays by name"),
    ],
)
def test_what_was_tampered_with_is_refused(tree, said):
    with pytest.raises(ParcelError, match=said):
        dense_weights(tree)


@given(
    st.lists(st.integers(-1, 40), max_size=3),
    st.integers(0, 30),
    st.sampled_from(["gaps", "mask"]),
    arrays.arrays(np.uint8, st.integers(0, 30)),
)
@settings(max_examples=200)
def test_whatever_is_sent_is_an_array_of_the_declared_shape_or_refused(shape, values, kind, coded):
    tree = {"a": {"shape": shape, "values": np.ones(values, np.float32), kind: coded}}
    try:
        found = dense_weights(tree)["a"]
    except ParcelError:
        return
    assert found.shape == tuple(shape)
    assert np.count_nonzero(found) == values


def test_a_mask_of_the_wrong_length_or_with_bits_beyond_the_end_is_refused():
    array = np.zeros(1001, np.float32)
    array[::4] = 1
    good = sparse_weights({"a": array})["a"]
    with pytest.raises(ParcelError, match="mask of 125 bytes: expected 126"):
        dense_weights({"a": {**good, "mask": good["mask"][:-1]}})
    beyond = good["mask"].copy()
    beyond[-1] |= 1
    with pytest.raises(ParcelError, match="expected below 1001"):
        dense_weights({"a": {**good, "mask": beyond}})


@pytest.mark.parametrize("shape", [[10**12], [2**62, 2**62], [MOST_BYTES // 4 + 1]])
def test_a_giant_declared_shape_is_refused_before_there_is_memory_for_it(shape):
    tree = {"a": {"shape": shape, "values": np.ones(1, np.float32), "gaps": np.zeros(1, np.uint8)}}
    tracemalloc.start()
    with pytest.raises(ParcelError, match="expected at most"):
        dense_weights(tree)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6


def test_many_arrays_that_are_giant_together_are_refused():
    one = {"shape": [MOST_BYTES // 16], "values": np.ones(0, np.float32), "gaps": np.zeros(0, np.uint8)}
    with pytest.raises(ParcelError, match="expected at most"):
        dense_weights({str(place): one for place in range(5)})


def test_what_does_not_fit_the_expected_net_is_refused():
    wanted = net(0.0)
    tree = sparse_weights(net(0.9))
    assert all(same_bits(back, net(0.9)[name]) for name, back in dense_weights(tree, wanted).items())
    with pytest.raises(ParcelError, match="missing or too many"):
        dense_weights({name: node for name, node in tree.items() if name != "out.bias"}, wanted)
    with pytest.raises(ParcelError, match="another net"):
        dense_weights({**tree, "out.bias": np.zeros(12, np.float32)}, wanted)
    with pytest.raises(ParcelError, match="another net"):
        dense_weights({**tree, "hidden.weight": {**tree["hidden.weight"], "shape": [2**40, 2**40]}}, wanted)
