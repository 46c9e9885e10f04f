"""Each state of the console in Debian's chromium: empty, loading, failed, few rights, late, stale, and well again."""

from __future__ import annotations

import contextlib

import pytest

from e2e.console import browser, pictures, states
from e2e.support import lone_manager

NODE = {"metadata": {"name": "worker-1"}}
SHORT_MS, LATE_MS, STALE_MS = 90_000, 90_000, 240_000
MAY_LIST = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
    {"apiGroups": ["slo.koordinator.sh"], "resources": ["nodemetrics"], "verbs": ["get", "list"]},
)
pytestmark = pytest.mark.long  # it starts a control plane and a browser


@pytest.fixture(scope="module")
def lone():
    with lone_manager.running() as made:
        yield made


@contextlib.contextmanager
def entered(opened, address):
    """Enter in a light context; yield it, and a function that visits a path in the other contexts with its cookie."""
    watched, base = states.entered(opened, address, "light")
    with contextlib.ExitStack() as stack:
        stack.callback(watched.close)

        def visit(path, theme="light", **more):
            other = browser.Watched(opened, theme, **more)
            stack.callback(other.close)
            other.context.add_cookies(watched.context.cookies())
            other.page.goto(base + path)
            return other

        yield watched.page, visit


def check(visit, text, paths=("/",)):
    """Check these paths in both themes: the text is there, axe finds nothing, the browser complains about nothing."""
    for path in paths:
        for theme in pictures.THEMES:
            watched = visit(path, theme)
            watched.page.get_by_text(text).first.wait_for(timeout=SHORT_MS)
            assert watched.axe() == [], (path, theme)
            assert watched.complaints == [], (path, theme)


def test_an_empty_cluster(opened, lone):
    paths = [path for path in pictures.PAGES.values() if "worker" not in path]
    with states.console(lone.plane.kubeconfig) as address, entered(opened, address) as (page, visit):
        page.get_by_text("The cluster has no nodes yet").wait_for(timeout=SHORT_MS)
        check(visit, "data of", paths)


def test_an_apiserver_that_does_not_answer_yet_is_loading_with_and_without_javascript(opened, lone):
    with states.silent(lone) as (address, resume), entered(opened, address) as (page, visit):
        without = visit("/", javascript=False).page
        check(visit, "Reading the cluster", ["/", "/health"])
        for each in (page, without):
            each.get_by_text("Reading the cluster").wait_for(timeout=SHORT_MS)
        resume()
        for each in (page, without):
            each.get_by_text("The cluster has no nodes yet").wait_for(timeout=SHORT_MS)


def test_an_apiserver_that_is_not_there_is_named(opened, lone):
    with states.unreachable(lone.plane.kubeconfig) as address, entered(opened, address) as (_, visit):
        check(visit, "The cluster cannot be read", ["/", "/nodes/worker-12", "/health"])


def test_a_user_without_any_right_learns_which_ones(opened, lone):
    with states.of_user(lone, "stranger") as address, entered(opened, address) as (_, visit):
        check(visit, "Your user may read neither Nodes nor NodeMetrics", ["/", "/mid", "/decisions"])


def test_a_user_with_few_rights_sees_what_is_missing(opened, lone):
    with states.of_user(lone, "newcomer", *MAY_LIST) as address, entered(opened, address) as (page, visit):
        page.get_by_text("! Incomplete").wait_for(timeout=SHORT_MS)
        check(visit, "! Incomplete", ["/", "/mid", "/decisions", "/health"])
        visit("/decisions").page.get_by_text("Your user may not list Events").wait_for()


def test_an_outage_is_late_then_stale_then_over(opened, lone):
    lone.api.send("POST", "/api/v1/nodes", NODE)
    with states.console(lone.plane.kubeconfig) as address, entered(opened, address) as (page, visit):
        row = page.locator(".nodes").get_by_role("link", name="worker-1")
        row.wait_for(timeout=SHORT_MS)
        lone.plane.stop("kube-apiserver")
        page.get_by_text("! Late").wait_for(timeout=LATE_MS)
        check(visit, "The last attempt to read failed")
        page.get_by_text("✘ Stale").wait_for(timeout=STALE_MS)
        check(visit, "✘ Stale", ["/", "/nodes/worker-1", "/mid", "/decisions", "/health"])
        assert row.count() == 1
        lone.plane.start_apiserver()
        page.get_by_text("✘ Stale").wait_for(state="hidden", timeout=STALE_MS)
        row.wait_for()
