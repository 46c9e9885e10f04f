"""The stream of events without failures: lists, changes, keys, decoding, pauses, the end."""

import asyncio
import collections
import contextlib
import weakref

import msgspec
import pytest

from apiserver_client import objects, resources, watching
from tests.apiserver_client.other_task import OtherTask
from tests.fakes import apiserver

PODS = "/api/v1/pods"


class Meta(msgspec.Struct):
    name: str


class Slim(msgspec.Struct):
    metadata: Meta


def pod(name, version="1", namespace="ns", **more):
    return {"metadata": {"name": name, "namespace": namespace, "resourceVersion": version}, **more}


def bookmark(version):
    return apiserver.event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version}})


async def take(count, api, **options):
    """Return the first `count` events of a watch of pods, as short texts."""
    taken = []
    options = {"decode": Slim, **options}
    async with contextlib.aclosing(watching.list_then_watch(api, resources.PODS, **options)) as events:
        async for event in events:
            taken.append(text(event))
            if len(taken) == count:
                return taken
    raise AssertionError("a watch never ends by itself")


def text(event):
    match event:
        case watching.Synced(keys, _, restored):
            return ("restored " if restored else "synced ") + ",".join(sorted(name for _, name in keys))
        case watching.Unreadable(key):
            return f"unreadable {key.name}"
        case watching.Changed(key):
            return f"changed {key.name}"
        case watching.Deleted(key):
            return f"deleted {key.name}"


async def test_keys_are_converted_by_remember_and_released_after_the_list(server):
    class Lengths(set):
        """Set that allows weak references."""

    server.on("GET", PODS, apiserver.page("5", pod("a"), pod("bcd")))
    server.on("WATCH", PODS, apiserver.Stream(apiserver.HANG))
    options = {"decode": Slim, "remember": lambda key: len(key.name), "remember_in": Lengths}
    async with (
        server.session() as api,
        contextlib.aclosing(watching.list_then_watch(api, resources.PODS, **options)) as events,
    ):
        taken = [await anext(events) for _ in range(3)]
        assert taken[-1].keys == Lengths({1, 3})
        keys = weakref.ref(taken.pop().keys)
        waiting = asyncio.ensure_future(anext(events))
        await server.until(lambda: server.asked("WATCH"))
        assert keys() is None
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_a_list_comes_first_then_its_keys_then_the_changes(server):
    server.on("GET", PODS, apiserver.page("5", pod("a"), pod("b")))
    changes = [("ADDED", "c", "6"), ("MODIFIED", "a", "7"), ("DELETED", "b", "8")]
    server.on(
        "WATCH",
        PODS,
        apiserver.Stream(*(apiserver.event(kind, pod(name, rv)) for kind, name, rv in changes), apiserver.HANG),
    )
    async with server.session() as api:
        taken = await take(6, api)
    assert taken == ["changed a", "changed b", "synced a,b", "changed c", "changed a", "deleted b"]


async def test_objects_come_decoded_with_their_keys(server):
    server.on("GET", PODS, apiserver.page("5", pod("a")))
    server.on("WATCH", PODS, apiserver.Stream(apiserver.event("DELETED", pod("a")), apiserver.HANG))
    async with (
        server.session() as api,
        contextlib.aclosing(watching.list_then_watch(api, resources.PODS, decode=Slim)) as events,
    ):
        assert await anext(events) == watching.Changed(watching.Key("ns", "a"), Slim(Meta("a")))
        assert await anext(events) == watching.Synced(frozenset({("ns", "a")}), "5")
        assert await anext(events) == watching.Deleted(watching.Key("ns", "a"), Slim(Meta("a")))


async def test_objects_are_dictionaries_unless_a_type_is_asked_for(server):
    server.on("GET", PODS, apiserver.page("5", pod("a")))
    async with server.session() as api, contextlib.aclosing(watching.list_then_watch(api, resources.PODS)) as events:
        first = await anext(events)
    assert isinstance(first, watching.Changed)
    assert first.object == pod("a")


