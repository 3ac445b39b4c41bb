"""Who may ask and how often, what every answer carries, and what is never written down."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any

import pytest
from serve_desks import TOKEN, SmallDesk, client

from peerwise.data import Inputs
from peerwise.errors import WorkerError
from peerwise.serve import page_files
from peerwise.serve.desk import Served
from peerwise.serve.guard import MOST_CLIENTS, Rates

GUARDED = ["/v1/bundle", "/v1/peers", "/v1/cases", "/metrics", "/nowhere", "/v1/Health", "//v1/health", "/pages"]
CANARY = "canary-7391"


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize(
    "sent", ["", "Bearer ", "Bearer x", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN]
)
def test_without_the_token_nothing_is_told(path: str, sent: str) -> None:
    answer = client().get(path, headers={"Authorization": sent})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "expected 'Authorization: Bearer TOKEN'" in answer.json()["error"]["message"]
    assert TOKEN not in answer.text


def test_rows_are_not_even_read_without_the_token() -> None:
    answer = client().post("/v1/predict", content=b"{" * 100, headers={"Authorization": ""})
    assert answer.status_code == 401


def test_health_the_page_and_the_document_are_open() -> None:
    service = client()
    for path in ("/v1/health", "/v1/openapi.json"):
        assert service.get(path, headers={"Authorization": ""}).status_code == 200
    for path in ("/", "/page/none.js"):
        assert service.get(path, headers={"Authorization": ""}).status_code in (200, 404)


def test_without_a_token_only_calls_by_the_machines_own_name_are_answered() -> None:
    service = client(token=None, hosts=frozenset({"localhost", "127.0.0.1", "::1"}))
    for host in ("localhost:8080", "127.0.0.1", "[::1]:8080", "LOCALHOST"):
        assert service.get("/v1/bundle", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example:8080", ""):
        assert service.get("/v1/bundle", headers={"Host": host}).status_code == 421


def test_every_answer_says_that_it_is_not_to_be_kept_framed_or_guessed_at() -> None:
    service = client()
    for answer in (
        service.get("/v1/bundle"),
        service.get("/nowhere"),
        service.get("/v1/bundle", headers={"Authorization": ""}),
    ):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy


def test_an_address_that_asks_too_often_is_told_when_to_come_back() -> None:
    service = client(rate=2)
    codes = [service.get("/v1/health").status_code for _ in range(6)]
    assert codes[:4] == [200] * 4
    late = service.get("/v1/health")
    assert late.status_code == 429
    assert int(late.headers["retry-after"]) >= 1
    assert "at most 2 a second" in late.json()["error"]["message"]
    assert asyncio.run(service.ask("GET", "/v1/health", address="192.0.2.2")).status_code == 200


def test_rates_fill_up_again_and_are_bounded_in_memory() -> None:
    now = 0.0
    rates = Rates(10, clock=lambda: now)
    assert [rates.wait("192.0.2.1") for _ in range(20)] == [0.0] * 20
    assert rates.wait("192.0.2.1") == pytest.approx(0.1)
    now = 0.35
    assert [rates.wait("192.0.2.1") > 0 for _ in range(4)] == [False, False, False, True]
    for place in range(3 * MOST_CLIENTS):
        rates.wait(f"10.{place >> 16}.{place >> 8 & 255}.{place & 255}")
    assert len(rates._left) == MOST_CLIENTS


def test_one_network_of_ipv6_is_one_client() -> None:
    rates = Rates(1, clock=lambda: 0.0)
    assert [rates.wait(f"2001:db8::{place:x}") > 0 for place in range(4)] == [False, False, True, True]
    assert rates.wait("2001:db8:0:1::1") == 0.0


def test_clients_of_ipv4_are_not_one_client_on_a_socket_for_both() -> None:
    rates = Rates(1, clock=lambda: 0.0)
    assert [rates.wait("::ffff:192.0.2.1") > 0 for _ in range(3)] == [False, False, True]
    assert rates.wait("::ffff:192.0.2.2") == 0
    assert rates.wait("192.0.2.1") > 0
    assert rates.wait("fe80::1%eth0") == 0


def test_more_requests_than_may_wait_are_turned_away_politely_and_the_others_answered() -> None:
    service = client(SmallDesk(seconds=0.3), waiting=2)

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(service.ask("POST", "/v1/predict", json={"row": {"age": 1}}) for _ in range(6)))

    answers = asyncio.run(all_at_once())
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [503] * 3
    turned = next(answer for answer in answers if answer.status_code == 503)
    assert turned.headers["retry-after"] == "1"
    assert service.post("/v1/predict", json={"row": {"age": 1}}).status_code == 200


def test_a_desk_that_ponders_does_not_stop_the_service() -> None:
    began, go_on = threading.Event(), threading.Event()

    class Pondering(SmallDesk):
        def answer(self, X: Inputs, *, frugal: bool = False) -> Served:
            began.set()
            assert go_on.wait(60)
            return super().answer(X, frugal=frugal)

    service = client(Pondering())

    async def meanwhile() -> None:
        slow = asyncio.create_task(service.ask("POST", "/v1/predict", json={"row": {"age": 1}}))
        assert await asyncio.to_thread(began.wait, 60)
        assert (await service.ask("GET", "/v1/health")).status_code == 200
        assert not slow.done()
        go_on.set()
        assert (await slow).status_code == 200

    asyncio.run(meanwhile())


def test_one_desk_has_one_caller_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most, lock = 0, 0, threading.Lock()
    plain = SmallDesk.answer

    def watched(desk: SmallDesk, X: Any, *, frugal: bool = False) -> Any:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        found = plain(desk, X)
        with lock:
            inside -= 1
        return found

    monkeypatch.setattr(SmallDesk, "answer", watched)
    service = client(SmallDesk(seconds=0.02))

    async def all_at_once() -> None:
        await asyncio.gather(*(service.ask("POST", "/v1/predict", json={"row": {"age": 1}}) for _ in range(10)))

    asyncio.run(all_at_once())
    assert most == 1


@pytest.mark.parametrize("fails", [None, ValueError, WorkerError, KeyError])
def test_no_value_of_a_request_is_ever_logged(fails: type[Exception] | None, capfd: pytest.CaptureFixture[str]) -> None:
    service = client(SmallDesk(fails=fails))
    sent: list[dict[str, Any]] = [
        {"json": {"row": {"age": 7391.5}}},
        {"json": {"row": {"age": CANARY}}},
        {"json": {"row": {CANARY: 1}}},
        {"content": f"age,chol,sex,{CANARY}\n1,2,{CANARY}\n", "headers": {"Content-Type": "text/csv"}},
        {"content": CANARY, "headers": {"Content-Type": CANARY}},
        {"content": CANARY, "headers": {"Content-Type": "application/json", "X-Patient": CANARY}},
        {"json": {"row": {"age": 7391.5}}, "params": {"name": CANARY}},
        {"json": {"row": {"age": 7391.5}}, "headers": {"Authorization": f"Bearer {CANARY}"}},
    ]
    for each in sent:
        for path in ("/v1/predict", "/v1/explain", f"/{CANARY}", f"/page/{CANARY}"):
            service.post(path, **each)
    service.get(f"/v1/cases?offset={CANARY}")
    asyncio.run(service.ask(f"{CANARY}", "/"))
    metrics = service.get("/metrics").text
    logged = "".join(capfd.readouterr())
    assert logged.count("\n") >= len(sent) * 4
    for text in (logged, metrics):
        assert "canary" not in text.lower()
        assert "7391" not in text
        assert TOKEN not in text
    if fails is not None:
        assert f"a fault in answering /v1/predict: {fails.__name__} at serve_desks.py:" in logged


def test_a_request_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    client().post("/v1/predict", json={"rows": [{"age": 1}, {"age": 2}]})
    line = capfd.readouterr().err
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ POST /v1/predict 200 \d+\.\d ms 2 rows\n", line)
    client(quiet=True).post("/v1/predict", json={"row": {"age": 1}})
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("fails", [ValueError, WorkerError])
def test_a_fault_inside_is_told_by_its_kind_and_the_service_goes_on(fails: type[Exception]) -> None:
    desk = SmallDesk(fails=fails)
    service = client(desk)
    answer = service.post("/v1/predict", json={"row": {"age": 7391.5}})
    assert answer.status_code == 500
    assert fails.__name__ in answer.json()["error"]["message"]
    assert "7391" not in answer.text
    desk.fails = None
    assert service.post("/v1/predict", json={"row": {"age": 1}}).status_code == 200


def test_health_says_when_the_models_cannot_be_asked() -> None:
    desk = SmallDesk()
    service = client(desk)
    assert service.get("/v1/health").json()["status"] == "ok"
    desk.alive = False
    ill = service.get("/v1/health")
    assert (ill.status_code, ill.json()["status"]) == (503, "failing")


def test_metrics_count_what_was_answered() -> None:
    service = client()
    service.post("/v1/predict", json={"rows": [{"age": 1}] * 4})
    service.post("/v1/predict", json={"row": {"age": "x"}})
    text = service.get("/metrics").text
    for line in (
        'peerwise_requests_total{path="/v1/predict",status="200"} 1.0',
        'peerwise_requests_total{path="/v1/predict",status="422"} 1.0',
        "peerwise_rows_total 4.0",
        "peerwise_unsure_answers_total 1.0",
        "peerwise_models_consulted_total 16.0",
        'peerwise_reloads_total{result="failed"} 0.0',
        "peerwise_requests_inside 0.0",
        'peerwise_request_seconds_count{path="/v1/predict"} 2.0',
    ):
        assert line in text.splitlines(), line


def test_the_page_is_served_with_its_kinds_and_is_not_sent_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"index.html": page_files.File(b"<p>", "text/html; charset=utf-8", '"e1"')}
    monkeypatch.setattr(page_files, "files", lambda: found)
    service = client()
    first = service.get("/", headers={"Authorization": ""})
    assert (first.status_code, first.content, first.headers["etag"]) == (200, b"<p>", '"e1"')
    assert first.headers["content-type"] == "text/html; charset=utf-8"
    assert first.headers["cache-control"] == "no-cache"
    assert service.get("/page/index.html").content == b"<p>"
    again = service.get("/", headers={"If-None-Match": '"e1"'})
    assert (again.status_code, again.content) == (304, b"")
    assert service.get("/page/app.js").status_code == 404
