"""With an opener, a site asks its peers' models in a process of their own: every method answers bit for bit as without,
and no file of a peer is opened or parsed in the site's own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from small_federations import table_site

from peerwise.data import Site
from peerwise.errors import WorkerError
from peerwise.federation import PEERS_LEFT_OUT, answer_with_details
from peerwise.methods import Method, OneShot, method_class, pool_models
from peerwise.methods.pool_models import pool_logits
from peerwise.methods.registry import make_method, method_names
from peerwise.methods.stacking import Stacking
from peerwise.models import OnnxModel
from peerwise.models.worker import Limits, Worker
from peerwise.parcels import Keep, Parcel
from peerwise.run.fallback import simpler_answer
from peerwise.trust import UniformAverage

LABELS = [0, 1, 2] * 8
TRAINED = Keep()
WITH_MODELS = [
    name
    for name in method_names()
    if (kind := method_class(name)) is Stacking or not issubclass(kind, Method) or issubclass(kind, OneShot)
]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as found:
        yield found


def _keep_what_is_trained(parts: dict[str, Any], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    return work() if parts["what"] == "outputs" else TRAINED(parts, work)


def site_of(name: str, opener: Any = None, keep: Any = _keep_what_is_trained) -> Site:
    return table_site(name, LABELS, LABELS, LABELS).replace(opener=opener, keep=keep)


def _sent(make: Callable[[], Method]) -> dict[str, Parcel]:
    """What two peers send: one as it should be, one with a broken file beside a good one."""
    first, second = (make().share(site_of(name), 0) for name in ("peer", "other"))
    models = {**second["models"], "broken": second["models"]["logistic"][:200]}
    return {"peer": first, "other": Parcel(**{**second, "models": models})}


@pytest.fixture
def nothing_of_peers_is_opened_here(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Parcel]], None]:
    def guard(inbox: dict[str, Parcel]) -> None:
        theirs = {data for parcel in inbox.values() for data in parcel["models"].values()}
        opened, loaded = OnnxModel.__init__, onnx.load_from_string

        def open_model(self: OnnxModel, data: bytes, *, name: str = "onnx model") -> None:
            assert data not in theirs, f"{name} was opened in the site's own process"
            opened(self, data, name=name)

        def load(data: bytes, *more: Any, **options: Any) -> Any:
            assert data not in theirs, "a peer's file was parsed in the site's own process"
            return loaded(data, *more, **options)

        pool_models._runtime.cache_clear()
        monkeypatch.setattr(OnnxModel, "__init__", open_model)
        monkeypatch.setattr(onnx, "load_from_string", load)

    return guard


def _answers(method: Method, site: Site, inbox: dict[str, Parcel]) -> tuple[Any, Any, Any]:
    own = method.share(site, 0)
    method.absorb(site, 0, {**inbox, site.name: own})
    if isinstance(method, OneShot):
        method.learner_at(site)
    return *answer_with_details(method, site, site.test.X), site.state.get(PEERS_LEFT_OUT)


@pytest.mark.parametrize("name", WITH_MODELS)
def test_every_method_answers_as_without_and_opens_nothing_itself(
    name: str, worker: Worker, nothing_of_peers_is_opened_here: Any
) -> None:
    def make() -> Method:
        return make_method(name, {}, folds=2, epochs=1)

    if "models" not in make().share(site_of("peer"), 0):
        pytest.skip(f"{name} sends no models")
    inbox = _sent(make)
    plain = _answers(make(), site_of("here"), inbox)
    nothing_of_peers_is_opened_here(inbox)
    apart = _answers(make(), site_of("here", worker.open), inbox)
    np.testing.assert_array_equal(apart[0], plain[0])
    assert set(apart[1]) == set(plain[1])
    for key, value in plain[1].items():
        np.testing.assert_equal(apart[1][key], value, err_msg=key)
    assert apart[2] == plain[2]
    if name not in ("local", "own_only"):
        assert "broken@other" in plain[2]


def test_the_guard_of_these_tests_sees_what_is_opened_here(nothing_of_peers_is_opened_here: Any) -> None:
    def make() -> Method:
        return OneShot(UniformAverage(), folds=2)

    inbox = _sent(make)
    nothing_of_peers_is_opened_here(inbox)
    found = _answers(make(), site_of("here"), {"peer": inbox["peer"]})
    assert "was opened in the site's own process" in str(found[2])


def test_what_answers_where_a_method_failed_opens_nothing_itself(
    worker: Worker, nothing_of_peers_is_opened_here: Any
) -> None:
    def make() -> Method:
        return OneShot(UniformAverage(), folds=2)

    inbox = _sent(make)
    plain_site = site_of("here").replace(recipes=())  # nothing of its own
    plain = simpler_answer(plain_site, make(), inbox, plain_site.test.X)
    nothing_of_peers_is_opened_here(inbox)
    apart_site = site_of("here", worker.open).replace(recipes=())
    apart = simpler_answer(apart_site, make(), inbox, apart_site.test.X)
    assert apart.what == plain.what == "peers' models"
    np.testing.assert_array_equal(apart.probabilities, plain.probabilities)
    assert apart.left_out == plain.left_out


class _Dying:
    """A model whose process dies of the first rows it sees."""

    name = "m@peer"

    def __init__(self) -> None:
        self.asked = 0

    def predict_logits(self, X: Any) -> Any:
        self.asked += 1
        raise WorkerError("no answer within 5 seconds")


def test_a_model_that_hangs_is_not_asked_row_by_row_and_its_failure_is_not_kept() -> None:
    dying = _Dying()
    calls: list[str] = []

    def opener(data: bytes, name: str) -> Any:
        calls.append(name)
        return dying if len(calls) == 1 else OnnxModel(data, name=name)

    site = site_of("here", opener, Keep())
    data = OneShot(UniformAverage(), folds=2).share(site, 0)["models"]["logistic"]
    first = pool_logits(site, {"m@peer": data}, site.test.X, may_fail=["m@peer"])
    assert dying.asked == 1
    assert np.isnan(first.logits).all()
    assert first.failed == {"m@peer": "WorkerError: no answer within 5 seconds"}
    again = pool_logits(site, {"m@peer": data}, site.test.X, may_fail=["m@peer"])  # the machine was busy, perhaps
    assert not again.failed
    pool_logits(site, {"m@peer": data}, site.test.X, may_fail=["m@peer"])
    assert calls == ["m@peer"] * 2  # a good answer is kept


def test_a_row_that_a_model_refuses_does_not_cost_the_others_their_answer(worker: Worker) -> None:
    site = site_of("here", worker.open)
    data = OneShot(UniformAverage(), folds=2).share(site, 0)["models"]["logistic"]
    graph = onnx.load_from_string(data)
    graph.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1  # one row at a time
    pool = {"m@peer": graph.SerializeToString()}
    found = pool_logits(site, pool, site.test.X, may_fail=pool)
    assert not found.failed
    np.testing.assert_array_equal(found.logits, pool_logits(site_of("here"), pool, site.test.X, may_fail=pool).logits)


def test_two_hundred_models_go_through_a_small_worker_one_after_the_other() -> None:
    site = site_of("here")
    data = OneShot(UniformAverage(), folds=2).share(site, 0)["models"]["logistic"]
    with Worker(Limits(most_open_bytes=3 * len(data) + 1000)) as worker:
        pool = {}
        for place in range(200):
            graph = onnx.load_from_string(data)
            graph.producer_name = f"{place:03}"
            pool[f"m@peer{place}"] = graph.SerializeToString()
        asked = site.replace(opener=worker.open)
        found = pool_logits(asked, pool, site.test.X, may_fail=pool)
        first = worker.pid
        assert not found.failed
        np.testing.assert_array_equal(found.logits, pool_logits(site, pool, site.test.X).logits)
        assert worker.pid == first
