"""A method over many sites: the same numbers however it is run, few files, and who took part."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from round_methods import Drift, Gossip, Letters, Silent, Unborn, Unsaved, chance_site, federation
from round_runs import EVERYBODY, Tree, differences, opened, run, state_of

from peerwise.data import Rows, Site
from peerwise.errors import ModelError
from peerwise.federation import RUN, answer
from peerwise.parcels import Parcel, pack
from peerwise.run import RunFolder, run_method
from peerwise.run.participation import Participation
from peerwise.run.runner import MethodRun
from peerwise.run.work import Part, step_sites
from peerwise.run.workers import open_workers

METHODS = [Drift(), Gossip(), Letters(), Silent(), Drift(fails={"site-1": ("share", 2), "site-2": ("absorb", 3)})]
AWAY = Participation(0.5, {"site-0": [0, 1], "site-2": [2], "site-3": [4, 5]}, seed=3)


@pytest.mark.parametrize("participation", [EVERYBODY, AWAY], ids=["all", "some"])
@pytest.mark.parametrize("method", METHODS, ids=["drift", "gossip", "letters", "silent", "failing"])
def test_any_number_of_workers_gives_the_same(tmp_path: Path, method: Drift, participation: Participation) -> None:
    one = run(tmp_path / "1", method, participation=participation)
    assert not differences(one, run(tmp_path / "3", method, workers=3, participation=participation))


def test_a_sites_rows_travel_once_for_all_methods_and_settings(tmp_path: Path) -> None:
    sites = [site.replace(train=TravellingRows(site.train, tmp_path / site.name)) for site in federation(2)]
    with ThreadPoolExecutor(1) as thread, open_workers(thread) as workers:
        for device in ("cpu", "another"):
            there = [site.replace(device=device, state={}) for site in sites]
            for method in (Drift(3), Gossip(2)):
                folder = RunFolder(tmp_path / device / type(method).__name__)
                MethodRun("toy-s0", method, there, folder, workers, lambda event: None).finish()
    assert [(tmp_path / site.name).read_text() for site in sites] == ["packed", "packed"]


class TravellingRows(Rows):
    """Writes into a file whenever it is packed."""

    def __init__(self, rows: Rows, file: Path) -> None:
        super().__init__(rows.X, rows.y)
        object.__setattr__(self, "file", file)

    def __reduce__(self) -> Any:
        with self.file.open("a") as file:  # type: ignore[attr-defined]
            file.write("packed")
        return Rows, (self.X, self.y)


class InPlace(Drift):
    """Changes what lies in its state where it lies: an array, and a list within a dict."""

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state["seen"] = {"rounds": []}

    def share(self, site: Site, round: int) -> Parcel:
        site.state["w"] += site.rng(f"round {round}").normal(size=self.size).astype(np.float32)
        site.state["seen"]["rounds"].append(round)
        return Parcel(w=site.state["w"])


def test_a_state_may_be_changed_in_place_wherever_the_site_is(tmp_path: Path) -> None:
    one = run(tmp_path / "1", InPlace())
    assert not differences(one, run(tmp_path / "2", InPlace(), workers=2))
    assert all(
        state_of(tmp_path / "2", name)["seen"]["rounds"] == list(range(1 + tree["best_round"]))
        for name, tree in one.items()
    )


def test_a_step_changes_nothing_of_what_is_saved_before_it_ends() -> None:
    (site,), method = federation(1), InPlace()
    (first,) = step_sites(method, [Part(site, {}, shares=True)], None, 0)
    assert first.state is not None
    before = pack({**first.state, RUN: {}})
    (second,) = step_sites(method, [Part(site, first.state, shares=True)], None, 1)
    assert pack({**first.state, RUN: {}}) == before
    assert second.state is not None
    assert second.state["seen"] == {"rounds": [0, 1]}


@pytest.mark.parametrize("participation", [EVERYBODY, AWAY], ids=["all", "some"])
@pytest.mark.parametrize("method", METHODS[:4], ids=["drift", "gossip", "letters", "silent"])
def test_in_memory_it_comes_out_the_same(tmp_path: Path, method: Drift, participation: Participation) -> None:
    recorded = run(tmp_path, method, participation=participation)
    sites = federation(4)
    run_method(method, sites, participation=participation)
    for site in sites:
        tree = recorded[site.name]
        assert np.array_equal(answer(method, site, site.test.X), tree["probabilities"])
        assert site.state[RUN]["best_round"] == tree["best_round"]
        for key in ("sent", "received", "took_part"):
            assert site.state[RUN][key] == tree[key], key


def test_the_state_that_answers_is_that_of_the_best_round(tmp_path: Path) -> None:
    for name, tree in run(tmp_path, Drift(12)).items():
        scores = [score for _, score in tree["curves"]["validation accuracy"]]
        assert len(scores) == 12
        assert scores[tree["best_round"]] == max(scores)  # among equals the loss decides: test_session
        state = state_of(tmp_path, name)
        assert [round for round, _ in state["heard"]] == list(range(tree["best_round"] + 1))
        assert tree["curves"]["first"][tree["best_round"]] == [tree["best_round"], pytest.approx(state["w"][0])]
        assert tree["curves"]["undefined"] == [[round, None] for round in range(12)]


def test_what_is_guaranteed_counts_the_rounds_after_the_best_too(tmp_path: Path) -> None:
    found = run(tmp_path, Drift(12))
    assert min(tree["best_round"] for tree in found.values()) < 11
    assert [tree["privacy"] for tree in found.values()] == [{"epsilon": 6.0, "rounds": 12}] * 4


class Unaccounted(Drift):
    def privacy(self, site: Site) -> Tree | None:
        if site.name == "site-1":
            raise ValueError("no accountant")
        return super().privacy(site)


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_site_whose_privacy_cannot_be_counted_is_that_sites_failure(tmp_path: Path, rounds: int) -> None:
    found = run(tmp_path, Unaccounted(rounds), 3)
    assert {name for name, tree in found.items() if tree["fell_back"]} == {"site-1"}
    assert "no accountant" in found["site-1"]["fell_back"]["why"]
    assert found["site-1"]["privacy"] is None


def test_in_memory_a_privacy_that_fails_is_raised() -> None:
    with pytest.raises(ValueError, match="no accountant"):
        run_method(Unaccounted(1), federation(3))


class Counting(Drift):
    """Counts in its state how often it has answered."""

    def predict_proba(self, site: Site, X: Any) -> Any:
        site.state["answers"] = site.state.get("answers", 0) + 1
        return super().predict_proba(site, X)


@pytest.mark.parametrize("workers", [1, 2])
def test_answering_changes_nothing_of_what_is_saved(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peerwise.run.runner.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("peerwise.run.runner.CHECKPOINT_SHARE", 0)
    run(tmp_path, Counting(1), workers=workers)
    assert "answers" not in state_of(tmp_path, "site-0")


def test_without_validation_rows_the_last_round_answers(tmp_path: Path) -> None:
    found = run(tmp_path, Drift(5), [chance_site("alone", val=0)])
    assert len(state_of(tmp_path, "alone")["heard"]) == 5
    assert found["alone"]["best_round"] is None


def test_the_score_is_the_mean_of_the_best_validation_scores(tmp_path: Path) -> None:
    for workers in (1, 2):
        with opened(tmp_path / str(workers), Drift(5), federation(3), workers) as made:
            made.train()
            score = made.score()
            trees = made.predict().values()
        best = [max(value for _, value in tree["curves"]["validation accuracy"]) for tree in trees]
        assert score == pytest.approx(np.mean(best))
    with opened(tmp_path / "none", Drift(5), [chance_site("a", val=0)]) as made:
        made.train()
        assert np.isnan(made.score())


def test_one_round_has_a_score_too(tmp_path: Path) -> None:
    sites = [*federation(3), chance_site("no validation", val=0)]
    with opened(tmp_path, Drift(1), sites) as made:
        made.train()
        score = made.score()
        tree = made.predict()["site-0"]
    run_method(Drift(1), sites)
    right = [float((answer(Drift(1), s, s.val.X).argmax(axis=1) == s.val.y).mean()) for s in sites[:3]]
    assert score == pytest.approx(np.mean(right))
    assert (tree["took_part"], tree["privacy"]["rounds"]) == ([0], 1)
    assert tree["curves"]["first"][0][0] == 0


@pytest.mark.parametrize("rounds", [1, 3])
def test_bytes_received_are_those_of_what_was_absorbed(tmp_path: Path, rounds: int) -> None:
    w = np.zeros(5, np.float32)
    names = [f"site-{place}" for place in range(4)]
    said, told = Parcel(w=w).nbytes, Parcel(w=w, who=names).nbytes
    own = Parcel(w=w, who=["site-0"]).nbytes
    for method, received in [
        (Drift(rounds), [told] * 4),
        (Gossip(rounds), [3 * said] * 4),
        (Letters(rounds), [own, own, own, 0]),
        (Silent(rounds), [0] * 4),
    ]:
        found = run(tmp_path / type(method).__name__, method)
        assert [tree["received"] for tree in found.values()] == [rounds * each for each in received]
        sent = 0 if isinstance(method, Silent) else rounds * said
        assert [tree["sent"] for tree in found.values()] == [sent] * 4


def test_one_event_a_round_says_who_took_part(tmp_path: Path) -> None:
    events: list[Tree] = []
    found = run(tmp_path, Drift(), participation=AWAY, events=events)
    rounds = [event for event in events if event["event"] == "round"]
    assert [event["round"] for event in rounds] == list(range(6))
    assert all(event["run"] == "toy-s0" and event["seconds"] > 0 for event in rounds)
    for name, tree in found.items():
        assert tree["took_part"] == [event["round"] for event in rounds if name in event["took_part"]]
    assert [len(event["took_part"]) for event in rounds] == [2, 2, 2, 2, 2, 2]  # half of three or four
    assert Counter(event["event"] for event in events) == {"round": 6, "predicted": 4}


def test_a_site_that_is_away_neither_shares_nor_absorbs_and_catches_up(tmp_path: Path) -> None:
    absent = {"site-1": [0, 1, 2], "site-2": [2, 3], "site-3": [5]}
    # Without validation rows the last state stays.
    sites = [site.replace(val=site.val.take(slice(0, 0))) for site in federation(4)]
    run(tmp_path, Drift(6), sites, participation=Participation(absent=absent))
    heard = {site.name: dict(state_of(tmp_path, site.name)["heard"]) for site in sites}
    assert {name: sorted(rounds) for name, rounds in heard.items()} == {
        "site-0": [0, 1, 2, 3, 4, 5],
        "site-1": [2, 3, 4, 5],  # the last told before it came
        "site-2": [0, 1, 3, 4, 5],
        "site-3": [0, 1, 2, 3, 4],
    }
    assert heard["site-0"][2] == ["site-0", "site-3"]
    assert heard["site-0"][5] == ["site-0", "site-1", "site-2"]


def test_when_all_are_away_the_last_broadcast_stays(tmp_path: Path) -> None:
    names = [site.name for site in federation(4)]
    events: list[Tree] = []
    gap = Participation(absent={name: [2, 3] for name in names})
    found = run(tmp_path, Drift(6), participation=gap, events=events)
    assert [event["took_part"] for event in events if event["event"] == "round"][1:5] == [names, [], [], names]
    assert found["site-0"]["took_part"] == [0, 1, 4, 5]
    assert [round for round, _ in found["site-0"]["curves"]["first"]] == [0, 1, 4, 5]


def test_a_site_that_is_never_there_still_answers(tmp_path: Path) -> None:
    found = run(tmp_path, Drift(3), participation=Participation(absent={"site-1": [0, 1, 2]}))
    assert found["site-1"]["took_part"] == []
    assert found["site-1"]["sent"] == found["site-1"]["received"] == 0
    assert found["site-1"]["probabilities"].shape == (7, 2)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_site_that_is_never_there_and_cannot_start_is_answered_for(tmp_path: Path, workers: int) -> None:
    absent = Participation(absent={"site-1": range(6)})
    found = run(tmp_path, Unborn(), workers=workers, participation=absent)
    assert found["site-1"]["fell_back"]["to"] == "label frequencies"
    assert found["site-1"]["fell_back"]["why"].startswith("share: ArithmeticError: no beginning; then ")
    assert found["site-0"]["fell_back"] is None


@pytest.mark.parametrize(("kept", "words"), [("set", "odd is a set"), ("nan", "odd is nan")])
def test_a_state_that_cannot_be_saved_is_the_failure_of_its_site(tmp_path: Path, kept: str, words: str) -> None:
    found = run(tmp_path, Unsaved(kept))
    assert found["site-1"]["fell_back"]["to"].startswith("round ")
    assert f"its state cannot be saved: /{words}" in found["site-1"]["fell_back"]["why"]
    assert found["site-1"]["took_part"] == [0, 1, 2]
    assert all(found[name]["fell_back"] is None for name in ("site-0", "site-2", "site-3"))


def test_a_site_that_fails_in_the_second_round_is_left_out_from_then_on(tmp_path: Path) -> None:
    events: list[Tree] = []
    method = Drift(4, fails={"site-1": ("share", 1), "site-3": ("absorb", 0)})
    found = run(tmp_path, method, events=events)
    assert found["site-1"]["fell_back"] == {
        "to": "round 0 of the same method",
        "why": "share: ArithmeticError: share 1 diverged",
    }
    assert found["site-3"]["fell_back"]["to"] == "label frequencies"
    assert found["site-3"]["fell_back"]["why"].startswith("absorb: ArithmeticError: absorb 0 diverged")
    assert [tree["took_part"] for tree in found.values()] == [[0, 1, 2, 3], [0], [0, 1, 2, 3], [0]]
    failed = [(event["site"], event["step"], event["round"]) for event in events if event["event"] == "failed"]
    assert sorted(failed) == [("site-1", "share", 1), ("site-3", "absorb", 0)]


def test_where_all_fail_in_one_round_it_stops_and_goes_on_once_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [site.name for site in federation(4)]
    method = Drift(fails=dict.fromkeys(names, ("share", 3)))
    with pytest.raises(
        ModelError, match=r"share failed at every site still at work.*'site-0': Arith.*share 3 diverged"
    ):
        run(tmp_path / "a", method)
    monkeypatch.setenv("MENDED", "yes")
    events: list[Tree] = []
    assert not differences(run(tmp_path / "a", method, events=events), run(tmp_path / "b", Drift()))
    assert [event["round"] for event in events if event["event"] == "round"] == [3, 4, 5]


def test_running_again_does_nothing(tmp_path: Path) -> None:
    first = run(tmp_path, Drift(folder=str(tmp_path)))
    shares = len(list(tmp_path.glob("site-*.*")))
    events: list[Tree] = []
    assert not differences(first, run(tmp_path, Drift(folder=str(tmp_path)), events=events))
    assert (len(list(tmp_path.glob("site-*.*"))), events) == (shares, [])


@pytest.mark.parametrize("method", [Drift(50, 20_000), Gossip(50, 20_000)], ids=["drift", "gossip"])
def test_the_room_on_disk_does_not_grow_with_the_rounds(
    tmp_path: Path, method: Drift, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peerwise.run.runner.CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr("peerwise.run.runner.CHECKPOINT_SHARE", 0)
    used: list[int] = []

    def tell(event: Tree) -> None:
        if event["event"] == "round":
            used.append(sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()))

    with opened(tmp_path, method, federation(3), tell=tell) as made:
        made.finish()
    assert len(used) == 50
    assert 0 < max(used[1:]) < 4 * 80_000 * 3 + 100_000  # state, best and parcel a site, and the broadcast
    assert sorted(path.name for path in tmp_path.iterdir()) == ["predictions", "states"]


class Shared(Drift):
    """Every site takes over what all receive."""

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        super().absorb(site, round, inbox)
        site.state["w"] = inbox["w"]


def test_what_all_sites_hold_alike_is_kept_once(tmp_path: Path) -> None:
    run(tmp_path, Shared(3, 100_000), [chance_site(f"site-{place}", val=0) for place in range(20)])
    assert (tmp_path / "states" / "toy-s0").stat().st_size < 2 * 400_000
