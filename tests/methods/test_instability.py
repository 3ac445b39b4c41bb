"""Whether one single peer decides a site's answers, with sites where that is known."""

from __future__ import annotations

import numpy as np
from small_federations import awkward, hospitals, table_site

from peerwise.data import Rows, Site
from peerwise.federation import answer
from peerwise.methods import GlobalEnsemble, OneShot
from peerwise.methods.instability import DECIDES, MOST_ROWS, instability
from peerwise.parcels import Parcel, pack, unpack
from peerwise.run import run_method
from peerwise.trust import BestSingle, OwnOnly, PeerwiseClassifier

LABELS = [0, 1, 2] * 15


def sure_site(name: str, *, misled: bool = False, rows: list[int] | None = None) -> Site:
    """A site where the first column tells the class without fail, or, misled, another class in all its rows."""
    site = table_site(name, rows or LABELS, LABELS[:9], LABELS[:9])

    def plain(part: Rows) -> Rows:
        X = np.zeros((len(part), 4), dtype=np.float32)
        X[np.arange(len(part)), part.y] = 5.0
        return Rows(X, (part.y + 1) % 3 if misled else part.y)

    return site.replace(**{part: plain(getattr(site, part)) for part in ("train", "val", "test")})


def at_home(site: Site) -> Site:
    """The same site with true labels: its models were trained by other ones."""
    back = {part: getattr(site, part) for part in ("train", "val")}
    return site.replace(**{part: Rows(rows.X, (rows.y - 1) % 3) for part, rows in back.items()})


def fitted(learner: BestSingle | PeerwiseClassifier, *peers: Site) -> tuple[OneShot, Site]:
    """A site whose own model is wrong about everything, and who listens to these peers."""
    method = OneShot(learner, folds=2)
    wrong = sure_site("here", misled=True)
    parcels: dict[str, Parcel] = {site.name: method.share(site, 0) for site in (wrong, *peers)}
    here = at_home(wrong)
    method.absorb(here, 0, parcels)
    return method, here


def test_a_peer_without_whom_every_answer_would_be_wrong_decides_them_all() -> None:
    method, here = fitted(BestSingle(), sure_site("good"), sure_site("useless", misled=True))
    found = instability(method, here)
    assert found.accuracy == 1
    assert found.rows == len(LABELS) + 9
    assert next(iter(found.by_peer)) == "good", "the most influential comes first"
    assert found.by_peer["useless"].changed == 0
    assert found.by_peer["useless"].accuracy_without == 1
    assert found.warning is not None
    assert "'good'" in found.warning
    assert "'useless'" not in found.warning
    assert found.by_peer["good"].changed == 1
    assert found.by_peer["good"].accuracy_without == 0
    assert "100%" in found.warning


def test_a_peer_whose_models_another_has_too_decides_nothing() -> None:
    good = sure_site("good")
    method, here = fitted(BestSingle(), good, good.replace(name="twin", state={}))
    found = instability(method, here)
    assert [influence.changed for influence in found.by_peer.values()] == [0, 0]
    assert found.accuracy == 1
    assert found.warning is None, "two that say the same hide each other, as the docstring has it"


def test_without_peers_nothing_hangs_on_anybody() -> None:
    method, here = fitted(BestSingle())
    found = instability(method, here)
    assert found.by_peer == {}
    assert found.warning is None
    assert found.accuracy == 0


def test_peers_whom_the_learner_never_asks_change_nothing() -> None:
    sites = hospitals("logistic")
    method = OneShot(OwnOnly(), folds=2)
    run_method(method, sites)
    found = instability(method, sites[0])
    assert set(found.by_peer) == {site.name for site in sites[1:]}
    assert all(influence.changed == 0 for influence in found.by_peer.values())
    assert all(influence.accuracy_without == found.accuracy for influence in found.by_peer.values())


def test_the_user_sets_how_much_is_too_much() -> None:
    sites = hospitals("logistic", "forest")
    method = OneShot(PeerwiseClassifier(), folds=2)
    run_method(method, sites)
    found = [instability(method, site) for site in sites]
    most = [max(influence.changed for influence in each.by_peer.values()) for each in found]
    assert [each.warning is not None for each in found] == [highest > DECIDES for highest in most]
    assert max(most) > 0
    named = instability(method, sites[int(np.argmax(most))], decides=0.0).warning
    assert named is not None
    assert next(iter(found[int(np.argmax(most))].by_peer)) in named


def test_it_is_measured_from_a_state_that_was_kept_and_changes_no_answer() -> None:
    sites = hospitals("logistic")
    method = GlobalEnsemble(folds=2)
    run_method(method, sites)
    site = sites[1]
    before = answer(method, site, site.test.X)
    usual = instability(method, site)
    again = instability(method, site.replace(state=unpack(*pack(site.state))))
    assert usual == again
    assert np.array_equal(before, answer(method, site, site.test.X))


def test_sites_with_little_to_learn_from_are_measured_or_said_to_have_no_rows() -> None:
    sites = awkward("logistic")
    method = OneShot(PeerwiseClassifier(), folds=2)
    run_method(method, sites)
    for site in sites:
        found = instability(method, site)
        assert found.rows == len(site.train) + len(site.val)
        assert len(found.by_peer) == len(sites) - 1


def test_a_single_row_says_nothing() -> None:
    method, here = fitted(BestSingle(), sure_site("good"))
    here = here.replace(train=here.train.take(slice(1)), val=here.val.take(slice(0)))
    here.state["own"]["held_out"] = here.state["own"]["held_out"][:1]
    found = instability(method, here)
    assert found.rows == 0
    assert found.by_peer == {}
    assert found.warning is None


def test_a_site_with_very_many_rows_is_measured_on_some_of_them() -> None:
    method = OneShot(BestSingle(), folds=2)
    many = sure_site("here", rows=[0, 1, 2] * 300)
    parcels = {site.name: method.share(site, 0) for site in (many, sure_site("good"))}
    method.absorb(many, 0, parcels)
    assert instability(method, many).rows == MOST_ROWS
