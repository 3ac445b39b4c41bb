"""What the page says when something is not as it should be, in a real chromium; states that a real service does not
enter on demand are brought about by a stand-in."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from page_browser import chromium, needs_chromium, opened, overflow
from stand_in import TOKEN, Says, bundle, category, model, number, stand_in

pytestmark = needs_chromium
HOSTILE = "<img src=x onerror=\"document.title='taken'\"> \u202egnp.exe & </script><script>alert(1)</script>"
LONG = "a_very_long_name_without_any_space_" * 6


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def ask(page: Any, age: str = "50") -> None:
    page.get_by_label("age", exact=True).fill(age)
    page.get_by_role("tabpanel", name="Case").get_by_role("button", name="Ask", exact=True).click()


def test_without_a_token_it_asks_for_one_and_says_when_it_is_wrong(browser: Any) -> None:
    with stand_in(Says()) as home, opened(browser, home, expected=(401,)) as page:
        field = page.get_by_label("Token that the service printed")
        page.get_by_text("The service asks for its token.").wait_for()
        for wrong in ("wrong", "–"):
            field.fill(wrong)
            field.press("Enter")
            page.get_by_text("The service does not know this token.").wait_for()
        field.fill(TOKEN)
        field.press("Enter")
        page.get_by_role("tab", name="Case").wait_for()
        assert page.evaluate("[location.href, Object.keys(localStorage).length, sessionStorage.length]") == [
            f"{home}/",
            0,
            1,
        ]


def test_a_token_that_is_withdrawn_meanwhile_costs_nothing_that_was_filled_in(browser: Any) -> None:
    says = Says()
    with stand_in(says) as home, opened(browser, home, TOKEN, expected=(401,)) as page:
        page.get_by_label("age", exact=True).wait_for()
        says.failures.append((401, "a wrong token", ""))
        ask(page, "61")
        page.get_by_label("Token that the service printed").fill(TOKEN)
        page.keyboard.press("Enter")
        page.locator(".answer .verdict").wait_for()
        assert b'"age":61' in says.asked[-1][2]


@pytest.mark.parametrize(
    ("status", "message", "wait", "title"),
    [
        (503, "64 requests wait already: expected fewer at once", "2", "The service is busy"),
        (429, "120 requests in a second: expected at most 100", "1", "Too many questions in a short time"),
        (500, "something broke", "", "That did not work"),
    ],
)
def test_a_busy_service_is_told_plainly_and_can_be_asked_again(
    browser: Any, status: int, message: str, wait: str, title: str
) -> None:
    says = Says()
    with stand_in(says) as home, opened(browser, home, TOKEN, expected=(status,)) as page:
        page.get_by_label("age", exact=True).wait_for()
        says.failures.append((status, message, wait))
        ask(page)
        alert = page.get_by_role("alert")
        alert.get_by_role("heading", name=title).wait_for()
        assert message in alert.inner_text()
        assert (f"Try again in {wait} second" in alert.inner_text()) == bool(wait)
        alert.get_by_role("button", name="Try again").click()
        page.locator(".answer .verdict").wait_for()
        assert page.get_by_label("age", exact=True).input_value() == "50"


def test_a_service_that_is_gone_is_told_plainly(browser: Any) -> None:
    with stand_in(Says()) as home:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{home}/#token={TOKEN}")
        page.get_by_label("age", exact=True).wait_for()
    ask(page)
    page.get_by_role("heading", name="No answer from the service").wait_for()
    page.get_by_role("button", name="Try again").wait_for()
    page.get_by_role("tab", name="Peers").click()
    peers = page.get_by_role("tabpanel", name="Peers")
    peers.get_by_role("heading", name="No answer from the service").wait_for()
    assert peers.get_by_role("button", name="Try again").is_visible()
    context.close()


def test_a_new_bundle_meanwhile_renews_the_form_and_keeps_what_fits(browser: Any) -> None:
    says = Says()
    with stand_in(says) as home, opened(browser, home, TOKEN) as page:
        page.get_by_label("sugar", exact=True).fill("7")
        page.get_by_label("pain", exact=True).select_option("much")
        extra = number("pulse", "beats/min", 30, 250)
        says.bundle = bundle(digest="77" * 32, features=[*bundle()["features"][1:], extra])
        page.get_by_role("button", name="Ask", exact=True).first.click()
        page.get_by_text("answers from a new bundle").wait_for()
        page.get_by_label("pulse", exact=True).wait_for()
        assert page.get_by_label("age", exact=True).count() == 0
        assert page.get_by_label("sugar", exact=True).input_value() == "7"
        assert page.locator("#fields select option:checked").inner_text() == "much"
        assert "777777777777" in page.locator("footer").inner_text()
        page.get_by_role("button", name="Understood").click()
        assert page.get_by_text("answers from a new bundle").count() == 0


def test_names_and_values_of_others_are_shown_and_never_obeyed(browser: Any) -> None:
    features = [number(HOSTILE, HOSTILE, 0, 1), category(LONG, HOSTILE, LONG)]
    sites = [HOSTILE, LONG, "north"]
    names = {"classes": [HOSTILE, LONG], "target": HOSTILE, "task": LONG, "method": HOSTILE}
    odd = bundle(sites=sites, features=features, positive=None, **names)
    facts = {"version": HOSTILE, "created": 1, "expires": 2, "contribution": 0.3, "agreement": 0.5, "accuracy": 0.5}
    card = {"task": {"name": HOSTILE}, "classes": [HOSTILE], "features": [LONG], "licence": HOSTILE, "models": {}}
    lines = [
        {"site": site, "own": site == sites[0], "models": [LONG, HOSTILE], "card": card, "warnings": [HOSTILE], **facts}
        for site in sites
    ]
    says = Says(bundle=odd, peers=lines, unsure=HOSTILE)
    with stand_in(says) as home, opened(browser, home, TOKEN, width=390) as page:
        page.locator("#fields input").fill("0.5")
        page.locator("#fields select").select_option(index=1)
        page.get_by_role("button", name="Ask", exact=True).first.click()
        page.locator(".answer .verdict").wait_for()
        assert overflow(page) == 0
        sent = says.asked[-1][2].decode()
        page.locator("details.card summary").click()
        page.get_by_role("tab", name="Peers").click()
        page.get_by_role("heading", name="Peers of").wait_for()
        for summary in page.locator(".peer summary").all():
            summary.click()
        assert overflow(page) == 0
        assert page.locator("img").count() == 1  # the page's own
        assert page.locator("script").count() == 1
        assert page.title() != "taken"
        text = page.inner_text("body")
        assert "onerror=" in text
        assert "\u202e" not in text
        assert "\\u202egnp.exe" in sent or "\u202egnp.exe" in sent, "what is sent is not what is shown"


def test_an_image_is_chosen_drawn_and_asked_about(browser: Any) -> None:
    from PIL import Image

    held = io.BytesIO()
    Image.effect_noise((28, 28), 90).save(held, "PNG")
    pixels = [[(x * 9 + y) % 256 for x in range(28)] for y in range(28)]
    kinds = {"kind": "image", "features": [], "inputs": {"x": [1, 28, 28]}, "has_cases": True}
    says = Says(bundle=bundle(**kinds), cases=[{"case": 1, "label": "ill", "row": {"pixels": [pixels]}}])
    with stand_in(says) as home, opened(browser, home, TOKEN) as page:
        page.get_by_role("button", name="Ask", exact=True).first.click()
        page.get_by_text("There is no image yet").wait_for()
        choose = page.get_by_label("Choose an image")
        choose.set_input_files({"name": "no.png", "mimeType": "image/png", "buffer": b"no"})
        page.get_by_text("cannot be read as an image").wait_for()
        choose.set_input_files({"name": "ward.png", "mimeType": "image/png", "buffer": held.getvalue()})
        page.get_by_role("img", name="The image").wait_for()
        page.get_by_role("button", name="Ask", exact=True).first.click()
        page.locator(".answer .verdict").wait_for()
        assert says.asked[-1] == ("/v1/explain", "image/png", held.getvalue())
        page.get_by_role("button", name="Pick").click()
        page.get_by_text("True label of validation case 1: ill").wait_for()
        assert b'"pixels":[[[0,9,' in says.asked[-1][2]
        drawn = page.evaluate("[...document.querySelector('canvas').getContext('2d').getImageData(2, 1, 1, 1).data]")
        assert drawn == [19, 19, 19, 255]
        assert page.get_by_role("tab", name="Batch").is_hidden()


def test_a_sequence_is_pasted_as_json(browser: Any) -> None:
    kinds = {"kind": "sequence", "features": [], "inputs": {"static": [2], "series": [4, 3]}}
    says = Says(bundle=bundle(**kinds))
    with stand_in(says) as home, opened(browser, home, TOKEN) as page:
        field = page.get_by_label("The case as JSON")
        field.fill("{static")
        page.get_by_role("button", name="Ask", exact=True).first.click()
        page.get_by_text("This is not JSON").wait_for()
        field.fill('{"static": [1, 2], "series": [[0, 0, 1]]}')
        page.get_by_role("button", name="Ask", exact=True).first.click()
        page.locator(".answer .verdict").wait_for()
        assert b'"row":{"static":[1,2],"series":[[0,0,1]]}' in says.asked[-1][2]


def test_a_frugal_answer_can_be_opened_with_all_models(browser: Any) -> None:
    says = Says(bundle=bundle(models=[model("forest", "north", True), model("forest", "south")]))
    with stand_in(says) as home, opened(browser, home, TOKEN) as page:
        page.get_by_label("age", exact=True).wait_for()
        page.locator("#case-settings").get_by_label("Frugal").check()
        ask(page)
        page.locator(".answer .verdict").wait_for()
        assert says.asked[-1][0] == "/v1/predict"
        assert b'"frugal":true' in says.asked[-1][2]
        assert page.get_by_text("What each model said", exact=True).count() == 0
        page.get_by_role("button", name="Open this answer").click()
        page.get_by_role("heading", name="What each model said").wait_for()
        assert b'"frugal":false' in says.asked[-1][2]


def test_a_service_that_is_still_starting_is_told_and_can_be_asked_again(browser: Any) -> None:
    says = Says(failures=[(503, "the bundle is being opened", "3")])
    with stand_in(says) as home, opened(browser, home, TOKEN, expected=(503,)) as page:
        page.get_by_text("the bundle is being opened").wait_for()
        page.get_by_role("button", name="Try again").click()
        page.get_by_label("age", exact=True).wait_for()
        assert page.get_by_label("age", exact=True).is_editable()
