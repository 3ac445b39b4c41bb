"""What sites say about public rows: packed to the bit, and one label a row from all of it."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from peerwise.errors import ConfigError, ModelError, ParcelError
from peerwise.methods.public import (
    HIGHEST,
    class_frequency,
    confidence,
    consensus,
    dequantise,
    majority,
    pack_labels,
    pack_votes,
    qualified_majority,
    quantise,
    unpack_labels,
    unpack_votes,
)


@st.composite
def _labels(draw, most_classes=300):
    classes = draw(st.integers(1, most_classes))
    return np.array(draw(st.lists(st.integers(0, classes - 1), max_size=40)), dtype=np.int64), classes


@st.composite
def _ballots(draw):
    """Labels (sites, |U|), expertise in eighths, classes."""
    sites, rows, classes = draw(st.integers(1, 7)), draw(st.integers(0, 12)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return rng.integers(0, classes, (sites, rows)), rng.integers(0, 9, (sites, rows)) / 8, classes


@given(_labels())
def test_labels_come_back_and_take_the_stated_bytes(case):
    labels, classes = case
    data = pack_labels(labels, classes)
    assert len(data) == math.ceil(len(labels) * math.ceil(math.log2(classes)) / 8)
    assert np.array_equal(unpack_labels(data, len(labels), classes), labels)


@given(_labels(), st.integers(1, 16), st.integers(0, 2**32))
def test_votes_come_back_and_take_the_stated_bytes(case, bits, seed):
    labels, classes = case
    codes = np.random.default_rng(seed).integers(0, 2**bits, len(labels))
    data = pack_votes(labels, codes, classes, bits)
    assert len(data) == math.ceil(len(labels) * (math.ceil(math.log2(classes)) + bits) / 8)
    back = unpack_votes(data, len(labels), classes, bits)
    assert np.array_equal(back[0], labels)
    assert np.array_equal(back[1], codes)


@pytest.mark.parametrize(("rows", "size"), [(3000, 4500), (2250, 3375), (300, 450), (80, 120)])
def test_the_papers_public_sets_weigh_what_its_formula_says(rows, size):
    assert len(pack_votes(np.zeros(rows, int), np.zeros(rows, int), 10, 8)) == size


def test_bits_lie_as_written_down():
    assert pack_labels([1, 0, 1, 1], 2) == bytes([0b10110000])
    assert pack_labels([2, 0, 1], 3) == bytes([0b10000100])
    assert pack_votes([2, 1], [5, 7], 3, 3) == bytes([0b10101011, 0b11000000])
    assert pack_labels([0, 0, 0], 1) == b""


@given(st.binary(max_size=12), st.integers(0, 20), st.integers(1, 20), st.integers(1, 8))
def test_bytes_of_a_peer_are_refused_or_are_exactly_what_they_say(data, count, classes, bits):
    try:
        labels, codes = unpack_votes(data, count, classes, bits)
    except ParcelError:
        return
    assert pack_votes(labels, codes, classes, bits) == data


@pytest.mark.parametrize(
    ("data", "count", "classes", "message"),
    [
        (b"\x00", 9, 2, "1 bytes about 9 public rows: expected 2"),
        (b"\x00\x00\x00", 9, 2, "3 bytes about 9 public rows: expected 2"),
        (b"\xc0", 1, 3, "label 3 in what a peer said: expected 0 to 2"),
        (b"\x81", 1, 2, "0x81 has bits after the last public row"),
        (b"\x00", 3, 1, "1 bytes about 3 public rows: expected 0"),
    ],
)
def test_malformed_labels_are_refused_with_the_reason(data, count, classes, message):
    with pytest.raises(ParcelError, match=message):
        unpack_labels(data, count, classes)


def test_what_cannot_be_packed_is_refused_at_home():
    with pytest.raises(ModelError, match="labels from 0 to 3: expected 0 to 2"):
        pack_labels([0, 3], 3)
    with pytest.raises(ModelError, match="labels from -1 to 1"):
        pack_labels([-1, 1], 3)
    with pytest.raises(ModelError, match="float64: expected whole numbers"):
        pack_labels([0.0, 1.0], 3)
    with pytest.raises(ModelError, match="expertise codes from 0 to 4: expected 0 to 3"):
        pack_votes([0, 1], [0, 4], 2, 2)
    with pytest.raises(ModelError, match="2 labels and 3 expertise codes"):
        pack_votes([0, 1], [0, 1, 1], 2, 2)
    with pytest.raises(ModelError, match="17 bits for a score: expected 1 to 16"):
        quantise([0.5], 0, 1, 17)
    with pytest.raises(ModelError, match=r"expected finite values from 0 to 1\."):
        quantise([0.5, np.nan], 0, 1, 8)
    with pytest.raises(ModelError, match=r"scores from 0.5 to 1.5: expected finite values from 0 to 1\."):
        quantise([0.5, 1.5], 0, 1, 8)


@given(st.lists(st.floats(0, 1), min_size=1), st.floats(-10, 10), st.floats(1e-3, 10), st.integers(1, 16))
def test_quantised_scores_are_off_by_half_a_level_at_most(shares, low, width, bits):
    high = low + width
    values = np.clip(low + width * np.array(shares), low, high)
    codes = quantise(values, low, high, bits)
    back = dequantise(codes, low, high, bits)
    assert codes.min() >= 0
    assert codes.max() < 2**bits
    assert np.abs(back - values).max() <= width / (2**bits - 1) / 2 * (1 + 1e-6) + 1e-12
    assert back.min() >= low
    assert back.max() <= high
    assert np.array_equal(quantise(back, low, high, bits), codes)


def test_both_ends_of_a_score_are_levels_and_a_score_without_range_is_all_zeros():
    assert dequantise(quantise([0.0, 1.0], 0, 1, 3), 0, 1, 3).tolist() == [0.0, 1.0]
    assert quantise([0.0, 1 / 3, 0.4, 1.0], 0, 1, 2).tolist() == [0, 1, 1, 3]
    assert quantise([0.0, 0.0], 0, 0, 8).tolist() == [0, 0]
    assert dequantise([0, 0], 0, 0, 8).tolist() == [0.0, 0.0]


def test_class_frequency_is_the_share_of_the_said_class():
    assert class_frequency([2, 0, 1, 0], [6, 0, 2]).tolist() == [0.25, 0.75, 0.0, 0.75]
    with pytest.raises(ModelError, match="expected none below 0 and at least one above"):
        class_frequency([0], [0, 0])


@given(st.integers(1, 20), st.integers(0, 2**32), st.floats(0.01, 50))
def test_confidence_is_log_c_minus_entropy_and_never_leaves_its_range(classes, seed, sharpness):
    logits = sharpness * np.random.default_rng(seed).standard_normal((8, classes))
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p = np.vstack([p, np.full(classes, 1 / classes), np.eye(classes)[0]])
    scores = confidence(p)
    assert np.allclose(scores, math.log(classes) - entropy(p, axis=1), atol=1e-12)
    assert scores.min() >= 0
    assert scores.max() <= HIGHEST["confidence"](classes)
    assert scores[-2] == pytest.approx(0, abs=1e-12)
    assert scores[-1] == pytest.approx(math.log(classes))


def test_one_expert_outweighs_two_who_know_little():
    labels = np.array([[0, 0], [1, 1], [1, 1]])
    expertise = np.array([[0.9, 0.5], [0.3, 0.3], [0.3, 0.3]])
    assert consensus(zip(labels, expertise, strict=True), 3).tolist() == [0, 1]


@given(_ballots())
def test_the_consensus_is_what_the_formula_gives_row_by_row(ballots):
    labels, expertise, classes = ballots
    expected = []
    for said, known in zip(labels.T, expertise.T, strict=True):
        totals = [sum(max(e, 1e-6) for s, e in zip(said, known, strict=True) if s == c) for c in range(classes)]
        expected.append(next(c for c in range(classes) if totals[c] >= max(totals) * (1 - 1e-9)))
    assert consensus(zip(labels, expertise, strict=True), classes).tolist() == expected
    assert consensus(((a, b) for a, b in zip(labels, expertise, strict=True)), classes).tolist() == expected


@given(_ballots(), st.floats(0, 3))
def test_with_equal_expertise_the_consensus_is_the_majority(ballots, level):
    labels, _, classes = ballots
    expected = []
    for said in labels.T.tolist():
        counts = Counter(said)
        expected.append(min(label for label in counts if counts[label] == max(counts.values())))
    assert majority(labels, classes).tolist() == expected
    assert consensus(zip(labels, np.full(labels.shape, level), strict=True), classes).tolist() == expected


def test_where_nobody_knows_anything_the_majority_decides():
    labels = np.array([[2], [1], [1]])
    assert consensus(zip(labels, np.array([[9e-7], [0.0], [1e-9]]), strict=True), 3).tolist() == [1]


def test_sums_that_tie_are_ties_in_any_order_of_the_sites():
    labels, expertise = np.array([[1], [1], [1], [0]]), np.array([[0.1], [0.2], [0.3], [0.6]])
    assert 0.1 + 0.2 + 0.3 > 0.6
    for order in ([0, 1, 2, 3], [2, 1, 0, 3], [3, 2, 0, 1]):
        assert consensus(zip(labels[order], expertise[order], strict=True), 2).tolist() == [0]


@given(_ballots(), st.integers(1, 10))
def test_a_qualified_majority_is_undecided_below_the_share(ballots, tenths):
    labels, _, classes = ballots
    chosen = qualified_majority(labels, classes, tenths / 10)
    most = [Counter(said).most_common(1)[0][1] for said in labels.T.tolist()]
    enough = [10 * count >= tenths * len(labels) for count in most]
    assert (chosen >= 0).tolist() == enough
    assert np.array_equal(chosen[chosen >= 0], majority(labels, classes)[chosen >= 0])


def test_votes_that_do_not_fit_are_refused():
    with pytest.raises(ParcelError, match="nobody voted"):
        majority([], 3)
    with pytest.raises(ParcelError, match=r"\(3,\) labels with \(3,\) scores: expected 2"):
        majority([np.array([0, 1]), np.array([0, 1, 1])], 3)
    with pytest.raises(ConfigError, match="share is 0: expected above 0"):
        qualified_majority(np.array([[0]]), 2, 0)
