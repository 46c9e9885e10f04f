"""Which reads of single pages are kept, what is shown of lists that were read in part, and the Events of each page."""

import asyncio

import pytest

from console.cluster import poller as poller_module
from console.cluster import reading
from console.cluster.details import Listed
from fleet.findings import Unread
from fleet.wire import ObjectReference, WireEvent
from tests.console import browsers, fleets
from tests.console.test_events import NOW, SUITE, event
from tests.console.test_poller import polling
from tests.fakes import apiserver
from tests.fleet import cluster

pytestmark = pytest.mark.slow

MESSAGE = "Mid pods were evicted"


async def test_the_details_that_were_asked_for_last_are_kept(monkeypatch):
    monkeypatch.setattr(poller_module, "_MOST_DETAILS", 2)
    reads = []

    async def ask(poller, key):
        async def read(_api):
            reads.append(key)
            return key

        assert await poller.detail((key,), read) == key

    async with polling() as (_, poller):
        for key in ("a", "b", "a", "c", "a", "b"):  # c takes the place of b, b that of c
            await ask(poller, key)
    assert reads == ["a", "b", "c", "b"]


async def test_a_read_that_is_forgotten_is_cut_off(monkeypatch):
    monkeypatch.setattr(poller_module, "_MOST_DETAILS", 1)
    loop, begun, ended = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    async def endless(_api):
        loop.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            loop.call_soon_threadsafe(ended.set)

    async def quick(_api):
        return "answer"

    async with polling() as (_, poller):
        waiting = asyncio.create_task(poller.detail(("a",), endless))
        await begun.wait()
        assert await poller.detail(("b",), quick) == "answer"
        await asyncio.wait_for(ended.wait(), 10)
        with pytest.raises(poller_module.CutOff, match="more than 1 pages are read at the same time"):
            await waiting


async def test_a_page_whose_read_is_cut_off_shows_why():
    asgi, _ = browsers.app(fleets.seen(fleets.nodes(1)), {("pending",): poller_module.CutOff()})
    async with browsers.client(asgi) as client:
        answer = await client.get("/decisions")
    assert answer.status_code == 200
    assert "more than 32 pages are read at the same time; open this one again" in answer.text


@pytest.mark.parametrize("unread", [(), (Unread("2 pods", "shop/one: Expected `object`"),)])
async def test_where_pods_were_left_out_no_page_claims_that_every_pod_has_a_node(unread):
    asgi, _ = browsers.app(fleets.seen(fleets.nodes(1)), {("pending",): Listed((), unread)})
    async with browsers.client(asgi) as client:
        text = (await client.get("/decisions")).text
    assert ("Every pod has a node" in text, "0 pods wait" in text) == (not unread, not unread)
    assert ("Not read: 2 pods." in text, "shop/one: Expected" in text) == (bool(unread), bool(unread))


@pytest.mark.parametrize("refused", ["default", SUITE])
async def test_events_of_one_place_are_shown_where_those_of_the_other_may_not_be_read(refused):
    async with apiserver.running() as server:
        for namespace in ("default", SUITE):
            listed = apiserver.page("7", event(1, namespace, "2026-11-21T09:58:00Z", f"in {namespace}"))
            answer = apiserver.Answer(cluster.forbidden("Events"), 403) if namespace == refused else listed
            server.on("GET", f"/api/v1/namespaces/{namespace}/events", answer)
        async with server.session() as api:
            found = await reading.manager_events(api, SUITE, NOW)
    assert [each.message for each in found.items] == [f"in {each}" for each in ("default", SUITE) if each != refused]
    assert [(each.what, each.is_right) for each in found.unread] == [("events", True)]


@pytest.mark.parametrize("path", ["/mid", "/decisions", "/health"])
@pytest.mark.parametrize(
    "items", [None, (), (WireEvent(ObjectReference("Node", "a"), "Warning", "MidPodEvicted", MESSAGE),)]
)
async def test_a_page_shows_its_events_or_that_they_may_not_be_read(path, items):
    asgi, _ = browsers.app(fleets.seen(fleets.nodes(1)), {("events",): Listed(items)})
    async with browsers.client(asgi) as client:
        text = (await client.get(path)).text
    assert ("may not list Events" in text) is (items is None)
    assert (MESSAGE in text) is bool(items)
