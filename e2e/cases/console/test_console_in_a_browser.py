"""The pages in Debian's chromium, over a real kube-apiserver: accessible, by keyboard, and without JavaScript."""

from __future__ import annotations

import pytest

from e2e.console import browser, pictures, stage

NODES = 60
pytestmark = pytest.mark.long  # it starts a control plane and a browser


@pytest.fixture(scope="module")
def opened():
    with browser.running() as running:
        yield running


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with stage.running(NODES) as made, pictures.console(made.lone.plane.kubeconfig) as printed:
        yield printed


@pytest.fixture(scope="module")
def base(opened, address):
    """Enter once, as the token allows, and give every context the cookie."""
    watched, found = pictures.entered(opened, address, "light")
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


@pytest.mark.parametrize("theme", pictures.THEMES)
@pytest.mark.parametrize("path", [*pictures.PAGES.values(), "/nodes/none"])
def test_a_page_is_accessible_and_the_browser_complains_about_nothing(visit, theme, path):
    watched = visit(path, theme)
    watched.page.wait_for_load_state("load")
    assert watched.axe() == []
    failed = [each for each in watched.complaints if "404" not in each or path != "/nodes/none"]
    assert failed == []


def test_the_address_is_valid_once(opened, address, base):
    with_token = browser.Watched(opened)
    answer = with_token.page.goto(address)
    with_token.close()
    assert answer is not None
    assert answer.status == 403


def test_the_search_is_reached_by_keyboard_and_filters_while_one_types(visit):
    page = visit("/").page
    page.keyboard.press("/")
    page.keyboard.type("worker-07")
    page.get_by_text("1 to 1 of 1 nodes").wait_for()
    assert page.evaluate("document.activeElement.name") == "q"
    assert page.locator(".nodes tbody tr").count() == 1


def test_a_refresh_keeps_what_is_typed_and_where_the_focus_is(visit):
    page = visit("/").page
    page.locator("#search").fill("worker-1")
    page.get_by_text("of 10 nodes").wait_for()
    with page.expect_response(lambda answer: "q=worker-1" in answer.url, timeout=20_000):
        pass  # the next refresh
    page.get_by_text("of 10 nodes").wait_for()
    assert page.locator("#search").input_value() == "worker-1"
    assert page.evaluate("document.activeElement.name") == "q"


def test_the_skip_link_comes_first(visit):
    page = visit("/").page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_without_javascript_everything_is_there(visit):
    page = visit("/?q=worker-0&sort=name", javascript=False).page
    assert page.locator(".nodes tbody tr").count() == 9
    page.get_by_label("Name or reason").fill("worker-12")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="worker-12").click()
    assert page.get_by_text("Prod pods request").count() >= 1


def test_a_chart_is_drawn_from_its_table_and_again_after_a_refresh(visit):
    page = visit("/mid").page
    page.locator("figure.chart canvas").first.wait_for(timeout=150_000)  # two values, a minute apart
    with page.expect_response(lambda answer: answer.url.endswith("/mid"), timeout=20_000):
        pass  # the next refresh
    page.locator("figure.chart canvas").first.wait_for()
    rows = page.locator("figure.chart details tbody tr").count()
    assert rows >= 2
