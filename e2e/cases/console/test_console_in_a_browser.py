"""The pages in Debian's chromium, over a real kube-apiserver: accessible, by keyboard, and without JavaScript."""

from __future__ import annotations

import pytest

from e2e.console import browser, pictures, stage, states

NODES = 60
PATHS = [*pictures.PAGES.values(), "/nodes/none"]
WAITING_PODS = 4
NARROW = 320  # pixels: a window of 1280 at 400 %
FOCUSABLE = "a[href], button, input, select, summary, [tabindex='0']"
REFRESH_MS = 90_000
pytestmark = pytest.mark.long  # it starts a control plane and a browser


@pytest.fixture(scope="module")
def address():
    with stage.running(NODES) as made:
        made.until_scheduler_has_refused()
        with states.console(made.lone.plane.kubeconfig) as printed:
            yield printed


@pytest.fixture(scope="module")
def base(opened, address):
    """Enter once, as the token allows, and give every context the cookie."""
    watched, found = states.entered(opened, address, "light")
    watched.page.get_by_role("heading", name="nodes use").wait_for()
    yield found, watched.context.cookies()
    watched.close()


@pytest.fixture
def visit(opened, base):
    visited = []

    def enter(path, theme="light", **more):
        watched = browser.Watched(opened, theme, **more)
        watched.context.add_cookies(base[1])
        watched.page.goto(base[0] + path)
        visited.append(watched)
        return watched

    yield enter
    for each in visited:
        each.close()


def next_refresh(page, part=""):
    """Wait until the page has refreshed itself once more."""
    with page.expect_response(lambda answer: "/static/" not in answer.url and part in answer.url, timeout=REFRESH_MS):
        pass
    page.wait_for_timeout(300)  # the swap


def until_read(page):
    """Reload until the page has what only it shows, which a busy machine reads after more than two seconds."""
    for _ in range(10):
        if not page.get_by_text("the next request shows it").count():
            return
        page.wait_for_timeout(2_000)
        page.reload()


@pytest.mark.parametrize("theme", pictures.THEMES)
@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_accessible_and_the_browser_complains_about_nothing(visit, base, theme, path):
    watched = visit(path, theme)
    watched.page.wait_for_load_state("load")
    assert watched.axe() == []
    failed = [each for each in watched.complaints if "404" not in each or path != "/nodes/none"]
    assert failed == []
    assert {url for url in watched.requested if not url.startswith(base[0] + "/")} == set()


@pytest.mark.parametrize("path", PATHS)
def test_a_narrow_window_does_not_scroll_sideways(visit, path):
    page = visit(path, width=NARROW).page
    assert page.evaluate("document.scrollingElement.scrollWidth") <= NARROW


def test_the_address_is_valid_once(opened, address, base):
    with_token = browser.Watched(opened)
    answer = with_token.page.goto(address)
    with_token.close()
    assert answer is not None
    assert answer.status == 403


# keyboard


@pytest.mark.parametrize("path", pictures.PAGES.values())
def test_everything_is_reached_by_keyboard_in_its_order_and_shows_the_focus(visit, path):
    page = visit(path).page
    count = page.evaluate(
        "selector => { const all = [...document.querySelectorAll(selector)];"
        "window.inOrder = all.filter(each => each.checkVisibility()); return window.inOrder.length; }",
        FOCUSABLE,
    )
    for expected in range(count):
        page.keyboard.press("Tab")
        reached, style, html = page.evaluate(
            "() => { const at = document.activeElement;"
            "return [window.inOrder.indexOf(at), getComputedStyle(at).outlineStyle, at.outerHTML.slice(0, 200)]; }"
        )
        assert (reached, style != "none") == (expected, True), html


def test_the_skip_link_comes_first(visit):
    page = visit("/").page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_the_search_is_reached_by_keyboard_and_filters_while_one_types(visit):
    page = visit("/").page
    page.keyboard.press("/")
    page.keyboard.type("worker-07")
    page.get_by_text("1 to 1 of 1 nodes").wait_for()
    assert page.evaluate("document.activeElement.name") == "q"
    assert page.locator(".nodes tbody tr").count() == 1
    page.keyboard.type("/")
    assert page.locator("#search").input_value() == "worker-07/"


# refreshes


def test_a_refresh_keeps_what_is_typed_and_where_the_focus_is(visit):
    page = visit("/").page
    page.locator("#search").fill("worker-1")
    page.get_by_text("of 10 nodes").wait_for()
    next_refresh(page, "q=worker-1")
    page.get_by_text("of 10 nodes").wait_for()
    assert page.locator("#search").input_value() == "worker-1"
    assert page.evaluate("document.activeElement.name") == "q"


def test_a_refresh_brings_new_data_and_keeps_what_was_opened(visit):
    page = visit(pictures.PAGES["node"]).page
    before = page.locator(".fresh").text_content()
    summary = page.locator("summary", has_text="Inputs of the formula").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("details[open]").count() == 1
    next_refresh(page)
    assert page.locator(".fresh").text_content() != before
    assert page.locator("details[open]").count() == 1
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_a_chart_is_drawn_from_its_table_and_again_after_a_refresh(visit):
    watched = visit("/mid")
    page = watched.page
    page.locator("figure.chart canvas").first.wait_for(timeout=300_000)  # two values, a minute apart
    next_refresh(page, "/mid")
    page.locator("figure.chart canvas").first.wait_for()
    rows = page.locator("figure.chart details tbody tr").count()
    assert rows >= 2
    page.emulate_media(color_scheme="dark")
    page.locator("figure.chart canvas").first.wait_for()
    assert watched.axe() == []
    assert watched.complaints == []


# without JavaScript


def test_without_javascript_the_nodes_are_searched_sorted_and_paged(visit):
    page = visit("/?q=worker-0&sort=name", javascript=False).page
    assert page.locator(".nodes tbody tr").count() == 9
    page.get_by_label("Name or reason").fill("")
    page.get_by_role("button", name="Show").click()
    assert page.locator(".nodes tbody tr").count() == 50
    page.get_by_role("link", name="next").click()
    assert page.locator(".nodes tbody tr").count() == NODES - 50
    page.get_by_role("link", name="worker-60").click()
    until_read(page)
    assert page.get_by_text("Prod pods request").count() >= 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/nodes/worker-12", "Mid on the node"),
        ("/mid", "By namespace"),
        ("/prediction", "Use calibrated"),
        ("/decisions", f"{WAITING_PODS} pods wait for a node"),
        ("/health", "Configuration"),
    ],
)
def test_without_javascript_every_page_has_its_contents_and_offers_nothing_that_does_not_work(visit, path, text):
    page = visit(path, javascript=False).page
    until_read(page)
    page.get_by_text(text).first.wait_for()
    for each in page.locator("summary").all():
        each.click()
    assert page.locator("details:not([open])").count() == 0
    assert page.get_by_text("jumps here").filter(visible=True).count() == 0
