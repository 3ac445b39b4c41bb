"""PeerwiseClassifier over nets that may say "unknown": what becomes of the signal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from peerwise.checks import check_trust_learner
from peerwise.errors import BadOutputs, ConfigError
from peerwise.trust import PeerwiseClassifier, learner_from_tree, learner_to_tree
from peerwise.trust.open_peerwise import OpenPeerwise

CLASSES, MODELS = 4, 3


def rows(n=240, seed=0, noise=0.7):
    """Models that know class 0, 1, or 2 and 3 alone. Of others they say "unknown" for the most part, and what they say
    of known classes there is no help."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    logits = rng.normal(0, noise, (n, MODELS, CLASSES + 1))
    homes = ([0], [1], [2, 3])
    for model, home in enumerate(homes):
        at_home = np.isin(y, home)
        logits[at_home, model, y[at_home]] += 3
        logits[~at_home, model, -1] += 2
    return logits, y


def known(logits):
    return logits[:, :, :-1]


@pytest.mark.parametrize("signal", ["none", "column", "mask"])
def test_unknown_is_never_answered(signal):
    logits, y = rows()
    learner = OpenPeerwise(signal=signal, random_state=0).fit_outputs(logits, y)
    found = learner.predict_proba_outputs(rows(seed=1)[0])
    assert found.shape == (240, CLASSES + 1)
    assert (found[:, -1] == 0).all()
    assert np.allclose(found.sum(axis=1), 1)


def test_without_the_signal_it_is_peerwise_on_the_known_classes():
    logits, y = rows()
    new = rows(seed=1)[0]
    ours = OpenPeerwise(signal="none", random_state=0).fit_outputs(logits, y)
    plain = PeerwiseClassifier(random_state=0).fit_outputs(known(logits), y)
    assert np.allclose(ours.predict_proba_outputs(new)[:, :-1], plain.predict_proba_outputs(known(new)))
    assert np.allclose(ours.trust_outputs(new), plain.trust_outputs(known(new)))


def test_a_model_that_says_unknown_is_not_consulted_unless_all_do():
    logits, y = rows()
    new = rows(seed=1)[0]
    new[:5, :, -1] = 9  # all lost
    masked = OpenPeerwise(signal="mask", random_state=0).fit_outputs(logits, y).trust_outputs(new)
    plain = OpenPeerwise(signal="none", random_state=0).fit_outputs(logits, y).trust_outputs(new)
    lost = new.argmax(axis=2) == CLASSES
    some = ~lost.all(axis=1)
    assert 0 < some.sum() < len(some)
    assert (masked[lost & some[:, None]] == 0).all()
    assert np.allclose(masked[~some], plain[~some])
    consulted = np.where(lost, 0, plain)[some]
    assert np.allclose(masked[some], consulted / consulted.sum(axis=1, keepdims=True))


def test_a_model_that_is_not_consulted_has_no_influence():
    logits, y = rows()
    new = rows(seed=1)[0]
    learner = OpenPeerwise(signal="mask", random_state=0).fit_outputs(logits, y)
    idle = learner.trust_outputs(new) == 0
    assert idle.any()
    np.testing.assert_allclose(learner.influence_outputs(new)[idle], 0, atol=1e-6)


def test_those_who_know_a_row_are_asked_even_about_classes_that_the_site_has_never_seen():
    logits, y = rows()
    here = y < 2
    new, truth = rows(seed=1)
    strange = truth >= 2
    learner = {}
    for name in ("none", "mask"):
        learner[name] = OpenPeerwise(signal=name, random_state=0).fit_outputs(logits[here], y[here])
    right = {name: learner[name].predict_proba_outputs(new).argmax(axis=1) == truth for name in learner}
    assert right["mask"][strange].mean() > right["none"][strange].mean() + 0.3
    knows = new.argmax(axis=2) < CLASSES
    trust = learner["mask"].trust_outputs(new)
    assert (trust[knows.any(axis=1)] * ~knows[knows.any(axis=1)]).sum() == 0


def test_the_column_is_learned_from():
    """What a model says of known classes is noise here: only what it leaves for unknown tells the classes apart."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 150)
    logits = np.zeros((300, 2, 3))
    logits[:, 0, 0] = logits[:, 1, 1] = 1  # model 0 always says 0, model 1 always 1
    logits[:, 0, -1] = np.where(y == 1, 3, -3) + rng.normal(0, 0.5, 300)
    logits[:, 1, -1] = np.where(y == 0, 3, -3) + rng.normal(0, 0.5, 300)
    part = rng.permutation(300)
    fit, new = part[:200], part[200:]
    right = {}
    for signal in ("none", "column", "mask"):
        learner = OpenPeerwise(signal=signal, random_state=0).fit_outputs(logits[fit], y[fit])
        right[signal] = (learner.predict_proba_outputs(logits[new]).argmax(axis=1) == y[new]).mean()
    assert right["column"] == right["mask"] == 1
    assert right["none"] < 0.7


class AndUnknown(OpenPeerwise):
    """Outputs of the known classes alone, to which each model adds its doubt: for the check kit, whose pools have rows
    of every column."""

    def _learn(self, rows, validation):
        with_doubt = [part and replace(part, logits=doubted(part.logits)) for part in (rows, validation)]
        super()._learn(*with_doubt)

    def _decide(self, logits, X):
        return super()._decide(doubted(logits), X)

    def _votes(self, logits):
        return super()._votes(doubted(logits))[:, :, :-1]


def doubted(logits):
    return np.concatenate([logits, logits.mean(axis=2, keepdims=True)], axis=2)


@pytest.mark.parametrize("signal", ["none", "column", "mask"])
def test_it_keeps_the_contract_of_a_trust_learner(signal):
    check_trust_learner(AndUnknown(signal=signal, random_state=0))


def test_it_is_the_same_after_it_was_kept():
    logits, y = rows()
    new = rows(seed=1)[0]
    for signal in ("none", "column", "mask"):
        learner = OpenPeerwise(own=[1], signal=signal, random_state=0).fit_outputs(logits, y)
        again = learner_from_tree(OpenPeerwise, learner_to_tree(learner))
        assert np.array_equal(again.predict_proba_outputs(new), learner.predict_proba_outputs(new))


def test_bad_settings_and_labels_are_refused():
    logits, y = rows()
    with pytest.raises(ConfigError, match="signal='all': expected one of 'none', 'column', 'mask'"):
        OpenPeerwise(signal="all").fit_outputs(logits, y)
    y[3] = CLASSES
    with pytest.raises(BadOutputs, match="labels hold 4, which is 'unknown'"):
        OpenPeerwise().fit_outputs(logits, y)