async def test_pages_make_one_list(server):
    server.on("GET", PODS, apiserver.page("5", pod("a"), more="t"), apiserver.page("5", pod("b")))
    async with server.session() as api:
        assert await take(3, api, page_size=1) == ["changed a", "changed b", "synced a,b"]
    assert [it.query.get("limit") for it in server.requests] == ["1", "1"]


async def test_selectors_and_namespace_hold_for_list_and_watch(server):
    path = "/api/v1/namespaces/ns/pods"
    server.on("GET", path, apiserver.page("5"))
    server.on("WATCH", path, apiserver.Stream(apiserver.event("ADDED", pod("a")), apiserver.HANG))
    async with server.session() as api:
        await take(2, api, namespace="ns", field_selector="spec.nodeName=n1", label_selector="app=x")
    for request in server.requests:
        assert (request.query["fieldSelector"], request.query["labelSelector"]) == ("spec.nodeName=n1", "app=x")


@pytest.mark.parametrize(("drawn", "seconds"), [(0.0, "300"), (0.5, "450")])
async def test_requests_bookmarks_and_a_random_length(server, drawn, seconds):
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Stream(apiserver.event("ADDED", pod("a")), apiserver.HANG))
    async with server.session() as api:
        await take(2, api, uniform=lambda: drawn)
    (watch,) = server.asked("WATCH")
    wanted = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "5", "timeoutSeconds": seconds}
    assert watch.query == wanted


@pytest.mark.parametrize(
    ("options", "list_as", "event_as"),
    [
        ({}, "", ""),
        (
            {"metadata_only": True},
            ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        ),
    ],
    ids=["default", "metadata only"],
)
async def test_whole_objects_are_requested_unless_metadata_is_enough(server, options, list_as, event_as):
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Stream(apiserver.event("ADDED", pod("a")), apiserver.HANG))
    async with server.session() as api:
        await take(2, api, **options)
    assert [it.headers["accept"] for it in server.requests] == [
        f"application/json{list_as}",
        f"application/json{event_as}",
    ]


async def test_a_list_is_the_newest_one_unless_an_older_one_is_enough(server):
    server.on("GET", PODS, apiserver.page("5"))
    async with server.session() as api:
        await take(1, api)
        await take(1, api, first_list_from_cache=True)
    assert [it.query for it in server.requests] == [{"limit": "500"}, {"limit": "500", "resourceVersion": "0"}]


async def test_only_the_first_list_may_come_from_the_cache(server, naps):
    server.on("GET", PODS, apiserver.page("5"), apiserver.page("9"))
    server.on("WATCH", PODS, apiserver.status(410, "Expired"))
    async with server.session() as api:
        await take(2, api, first_list_from_cache=True, sleep=naps)
    assert [it.query.get("resourceVersion") for it in server.asked("GET")] == ["0", None]


async def test_later_pages_of_a_list_from_the_cache_use_the_token_alone(server):
    server.on("GET", PODS, apiserver.page("5", pod("a"), more="t"), apiserver.page("5", pod("b")))
    async with server.session() as api:
        await take(3, api, first_list_from_cache=True)
    assert server.requests[1].query == {"limit": "500", "continue": "t"}


async def test_an_object_that_cannot_be_decoded_does_not_affect_others(server):
    server.on("GET", PODS, apiserver.page("5", pod("a", spec={"n": 1}), pod("bad", spec=[]), pod("c", spec={"n": 2})))
    gone = apiserver.event("DELETED", pod("bad", spec=[]))
    server.on("WATCH", PODS, apiserver.Stream(apiserver.event("MODIFIED", pod("a", spec=[])), gone, apiserver.HANG))
    state = watching.WatchState()
    strict = msgspec.defstruct("Strict", [("spec", dict[str, int])])
    async with server.session() as api:
        taken = await take(6, api, decode=strict, state=state)
    assert taken == ["changed a", "unreadable bad", "changed c", "synced a,bad,c", "unreadable a", "deleted bad"]
    assert (state.events, state.unreadable) == (5, 3)


