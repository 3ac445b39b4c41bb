"""One student instead of all nets: it learns the vote on public rows, and everybody answers with it."""

from __future__ import annotations

import numpy as np
import pytest
from net_federations import image_sites

from peerwise.checks import check_method
from peerwise.errors import ConfigError, DataError
from peerwise.federation import PEERS_LEFT_OUT, RUN, Session, answer
from peerwise.federation.method import FELL_BACK
from peerwise.methods.distilled_vote import DistilledVote
from peerwise.methods.fedov import FedOV
from peerwise.methods.fedsov import FedSOV
from peerwise.methods.open_voting import built_net
from peerwise.methods.registry import make_method
from peerwise.models.fitted import tensors
from peerwise.models.nets import net_probabilities
from peerwise.parcels import Parcel
from peerwise.run import run_method


def digit_sites(public=60):
    """Three sites with a light net each, and public digits that nobody has."""
    sites = image_sites(("cnn8", "cnn8", "cnn8"), rows=60)
    spare = image_sites(("cnn8", "cnn8", "cnn8"), rows=60 + public)
    rows = np.concatenate([site.train.X[60:] for site in spare])
    return [site.replace(public=rows) for site in sites]


def test_it_keeps_the_contract_of_a_method():
    check_method(DistilledVote(local_epochs=1, student_epochs=1))


@pytest.fixture(scope="module")
def taught():
    sites = digit_sites()
    method = DistilledVote(local_epochs=15, batch_size=16, lr=0.003, top=2, student_epochs=30)
    run_method(method, sites)
    return method, sites


def right(method, sites):
    y = np.concatenate([site.test.y for site in sites])
    return (np.concatenate([answer(method, site, site.test.X).argmax(axis=1) for site in sites]) == y).mean()


def test_the_student_answers_as_the_vote_does_and_is_the_same_everywhere(taught):
    method, sites = taught
    vote = method.vote(sites[0], sites[0].public).probabilities
    said = answer(method, sites[0], sites[0].public)
    assert (vote.argmax(axis=1) == said.argmax(axis=1)).mean() > 0.9
    assert len(np.unique(said.argmax(axis=1))) == 10
    for site in sites[1:]:
        assert np.array_equal(answer(method, site, sites[0].test.X), answer(method, sites[0], sites[0].test.X))
    assert set(method.predict_with_details(sites[0], sites[0].test.X)[1]) == {"own"}


def test_public_rows_decide_what_the_student_knows(taught):
    """Of public rows of one class a student learns next to nothing of the others."""
    method, sites = taught
    one_class = sites[0].train.X[sites[0].train.y == 3]
    poor = [site.replace(public=np.concatenate([one_class] * 6), state={}) for site in sites]
    run_method(method, poor)
    assert right(method, sites) > 0.5
    assert right(method, poor) < 0.3


def test_one_site_sends_the_student_and_all_send_a_net():
    sites = digit_sites()
    run_method(DistilledVote(local_epochs=1, student_epochs=1), sites)
    sent = [site.state[RUN]["sent"] for site in sites]
    assert sent[1] == sent[2]
    assert 1.8 < sent[0] / sent[1] < 2.1  # a net and a student that has one output less


def test_the_nets_are_those_of_the_method_that_they_are_named_after():
    sites = digit_sites()
    for name, whole in (("fedov", FedOV(local_epochs=2)), ("fedsov", FedSOV(local_epochs=2, compress="none"))):
        method = DistilledVote(nets=name, local_epochs=2)
        assert method.plan() == whole.plan()
        Session(method, sites[0])
        mine = method.share(sites[0], 0)
        Session(whole, sites[0])
        assert whole.share(sites[0], 0) == mine


def test_a_run_trains_the_same_whole_nets_once_whatever_it_says_of_pruning():
    full = {"compress": "none", "prune_epochs": 3, "prune_stages": 2, "sparsity": 0.5}
    plans = [
        make_method(name, settings, folds=5, epochs=None, sites=4).plan()
        for name, settings in (("fedsov", full), ("distilled_vote", {}), ("peerwise_open", {}))
    ]
    assert plans[0] == plans[1] == plans[2]
    assert make_method("fedsov", {}, folds=5, epochs=None, sites=4).plan().sparsity == 0.75


def shared(sites):
    """Every site has trained and said its net, and heard nothing."""
    method = DistilledVote(local_epochs=1, student_epochs=1)
    for site in sites:
        Session(method, site)
    return method, {site.name: method.share(site, 0) for site in sites}


def test_a_user_is_told_where_no_student_came():
    sites = digit_sites()
    method, nets = shared(sites)
    assert sites[0].state[FELL_BACK] == {"to": "the vote", "why": "no student came"}
    for site in sites:
        method.absorb(site, 0, nets)
        assert FELL_BACK in site.state
    method.absorb(sites[1], 1, {"site-0": method.share(sites[0], 1)})
    assert FELL_BACK not in sites[1].state
    method.absorb(sites[2], 1, {})
    assert sites[2].state[FELL_BACK]["why"] == "no student came"


