"""The service as it runs: started, asked over the network, given new bundles, signalled, robbed of its worker."""

from __future__ import annotations

import errno
import http.client
import json
import shutil
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from serve_desks import write_bundle
from serve_processes import PATIENCE, Service, replace_bundle, save_learner, until

from peerwise.serve import shapes
from peerwise.transport import make_authority, make_request, sign_request

ROW = {"row": {"x0": 0.5, "x1": None, "x4": "-1.5"}}


@pytest.fixture(scope="module")
def learners(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("learners")
    for name, seed, models in (("one", 0, 4), ("two", 1, 5)):
        save_learner(folder / name, seed, models)
    return folder / "one", folder / "two"


@pytest.fixture(scope="module")
def running(learners: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("said") / "said", learners[0], "--rate", "10000") as service:
        yield service


def test_a_saved_learner_answers_explains_and_ends_cleanly(learners: tuple[Path, Path], tmp_path: Path) -> None:
    with Service(tmp_path / "said", learners[0]) as service, service.client() as client:
        found = client.post("/v1/predict", json=ROW)
        assert found.status_code == 200, found.text
        shapes.Predicted.model_validate(found.json(), strict=True)
        opened = client.post("/v1/explain", json=ROW).json()
        shapes.Explained.model_validate(opened, strict=True)
        assert opened["explanation"] is not None
        shapes.Bundle.model_validate(client.get("/v1/bundle").json(), strict=True)
        shapes.Peers.model_validate(client.get("/v1/peers").json(), strict=True)
        assert client.get("/v1/health").json()["status"] == "ok"
        workers = service.children()
        assert workers
        assert service.end(signal.SIGTERM) == 0
        until(lambda: not any(worker.is_running() for worker in workers), "the workers end")
        token = client.headers["authorization"].removeprefix("Bearer ")
        assert service.said.count(token) == 1


def test_a_worker_that_is_killed_costs_no_answer(running: Service) -> None:
    with running.client() as client:
        expected = client.post("/v1/predict", json=ROW).json()["answers"]
        for _ in range(2):
            for worker in running.children():
                worker.kill()
            found = client.post("/v1/predict", json=ROW)
            assert found.status_code == 200, found.text
            assert found.json()["answers"] == expected
            assert found.json()["notes"] == []
        assert "peerwise_worker_restarts_total 2.0" in client.get("/metrics").text


def test_a_worker_that_dies_is_there_again_before_anyone_asks(running: Service) -> None:
    with running.client() as client:
        client.post("/v1/predict", json=ROW)
        before = {worker.pid for worker in running.children()}
        for worker in running.children():
            worker.kill()
        until(lambda: {each.pid for each in running.children() if each.status() != "zombie"} - before, "a new worker")
        until(lambda: client.get("/v1/health").json()["status"] == "ok", "it is ready")
        assert "peerwise_worker_restarts_total" in client.get("/metrics").text
        assert not before & {each.pid for each in running.children() if each.status() != "zombie"}


def test_headers_without_end_are_refused(running: Service) -> None:
    host, _, port = running.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as line:
        line.sendall(
            b"GET /v1/health HTTP/1.1\r\nHost: north\r\n" + b"".join(b"X-%d: a\r\n" % at for at in range(9000))
        )
        assert line.recv(100).startswith(b"HTTP/1.1 400")


def test_a_bundle_that_is_copied_with_its_manifest_first_is_taken_when_it_is_whole(
    learners: tuple[Path, Path], tmp_path: Path
) -> None:
    served, new = tmp_path / "served", learners[1]
    shutil.copytree(learners[0], served)
    with Service(tmp_path / "said", served) as service, service.client() as client:
        assert client.post("/v1/predict", json=ROW).status_code == 200
        shutil.copy(new / "bundle.json", served / "bundle.json")
        until(lambda: "the new bundle cannot be used" in service.said, "half a bundle is found")
        for blob in (new / "blobs").iterdir():
            shutil.copy(blob, served / "blobs")
        until(lambda: "a new bundle answers" in service.said, "the whole one")
        assert len(client.get("/v1/bundle").json()["models"]) == 5
        assert service.said.count("cannot be used") == 1


def test_a_body_without_a_length_is_cut_off_at_the_limit(running: Service) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 400_000_000:
            sent += 100_000
            yield b" " * 100_000

    headers = {"Content-Type": "application/json"}
    with running.client() as client:
        try:
            found = client.post("/v1/predict", content=endless(), headers=headers)
            assert found.status_code == 413
        except httpx.TransportError:  # the connection may be closed before all is sent
            pass
        assert sent < 60_000_000
        found = client.post("/v1/predict", content=iter([b" " * 8_000_000, b" "]), headers=headers)
        assert found.status_code == 413
        assert client.post("/v1/predict", json=ROW).status_code == 200


def test_broken_http_is_survived(running: Service) -> None:
    port = int(running.url.rpartition(":")[2])
    for sent in (b"\x00\xff" * 500, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 50_000, b"POST /v1/predict HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
            try:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
            except OSError as error:  # the service may hang up at any moment: after that there is nothing to shut down
                if not isinstance(error, ConnectionError) and error.errno != errno.ENOTCONN:
                    raise
    with running.client() as client:
        assert client.post("/v1/predict", json=ROW).status_code == 200
    assert "Traceback" not in running.said


def test_new_bundles_take_over_without_a_request_lost(learners: tuple[Path, Path], tmp_path: Path) -> None:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "blobs").mkdir()
    replace_bundle(folder, learners[0])
    ended = threading.Event()
    seen: list[str] = []
    wrong: list[str] = []

    def ask() -> None:
        with service.client() as client:
            while not ended.is_set():
                try:
                    found = client.post("/v1/predict", json=ROW)
                    if found.status_code != 200:
                        wrong.append(found.text)
                    else:
                        seen.append(found.json()["bundle"])
                except httpx.TransportError as error:
                    wrong.append(repr(error))

    with Service(tmp_path / "said", folder, "--workers", "2", "--rate", "10000", "-q") as service:
        assert service.url
        with ThreadPoolExecutor(4) as threads:
            asking = [threads.submit(ask) for _ in range(4)]
            try:
                for count in range(1, 7):
                    replace_bundle(folder, learners[count % 2])
                    until(lambda count=count: service.said.count("a new bundle answers") >= count, f"{count} reloads")
                    enough = len(seen) + 30
                    until(lambda enough=enough: len(seen) > enough, "answers from the new one")
                (folder / "bundle.json").write_text("{")
                until(lambda: "the new bundle cannot be used, and the old one answers on" in service.said, "a refusal")
                replace_bundle(folder, learners[1])
                before = service.said.count("a new bundle answers")
                service.process.send_signal(signal.SIGHUP)
                until(lambda: service.said.count("a new bundle answers") > before, "a reload on demand")
            finally:
                ended.set()
            for each in asking:
                each.result()
        assert wrong == []
        assert len(seen) > 200
        assert len(set(seen)) == 2
        assert sum(one != other for one, other in pairwise(seen)) >= 6
        with service.client() as client:
            text = client.get("/metrics").text
        assert 'peerwise_reloads_total{result="failed"} 1.0' in text
        until(lambda: len(service.children()) <= 4, "the old workers are gone")
        assert service.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_requests_under_way_are_answered_when_the_service_ends(number: int, tmp_path: Path) -> None:
    write_bundle(tmp_path / "bundle", seconds=1.0)
    with Service(tmp_path / "said", tmp_path / "bundle", small=True) as service, ThreadPoolExecutor(3) as threads:
        with service.client() as client:
            asked = [threads.submit(client.post, "/v1/predict", json={"row": {"age": 1}}) for _ in range(3)]
            until(lambda: "requests_inside 3.0" in client.get("/metrics").text, "all are inside")
            code = service.end(number)
            assert [each.result().status_code for each in asked] == [200] * 3
        assert code == 0


def test_who_connects_before_the_bundle_is_open_waits_for_it(learners: tuple[Path, Path], tmp_path: Path) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with Service(tmp_path / "said", learners[0], "--port", str(port), "--no-token") as service:

        def connects() -> bool:
            with socket.socket() as tried:
                return tried.connect_ex(("127.0.0.1", port)) == 0

        until(connects, "it listens")
        assert " answer at " not in service.said
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, trust_env=False) as client:
            assert client.post("/v1/predict", json=ROW).status_code == 200


