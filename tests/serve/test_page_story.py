"""The page in a real chromium, beside a real service over the bundle of a real hospital: what people do there, from the
printed address to the answers they take away."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest
from page_browser import chromium, needs_chromium, opened, overflow, served

from peerwise.models.worker import Worker
from peerwise.run.peer import PeerFolder, decided, demo, fit

pytestmark = [needs_chromium, pytest.mark.slow]  # four hospitals are founded, trained and fitted
JUDGED = (Path(__file__).parent / "page_judged.js").read_text()
SITES = {"cleveland", "hungarian", "long_beach", "switzerland"}
PATIENCE = 60.0  # seconds
PATIENT = {"age": 58, "sex": "male", "cp": "asymptomatic", "chol": 318, "thalach": 101, "exang": "yes", "oldpeak": 3.1}


@dataclass(frozen=True)
class Service:
    home: str
    token: str
    folder: Path

    def get(self, path: str, **query: Any) -> Any:
        return self._ask("GET", path, params=query).json()

    def post(self, path: str, content: Any) -> Any:
        return self._ask("POST", path, json=content).json()

    def csv(self, text: str) -> str:
        kinds = {"Content-Type": "text/csv", "Accept": "text/csv"}
        return self._ask("POST", "/v1/predict", headers=kinds, content=text).text

    def _ask(self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        known = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        found = httpx.request(method, self.home + path, headers=known, timeout=PATIENCE, **more)
        return found.raise_for_status()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The hospitals of `peerwise demo --serve`, without the attack on what they publish, which takes the longest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "ATTACK_SECONDS", 0.0)
        folder = demo.demo_site(tmp_path_factory.mktemp("hospitals"))
    with served(folder) as (home, token):
        yield Service(home, token, folder)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Any, service: Service) -> Iterator[Any]:
    with opened(browser, service.home, service.token) as found:
        yield found


def fill_in(page: Any, row: dict[str, Any]) -> None:
    for name, value in row.items():
        field = page.get_by_label(name, exact=True)
        if isinstance(value, str):
            field.select_option(value)
        else:
            field.fill(f"{value:g}")


def answered(page: Any) -> str:
    page.locator("#answer-section[aria-busy=false] .answer .verdict").wait_for()
    return plain(page.locator(".answer").inner_text())


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def share(number: float) -> str:
    return "> 99 %" if number >= 0.995 else "< 1 %" if number < 0.005 else f"{100 * number:.0f} %"


def pick(page: Any, number: int) -> str:
    page.get_by_label("Validation case").fill(str(number))
    page.get_by_role("button", name="Pick").click()
    page.get_by_text(f"True label of validation case {number}:").wait_for()
    return answered(page)


def test_a_case_is_filled_in_and_the_answer_says_whom_it_trusts_and_why(page: Any, service: Service) -> None:
    told = service.post("/v1/explain", {"row": PATIENT})
    (expected,) = told["answers"]
    assert "token" not in page.url, "the token does not stay in the address bar"
    fill_in(page, PATIENT)
    page.get_by_label("age", exact=True).press("Enter")
    text = answered(page)
    assert expected["answer"] in text
    assert share(expected["probabilities"][expected["answer"]]) in text
    assert told["explanation"]["agreement"].lower() in page.locator("#answer").inner_text().lower()
    near = page.get_by_role("table", name="The nearest known cases beside this one")
    assert near.locator("thead th").count() == 1 + len(told["explanation"]["neighbours"])
    assert near.get_by_role("rowheader", name="chol", exact=True).count() == 1
    page.get_by_text("Which bundle and models answered").click()
    assert told["bundle"][:12] in page.locator("details.card").inner_text()
    assert "Sure: " in page.locator("#said").inner_text() or "Unsure: " in page.locator("#said").inner_text()


def test_models_that_disagree_are_shown_by_who_pulled_the_answer_where(page: Any, service: Service) -> None:
    number, opened = next(
        (case["case"], told["explanation"])
        for case in service.get("/v1/cases", limit=60)["cases"]
        if not (told := service.post("/v1/explain", {"row": case["row"]}))["explanation"]["agreed"]
    )
    pick(page, number)
    assert opened["agreement"] in page.locator("#answer").inner_text()
    shown = {bar.locator(".name").inner_text(): bar for bar in page.locator(".pulls li").all()}
    assert list(shown) == [line["site"] for line in opened["evidence"]]
    assert set(shown) == SITES
    assert shown["cleveland"].locator(".mark").inner_text() == "own"
    pulls = [abs(line["influence"]) for line in opened["evidence"]]
    assert pulls == sorted(pulls, reverse=True), "who moved the answer most comes first"
    for line in opened["evidence"]:
        points = round(100 * line["influence"])
        expected = f"{points:+}".replace("-", "\u2212") if points else "0"
        assert shown[line["site"]].locator(".number").inner_text() == expected
        assert re.fullmatch(r"(right|wrong) on \d of \d such cases", line["text"])
        assert shown[line["site"]].locator(".evidence").inner_text().endswith(line["text"])
    said = page.get_by_role("table", name="What each model said of this case")
    assert said.locator("tbody tr").count() == 12


def test_a_validation_case_shows_its_true_label_after_the_answer_and_only_as_long_as_it_is_that_case(
    page: Any, service: Service
) -> None:
    (case,) = service.get("/v1/cases", offset=2, limit=1)["cases"]
    text = pick(page, 3)
    assert f"True label of validation case 3: {case['label']}" in text
    assert "The method has learned from this case" in text
    assert page.get_by_text("Validation 3 is this case itself.").count() == 1
    age = page.get_by_label("age", exact=True)
    assert float(age.input_value()) == case["row"]["age"]
    age.fill("99")
    age.press("Enter")
    page.locator(".truth").wait_for(state="detached")


def test_an_unsure_answer_says_so_first_and_what_is_possible_at_which_level(page: Any, service: Service) -> None:
    rows = [case["row"] for case in service.get("/v1/cases", limit=60)["cases"]]
    found = service.post("/v1/predict", {"rows": rows})
    answers = found["answers"]
    unsure = next(answer for answer in answers if answer["unsure"])
    sure = next(answer for answer in answers if not answer["unsure"])
    text = pick(page, unsure["row"])
    assert page.locator(".answer .verdict").inner_text() == "Unsure"
    assert unsure["why"].lower() in text.lower()
    assert "Most likely" in text
    before = text
    text = pick(page, sure["row"])
    assert page.locator(".answer .why").inner_text() == "Sure at 90\u00a0%"
    for kind, shown in (("unsure", before), ("sure", text)):
        assert found["record"][kind]["text"] in shown, "how often such answers were wrong"
    assert "ruled out" not in before + text, "which would stand beside the probability of that answer"
    assert page.locator(".classes .tag").count() == 0
    page.locator("#case-settings").get_by_label("99 %").check()
    page.locator(".answer.unsure").wait_for()
    assert "too few for 99 %" in answered(page), "the level is another one at once"


def test_a_wrong_value_is_told_at_its_field(browser: Any, service: Service) -> None:
    with opened(browser, service.home, service.token, expected=(422,)) as page:
        chol = page.get_by_label("chol", exact=True)
        chol.fill("much")
        chol.press("Enter")
        page.get_by_role("alert").get_by_text("1 field to correct: chol.").wait_for()
        assert chol.get_attribute("aria-invalid") == "true"
        told = page.locator(f"#{chol.get_attribute('aria-describedby').split()[-1]}").inner_text()
        assert "'much'" in told
        assert "a number in mg/dl" in told
        assert chol.evaluate("field => field === document.activeElement")
        chol.fill("233")
        assert chol.get_attribute("aria-invalid") is None
        chol.press("Enter")
        answered(page)
        page.get_by_role("button", name="Clear").click()
        page.get_by_text("No case yet").wait_for()
        page.get_by_role("button", name="Ask", exact=True).first.click()
        page.get_by_role("alert").wait_for()  # a row with no value at all


def test_a_row_is_pasted_or_uploaded_as_csv_or_json(page: Any, service: Service, tmp_path: Path) -> None:
    page.get_by_text("Paste or upload").click()
    field = page.get_by_label("A line of CSV under its header")
    field.fill('age;cp;"chol";diagnosis;ward\n61;"non-anginal pain";240,5;disease;7\n')
    page.get_by_role("button", name="Fill in").click()
    page.get_by_text("one row filled in. Not among the features, and left out: ward.").wait_for()
    assert page.get_by_label("chol", exact=True).input_value() == "240,5", "as written: the service judges it"
    assert page.locator("#fields select[name=cp] option:checked").inner_text() == "non-anginal pain"
    field.fill('{"row": {"age": 44, "cp": "stabbing"}}')
    page.get_by_role("button", name="Fill in").click()
    page.get_by_text("“stabbing” is not among the values").wait_for()
    assert page.get_by_label("chol", exact=True).input_value() == ""
    field.fill("age")
    page.get_by_role("button", name="Fill in").click()
    page.get_by_text("There is only one line").wait_for()
    page.get_by_label("Choose a file").first.set_input_files(service.folder.parent / "rows" / "hungarian.csv")
    page.get_by_text("hungarian.csv: the first of 294 rows filled in.").wait_for()
    page.get_by_role("button", name="Ask all 294 rows").click()
    page.get_by_role("heading", name=re.compile(r"294 cases: \d+ sure, \d+ unsure at 90.%")).wait_for()


def test_many_cases_are_answered_in_a_table_that_can_be_taken_away(page: Any, service: Service) -> None:
    text = "".join((service.folder.parent / "rows" / "long_beach.csv").read_text().splitlines(keepends=True)[:41])
    page.get_by_role("tab", name="Batch").click()
    upload = {"name": "ward.csv", "mimeType": "text/csv", "buffer": text.encode()}
    page.get_by_role("tabpanel", name="Batch").get_by_label("Choose a file").set_input_files(upload)
    rows = page.get_by_role("table", name="Answers by row").locator("tbody tr")
    rows.nth(39).wait_for()
    with page.expect_download() as found:
        page.get_by_role("button", name="Download answers as CSV").click()
    ours = pd.read_csv(io.StringIO(found.value.path().read_text()))
    theirs = pd.read_csv(io.StringIO(service.csv(text)))
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-5)
    unsure = int(ours["unsure"].sum())
    assert rows.count() == 40
    assert 0 < unsure < 40
    assert page.locator("tr.unsure").count() == unsure
    page.get_by_label("Only the unsure ones").check()
    assert rows.count() == unsure
    number = rows.first.locator("th").inner_text()
    page.get_by_role("button", name=f"Open case {number}", exact=True).click()
    assert answered(page).count("Unsure") == 1
    assert page.get_by_role("tab", name="Case").get_attribute("aria-selected") == "true"


def test_peers_are_shown_with_what_they_add_their_age_and_their_cards(page: Any, service: Service) -> None:
    told = service.get("/v1/peers")
    page.get_by_role("tab", name="Peers").click()
    page.get_by_role("heading", name="Peers of cleveland").wait_for()
    cards = {card.get_attribute("aria-label"): card for card in page.locator(".peer").all()}
    assert list(cards) == [line["site"] for line in told["peers"]]
    assert set(cards) == SITES
    for line in told["peers"]:
        text = plain(cards[line["site"]].inner_text())
        assert text.startswith(f"{line['site']} own\n") == line["own"]
        for name in ("contribution", "agreement", "accuracy"):
            assert line[name] is None or share(line[name]) in text
        assert all(warning in text for warning in line["warnings"])
    hungarian = cards["hungarian"]
    assert re.search(r"just now|ago", hungarian.inner_text())
    assert "in 12 months" in hungarian.inner_text()
    hungarian.get_by_text("3 models and card").click()
    assert "forest@hungarian, version 20" in hungarian.inner_text()
    assert "CC BY 4.0" in hungarian.inner_text()
    assert "no differential privacy" in hungarian.inner_text()


def test_everything_can_be_done_with_the_keyboard(page: Any) -> None:
    def focused() -> str:
        found = page.evaluate(
            "(() => { const at = document.activeElement;"
            " const around = [at, at.nextElementSibling, at.parentElement].filter(Boolean);"
            " const seen = around.some((each) => getComputedStyle(each).outlineStyle !== 'none');"
            " return [at.textContent.trim() || at.id || at.name, seen]; })()"
        )
        assert found[1], f"{found[0]} has the focus, and nobody sees it"
        return str(found[0])

    page.get_by_label("Validation case").wait_for()
    page.keyboard.press("Tab")
    assert focused() == "Skip to the content"
    page.keyboard.press("Tab")
    assert focused() == "Case"
    for key, name in (("ArrowRight", "Batch"), ("End", "Peers"), ("ArrowRight", "Case"), ("ArrowLeft", "Peers")):
        page.keyboard.press(key)
        assert focused() == name
        assert page.get_by_role("tabpanel", name=name).is_visible()
    page.keyboard.press("Home")
    seen = []
    while "Clear" not in seen and len(seen) < 40:
        page.keyboard.press("Tab")
        seen.append(focused())
    fields = [name for name in seen if name.startswith("field-") or "not known" in name]
    assert len(fields) == 13, seen
    assert {"pick", "Pick", "Any", "Paste or upload", "Ask"} <= set(seen)
    page.get_by_label("age", exact=True).focus()
    page.keyboard.type("63")
    page.keyboard.press("Tab")
    page.keyboard.type("male")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    answered(page)
    assert page.locator("#fields select[name=sex] option:checked").inner_text() == "male"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_view_is_legible_labelled_and_no_wider_than_the_window(
    browser: Any, service: Service, width: int, scheme: str
) -> None:
    seen = opened(browser, service.home, service.token, width=width, color_scheme=scheme, expected=(422,))
    with seen as page:

        def judge(where: str) -> None:
            page.evaluate("Promise.all(document.getAnimations().map((each) => each.finished))")
            assert page.evaluate(JUDGED) == [], where
            assert overflow(page) == 0, where

        page.get_by_label("Validation case").wait_for()
        page.get_by_text("Paste or upload").click()
        judge("no case yet")
        pick(page, 5)
        page.get_by_text("Which bundle and models answered").click()
        judge("an answer")
        if width == 390:
            page.wait_for_function("document.querySelector('.answer').getBoundingClientRect().top < 400")
        page.get_by_label("age", exact=True).fill("old")
        page.get_by_label("age", exact=True).press("Enter")
        page.locator("#case-errors").wait_for()
        judge("a fault")
        page.get_by_role("tab", name="Batch").click()
        judge("no rows yet")
        page.get_by_label("Rows as CSV").fill("age,sex\n61,male\n45,female\n,\n70,male\n")
        page.get_by_role("tabpanel", name="Batch").get_by_role("button", name="Ask", exact=True).click()
        page.get_by_role("table", name="Answers by row").or_(page.get_by_role("alert")).first.wait_for()
        judge("a table of answers")
        page.get_by_role("tab", name="Peers").click()
        page.get_by_role("heading", name="Peers of cleveland").wait_for()
        for summary in page.locator(".peer summary").all():
            summary.click()
        judge("peers")


def test_what_judges_the_page_finds_what_is_bad(page: Any) -> None:
    page.get_by_label("Validation case").wait_for()
    page.evaluate(
        "(() => { const add = (tag, text) => { const made = document.createElement(tag); made.textContent = text;"
        " document.querySelector('main').append(made); return made; };"
        " add('p', 'pale').style.color = '#999'; add('h1', 'second'); add('input', ''); add('table', 'x'); })()"
    )
    found = page.evaluate(JUDGED)
    assert len(found) == 4, found
    assert {each.split(":")[0] for each in found} >= {"no label", "2 h1", "a table without a caption"}
    assert any(re.match(r"contrast 2\.\d+: <p> pale", each) for each in found)


def test_nothing_moves_for_those_who_asked_for_that(browser: Any, service: Service) -> None:
    with opened(browser, service.home, service.token, reduced_motion="reduce") as page:
        pick(page, 1)
        assert page.evaluate("getComputedStyle(document.querySelector('.bar > span')).transitionDuration") == "0s"


def test_a_new_bundle_is_noticed_without_a_reload(page: Any, service: Service) -> None:
    pick(page, 1)
    assert page.get_by_text("Own and peers’ models answer together.").count() == 1
    peer = PeerFolder(service.folder)
    decided(peer, "switzerland", None, "refused", "to see what becomes of the page")
    with Worker() as worker:
        fit(peer, worker, use_peers=True)
    until = time.monotonic() + PATIENCE
    while len(service.get("/v1/bundle")["models"]) == 12 and time.monotonic() < until:
        time.sleep(0.1)
    page.get_by_label("age", exact=True).press("Enter")
    page.get_by_text("answers from a new bundle").wait_for()
    page.get_by_text(re.compile("9 models say")).wait_for()
    page.get_by_role("tab", name="Peers").click()
    page.get_by_role("heading", name="Peers of cleveland").wait_for()
    assert page.locator(".peer").count() == 3
