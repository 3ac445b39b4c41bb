"""A method with many rounds: the same numbers however it is run, few files, little memory, and who took part."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from round_methods import Drift, Gossip, Letters, Silent, chance_site, federation
from round_runs import EVERYBODY, HERE, Tree, differences, run

from peerwise.errors import ModelError
from peerwise.parcels import Parcel
from peerwise.run import RunFolder, run_method
from peerwise.run.method_run import MethodRun
from peerwise.run.participation import Participation
from peerwise.run.rounds import RUN, answer

METHODS = [Drift(), Gossip(), Letters(), Silent(), Drift(fails={"site-1": ("share", 2), "site-2": ("absorb", 3)})]
AWAY = Participation(0.5, {"site-0": [0, 1], "site-2": [2], "site-3": [4, 5]}, seed=3)


@pytest.mark.parametrize("participation", [EVERYBODY, AWAY], ids=["all", "some"])
@pytest.mark.parametrize("method", METHODS, ids=["drift", "gossip", "letters", "silent", "failing"])
def test_any_number_of_workers_gives_the_same(tmp_path: Path, method: Drift, participation: Participation) -> None:
    one = run(tmp_path / "1", method, participation=participation)
    assert not differences(one, run(tmp_path / "3", method, workers=3, participation=participation))


@pytest.mark.parametrize("participation", [EVERYBODY, AWAY], ids=["all", "some"])
@pytest.mark.parametrize("method", METHODS[:4], ids=["drift", "gossip", "letters", "silent"])
def test_in_memory_it_comes_out_the_same(tmp_path: Path, method: Drift, participation: Participation) -> None:
    through_files = run(tmp_path, method, participation=participation)
    sites = federation(4)
    run_method(method, sites, participation=participation)
    for site in sites:
        tree = through_files[site.name]
        assert np.array_equal(answer(method, site, site.test.X), tree["probabilities"])
        assert site.state[RUN]["best_round"] == tree["best_round"]
        for key in ("sent", "received", "took_part"):
            assert site.state[RUN][key] == tree[key], key


def test_the_state_that_answers_is_that_of_the_best_round_the_earliest_among_equals(tmp_path: Path) -> None:
    for name, tree in run(tmp_path, Drift(12)).items():
        scores = [score for _, score in tree["curves"]["validation accuracy"]]
        assert len(scores) == 12
        assert tree["best_round"] == int(np.argmax(scores))
        state = RunFolder(tmp_path).load_state(name, "toy-s0")
        assert state is not None
        assert [round for round, _ in state["heard"]] == list(range(tree["best_round"] + 1))
        assert tree["curves"]["first"][tree["best_round"]] == [tree["best_round"], pytest.approx(state["w"][0])]
        assert tree["curves"]["undefined"] == [[round, None] for round in range(12)]


def test_what_is_guaranteed_counts_the_rounds_after_the_best_too(tmp_path: Path) -> None:
    found = run(tmp_path, Drift(12))
    assert min(tree["best_round"] for tree in found.values()) < 11
    assert [tree["privacy"] for tree in found.values()] == [{"epsilon": 6.0, "rounds": 12}] * 4


def test_without_validation_rows_the_last_round_answers(tmp_path: Path) -> None:
    site = chance_site("alone", val=0)
    MethodRun("toy", Drift(5), [site], RunFolder(tmp_path), 1, [].append).finish()
    state = RunFolder(tmp_path).load_state("alone", "toy")
    assert state is not None
    assert len(state["heard"]) == 5
    assert RunFolder(tmp_path).load_predictions("alone", "toy")["best_round"] is None


def test_the_score_is_the_mean_of_the_best_validation_scores(tmp_path: Path) -> None:
    for workers in (1, 2):
        method = MethodRun("toy", Drift(5), federation(3), RunFolder(tmp_path / str(workers)), workers, [].append)
        method.train()
        score = method.score()
        method.predict()
        trees = [method.folder.load_predictions(site.name, "toy") for site in method.sites]
        best = [max(value for _, value in tree["curves"]["validation accuracy"]) for tree in trees]
        assert score == pytest.approx(np.mean(best))
    alone = MethodRun("toy", Drift(5), [chance_site("a", val=0)], RunFolder(tmp_path / "none"), 1, [].append)
    alone.train()
    assert np.isnan(alone.score())


def test_one_round_has_a_score_too(tmp_path: Path) -> None:
    sites = [*federation(3), chance_site("no validation", val=0)]
    method = MethodRun("toy", Drift(1), sites, RunFolder(tmp_path), 1, [].append)
    method.train()
    score = method.score()
    run_method(Drift(1), sites)
    right = [float((answer(Drift(1), s, s.val.X).argmax(axis=1) == s.val.y).mean()) for s in sites[:3]]
    assert score == pytest.approx(np.mean(right))
    method.predict()
    tree = RunFolder(tmp_path).load_predictions("site-0", "toy")
    assert (tree["took_part"], tree["privacy"]["rounds"]) == ([0], 1)
    assert tree["curves"]["first"][0][0] == 0


@pytest.mark.parametrize("rounds", [1, 3])
def test_bytes_received_are_those_of_what_was_heard(tmp_path: Path, rounds: int) -> None:
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
    told: list[Tree] = []
    found = run(tmp_path, Drift(), participation=AWAY, told=told)
    rounds = [event for event in told if event["event"] == "round"]
    assert [event["round"] for event in rounds] == list(range(6))
    assert all(event["run"] == "toy-s0" and event["seconds"] > 0 for event in rounds)
    for name, tree in found.items():
        assert tree["took_part"] == [event["round"] for event in rounds if name in event["took_part"]]
    assert [len(event["took_part"]) for event in rounds] == [2, 2, 2, 2, 2, 2]  # half of three or four
    assert Counter(event["event"] for event in told) == {"round": 6, "predicted": 4}


def test_a_site_that_is_away_neither_shares_nor_hears_and_catches_up(tmp_path: Path) -> None:
    absent = {"site-1": [0, 1, 2], "site-2": [2, 3], "site-3": [5]}
    sites = federation(4)
    for site in sites:
        site.val = site.val.take(slice(0, 0))  # so that the last state stays
    MethodRun("toy", Drift(6), sites, RunFolder(tmp_path), 1, [].append, Participation(absent=absent)).finish()
    heard = {}
    for site in sites:
        state = RunFolder(tmp_path).load_state(site.name, "toy")
        assert state is not None
        heard[site.name] = dict(state["heard"])
    assert {name: sorted(rounds) for name, rounds in heard.items()} == {
        "site-0": [0, 1, 2, 3, 4, 5],
        "site-1": [2, 3, 4, 5],  # the last told before it came
        "site-2": [0, 1, 3, 4, 5],
        "site-3": [0, 1, 2, 3, 4],
    }
    assert heard["site-0"][2] == ["site-0", "site-3"]
    assert heard["site-0"][5] == ["site-0", "site-1", "site-2"]


def test_when_all_are_away_what_was_told_last_stays(tmp_path: Path) -> None:
    names = [site.name for site in federation(4)]
    told: list[Tree] = []
    gap = Participation(absent={name: [2, 3] for name in names})
    found = run(tmp_path, Drift(6), participation=gap, told=told)
    assert [event["took_part"] for event in told if event["event"] == "round"][1:5] == [names, [], [], names]
    assert found["site-0"]["took_part"] == [0, 1, 4, 5]
    assert [round for round, _ in found["site-0"]["curves"]["first"]] == [0, 1, 4, 5]


def test_a_site_that_is_never_there_still_answers(tmp_path: Path) -> None:
    found = run(tmp_path, Drift(3), participation=Participation(absent={"site-1": [0, 1, 2]}))
    assert found["site-1"]["took_part"] == []
    assert found["site-1"]["sent"] == found["site-1"]["received"] == 0
    assert found["site-1"]["probabilities"].shape == (7, 2)


def test_a_site_that_fails_in_the_second_round_is_left_out_from_then_on(tmp_path: Path) -> None:
    told: list[Tree] = []
    method = Drift(4, fails={"site-1": ("share", 1), "site-3": ("absorb", 0)})
    found = run(tmp_path, method, told=told)
    assert found["site-1"]["fell_back"] == {
        "to": "round 0 of the same method",
        "why": "share: ArithmeticError: share 1 diverged",
    }
    assert found["site-3"]["fell_back"]["to"] == "label frequencies"
    assert found["site-3"]["fell_back"]["why"].startswith("absorb: ArithmeticError: absorb 0 diverged")
    assert [tree["took_part"] for tree in found.values()] == [[0, 1, 2, 3], [0], [0, 1, 2, 3], [0]]
    failed = [(event["site"], event["step"], event["round"]) for event in told if event["event"] == "failed"]
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
    told: list[Tree] = []
    assert not differences(run(tmp_path / "a", method, told=told), run(tmp_path / "b", Drift()))
    assert [event["round"] for event in told if event["event"] == "round"] == [3, 4, 5]


def test_running_again_does_nothing(tmp_path: Path) -> None:
    first = run(tmp_path, Drift(folder=str(tmp_path)))
    shares = len(list(tmp_path.glob("site-*.*")))
    told: list[Tree] = []
    assert not differences(first, run(tmp_path, Drift(folder=str(tmp_path)), told=told))
    assert (len(list(tmp_path.glob("site-*.*"))), told) == (shares, [])


@pytest.mark.parametrize("method", [Drift(50, 20_000), Gossip(50, 20_000)], ids=["drift", "gossip"])
def test_the_room_on_disk_does_not_grow_with_the_rounds(tmp_path: Path, method: Drift) -> None:
    used: list[int] = []

    def tell(event: Tree) -> None:
        if event["event"] == "round":
            used.append(sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()))

    MethodRun("toy-s0", method, federation(3), RunFolder(tmp_path), 1, tell).finish()
    assert len(used) == 50
    assert max(used) < 3 * 80_000 * 3 + 100_000 + 80_000  # state, best and parcel a site, and what is told
    assert not (tmp_path / "rounds").exists()


LARGE = """
import resource, sys
from round_methods import *
from peerwise.run import RunFolder
from peerwise.run.method_run import MethodRun
method = Drift(2, 750_000)
MethodRun("toy-s0", method, federation(int(sys.argv[2])), RunFolder(sys.argv[1]), 1, lambda event: None).finish()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in kilobytes on Linux")
def test_memory_does_not_grow_with_the_number_of_sites(tmp_path: Path) -> None:
    """A hundred sites have states of 300 MB in all."""
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])

    def megabytes(sites: int) -> int:
        command = [sys.executable, "-c", LARGE, tmp_path / str(sites), str(sites)]
        environment = {**os.environ, "PYTHONPATH": path}
        return int(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)

    assert megabytes(100) < megabytes(10) + 60