def test_a_site_without_a_net_of_its_own_votes_with_those_of_its_peers():
    sites = digit_sites()
    _, nets = shared(sites[1:])
    method, late = DistilledVote(local_epochs=1), sites[0]
    Session(method, late)
    assert np.allclose(answer(method, late, late.test.X), 0.1)
    method.absorb(late, 0, nets)
    method.absorb(sites[1], 0, nets)
    assert "own" not in late.state
    assert np.array_equal(answer(method, late, late.test.X), answer(method, sites[1], late.test.X))
    found = method.predict_with_details(late, late.test.X)[1]
    assert found["models"] == ["cnn8@site-1", "cnn8@site-2"]
    assert "own" not in found


def test_rows_on_which_the_student_is_no_number_are_answered_by_the_vote():
    sites = image_sites(("cnn8", "cnn8"), rows=20)
    sites = [site.replace(public=site.train.X[:5]) for site in sites]
    method, nets = shared(sites)
    for site in sites:
        method.absorb(site, 0, nets)
    method.absorb(sites[1], 1, {"site-0": method.share(sites[0], 1)})
    asked = sites[1].test.X.astype(np.float32)
    asked[::2] = np.inf
    student = net_probabilities(built_net(sites[1].state["student"], sites[1], 10), tensors(asked, "cpu"))
    assert np.isnan(student[::2]).all()
    found = answer(method, sites[1], asked)
    assert np.array_equal(found[1::2], student[1::2])
    assert np.array_equal(found[::2], method.vote(sites[1], asked[::2]).probabilities)


def test_a_site_that_could_use_no_peers_net_does_not_teach():
    sites = digit_sites()
    method, nets = shared(sites)
    bad = {name: Parcel(**{**nets[name], "recipe": "none"}) for name in ("site-1", "site-2")}
    method.absorb(sites[0], 0, {**nets, **bad})
    assert len(sites[0].state[PEERS_LEFT_OUT]) == 2
    assert not method.share(sites[0], 1)


def test_a_peer_that_has_nothing_more_to_say_is_not_left_out():
    sites = digit_sites()
    method, nets = shared(sites)
    bad = {**nets, "site-2": Parcel(**{**nets["site-2"], "recipe": "none"})}
    method.absorb(sites[1], 0, bad)
    method.absorb(sites[1], 1, {"site-0": Parcel(), "site-2": Parcel()})
    assert set(sites[1].state[PEERS_LEFT_OUT]) == {"*@site-2"}  # the one of round 0


def test_a_site_that_the_student_has_not_reached_votes():
    sites = digit_sites()
    method = DistilledVote(local_epochs=1, student_epochs=1)
    for site in sites:
        Session(method, site)
    nobody = answer(method, sites[0], sites[0].test.X)
    assert np.allclose(nobody, 0.1)
    inbox = {site.name: method.share(site, 0) for site in sites}
    method.absorb(sites[0], 0, inbox)
    vote = method.vote(sites[0], sites[0].test.X)
    assert np.array_equal(answer(method, sites[0], sites[0].test.X), vote.probabilities)
    assert "trust" in method.predict_with_details(sites[0], sites[0].test.X)[1]


def after_one_round():
    """The method and its sites after the first round, and what the first site then sends."""
    sites = digit_sites()
    method = DistilledVote(local_epochs=1, student_epochs=1)
    for site in sites:
        Session(method, site)
    nets = {site.name: method.share(site, 0) for site in sites}
    for site in sites:
        method.absorb(site, 0, nets)
    good = method.share(sites[0], 1)
    return method, sites, good


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"student": 3}, "without recipe, weights or classes"),
        ({"student": {"recipe": "mlp", "weights": {}}}, "for table rows"),
        ({"student": {"recipe": "cnn8", "weights": {}}}, "missing or too many"),
        ({"classes": ["a"]}, "the same classes"),
    ],
)
def test_a_bad_student_is_left_out_and_the_vote_answers(change, said):
    method, sites, good = after_one_round()
    assert set(good) == {"student", "classes"}
    assert not method.share(sites[1], 1)
    method.absorb(sites[1], 1, {"site-0": Parcel(**{**good, **change})})
    assert said in sites[1].state[PEERS_LEFT_OUT]["student@site-0"]
    vote = method.vote(sites[1], sites[1].test.X).probabilities
    assert np.array_equal(answer(method, sites[1], sites[1].test.X), vote)
    method.absorb(sites[1], 1, {"site-0": good})
    assert not np.array_equal(answer(method, sites[1], sites[1].test.X), vote)


def test_weights_that_are_no_numbers_make_no_student():
    method, sites, good = after_one_round()
    broken = {name: np.full_like(value, np.nan) for name, value in good["student"]["weights"].items()}
    sent = Parcel(classes=good["classes"], student={"recipe": "cnn8", "weights": broken})
    method.absorb(sites[1], 1, {"site-0": sent})
    assert "non-finite" in sites[1].state[PEERS_LEFT_OUT]["student@site-0"]


def test_without_public_rows_it_says_what_to_do():
    with pytest.raises(DataError, match=r"has no public rows: DistilledVote .*--public 500"):
        run_method(DistilledVote(), image_sites())


def test_settings_that_cannot_work_are_refused():
    with pytest.raises(ConfigError, match="student_epochs is 0: expected at least 1"):
        DistilledVote(student_epochs=0)
    with pytest.raises(ConfigError, match="unknown open-set net 'fedavg'"):
        DistilledVote(nets="fedavg")  # type: ignore[arg-type]