async def test_a_large_object_may_come_in_many_chunks(server):
    line = msgspec.json.encode(apiserver.event("ADDED", pod("big", "6", blob="x" * 300_000))) + b"\n"
    chunks = [line[start : start + 7001] for start in range(0, len(line), 7001)]
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Stream(*chunks, apiserver.HANG))
    async with server.session() as api:
        assert await take(2, api) == ["synced ", "changed big"]


async def test_many_objects_may_come_in_one_chunk(server):
    lines = b"".join(msgspec.json.encode(apiserver.event("ADDED", pod(f"p{n}"))) + b"\n" for n in range(100))
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Stream(lines, apiserver.HANG))
    async with server.session() as api:
        assert (await take(101, api))[1:] == [f"changed p{n}" for n in range(100)]


async def test_other_tasks_run_between_the_objects_of_a_page(server):
    server.on("GET", PODS, apiserver.page("5", *(pod(f"p{n}") for n in range(400))))
    async with (
        server.session() as api,
        contextlib.aclosing(watching.list_then_watch(api, resources.PODS, decode=Slim)) as events,
    ):
        await anext(events)
        async with OtherTask() as other:
            for _ in range(399):
                await anext(events)
    assert other.turns >= 90


async def test_other_tasks_run_between_the_events_of_a_chunk(server):
    lines = b"".join(msgspec.json.encode(apiserver.event("ADDED", pod(f"p{n}"))) + b"\n" for n in range(400))
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Stream(lines, apiserver.HANG))
    seen = []
    async with (
        server.session() as api,
        contextlib.aclosing(watching.list_then_watch(api, resources.PODS, decode=Slim)) as events,
    ):
        assert text(await anext(events)) == "synced "
        await anext(events)
        async with OtherTask() as other:
            for _ in range(399):
                await anext(events)
                seen.append(other.turns)
    assert max(collections.Counter(seen).values()) <= objects.ITEMS_PER_LOOP_TURN


async def test_synced_is_set_when_the_consumer_has_processed_the_list(server):
    server.on("GET", PODS, apiserver.page("5", pod("a")))
    server.on("WATCH", PODS, apiserver.Stream(apiserver.event("ADDED", pod("b")), apiserver.HANG))
    state, states = watching.WatchState(), []
    options = {"decode": Slim, "state": state, "on_state": lambda now: states.append((now.synced, now.lists))}
    async with (
        server.session() as api,
        contextlib.aclosing(watching.list_then_watch(api, resources.PODS, **options)) as events,
    ):
        assert [text(await anext(events)) for _ in range(2)] == ["changed a", "synced a"]
        assert not state.synced, "the consumer may still be busy with it"
        await anext(events)
    assert state.synced
    assert states == [(True, 1)]


async def test_bookmarks_are_activity_and_events_of_a_watch_and_a_list_is_activity_alone(server):
    server.on("GET", PODS, apiserver.page("5"), apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Stream(bookmark("9"), apiserver.event("ADDED", pod("a", "10")), apiserver.HANG))
    state, moments = watching.WatchState(), iter(range(100, 200))
    async with server.session() as api:
        assert await take(1, api, state=state, now=lambda: 99.0) == ["synced "]
        assert (state.last_activity, state.last_event) == (99.0, None)
        state = watching.WatchState()
        assert await take(2, api, state=state, now=lambda: float(next(moments))) == ["synced ", "changed a"]
    assert state.events == 1
    assert state.last_activity == 104.0  # page, connected (twice read), bookmark, event
    assert state.last_event == 104.0


@pytest.mark.parametrize("leave", ["cancel", "close"])
async def test_leaving_closes_the_connection(server, leave):
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Stream(apiserver.event("ADDED", pod("a")), apiserver.HANG))
    async with server.session() as api:
        if leave == "close":
            await take(2, api)
        else:
            task = asyncio.create_task(take(3, api))
            await server.until(lambda: server.asked("WATCH"))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await server.until(lambda: server.hung_up == 1)