def test_a_folder_that_is_broken_ends_the_service_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text("{")
    with Service(tmp_path / "said", tmp_path) as service:
        assert service.process.wait(PATIENCE) == 2
        assert len(service.said.strip().splitlines()) == 1


def test_over_tls_the_service_is_reached_by_https_alone(learners: tuple[Path, Path], tmp_path: Path) -> None:
    certificates = tmp_path / "certificates"
    key, authority = make_authority(certificates, "ward")
    own_key, request = make_request(certificates, "north", ["127.0.0.1"])
    signed = request.with_suffix(".crt")
    signed.write_bytes(sign_request(request.read_bytes(), "north", key, authority))
    options = ("--tls-cert", str(signed), "--tls-key", str(own_key), "--token-file", str(tmp_path / "token"))
    with Service(tmp_path / "said", learners[0], *options) as service:
        assert service.url.startswith("https://")
        token = (tmp_path / "token").read_text().strip()
        assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
        with service.client(token, verify=ssl.create_default_context(cafile=authority)) as client:
            assert client.post("/v1/predict", json=ROW).status_code == 200
            service.process.send_signal(signal.SIGHUP)
            until(lambda: "a new bundle answers" in service.said, "a reload")
            assert client.get("/v1/bundle").status_code == 200
        make_request(certificates, "other", ["127.0.0.1"])
        own_key.write_bytes((certificates / own_key.name.replace("north", "other")).read_bytes())
        service.process.send_signal(signal.SIGHUP)
        until(lambda: "the certificate stays as it was" in service.said, "a key of another certificate")
        with service.client(token, verify=ssl.create_default_context(cafile=authority)) as client:
            assert client.get("/v1/bundle").status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(service.url.replace("https", "http") + "/v1/health", trust_env=False)
        assert token not in service.said
        assert service.end() == 0


def test_a_small_answer_does_not_wait_for_an_acknowledgement(running: Service) -> None:
    port = int(running.url.rpartition(":")[2])
    headers = {"Content-Type": "application/json", "Authorization": running.client().headers["Authorization"]}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    quickest = PATIENCE
    for _ in range(40):
        began = time.perf_counter()
        connection.request("POST", "/v1/predict", json.dumps(ROW), headers)
        assert connection.getresponse().read()
        quickest = min(quickest, time.perf_counter() - began)
    connection.close()
    assert quickest < 0.035


def test_a_second_signal_ends_the_service_at_once_even_if_a_model_hangs(
    learners: tuple[Path, Path], tmp_path: Path
) -> None:
    with Service(tmp_path / "said", learners[0]) as service, service.client() as client:
        assert client.post("/v1/predict", json=ROW).status_code == 200
        workers = service.children()
        for worker in workers:
            worker.suspend()
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(client.post, "/v1/predict", json=ROW)
            time.sleep(0.5)
            service.process.send_signal(signal.SIGINT)
            time.sleep(0.5)
            assert service.process.poll() is None
            service.process.send_signal(signal.SIGINT)
            assert service.process.wait(10) == 130
            assert isinstance(asked.exception(PATIENCE), httpx.TransportError)
        until(lambda: not any(worker.is_running() for worker in workers), "the workers end")
