import asyncio
import collections
import contextlib
import logging
import weakref

import msgspec
import pytest

from apiserver_client import backoff, errors, objects, resources, watching
from tests.apiserver_client.other_task import OtherTask
from tests.fakes import apiserver

PODS = "/api/v1/pods"
HANG, ABORT = apiserver.HANG, apiserver.ABORT


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
    server.on("WATCH", PODS, apiserver.Stream(HANG))
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
        apiserver.Stream(*(apiserver.event(kind, pod(name, rv)) for kind, name, rv in changes), HANG),
    )
    async with server.session() as api:
        taken = await take(6, api)
    assert taken == ["changed a", "changed b", "synced a,b", "changed c", "changed a", "deleted b"]


async def test_objects_come_decoded_with_their_keys(server):
    server.on("GET", PODS, apiserver.page("5", pod("a")))
    server.on("WATCH", PODS, apiserver.Stream(apiserver.event("DELETED", pod("a")), HANG))
    async with (
        server.session() as api,
        contextlib.aclosing(watching.list_then_watch(api, resources.PODS, decode=Slim)) as events,
    ):
        assert await anext(events) == watching.Changed(watching.Key("ns", "a"), Slim(Meta("a")))
        assert await anext(events) == watching.Synced(frozenset({("ns", "a")}), "5")
        assert await anext(events) == watching.Deleted(watching.Key("ns", "a"), Slim(Meta("a")))


async def test_selectors_and_namespace_hold_for_list_and_watch(server):
    path = "/api/v1/namespaces/ns/pods"
    server.on("GET", path, apiserver.page("5"))
    server.on("WATCH", path, apiserver.Stream(apiserver.event("ADDED", pod("a")), HANG))
    async with server.session() as api:
        await take(2, api, namespace="ns", field_selector="spec.nodeName=n1", label_selector="app=x")
    for request in server.requests:
        assert (request.query["fieldSelector"], request.query["labelSelector"]) == ("spec.nodeName=n1", "app=x")


@pytest.mark.parametrize(("drawn", "seconds"), [(0.0, "300"), (0.5, "450")])
async def test_requests_bookmarks_and_a_random_length(server, drawn, seconds):
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Stream(apiserver.event("ADDED", pod("a")), HANG))
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
    server.on("WATCH", PODS, apiserver.Stream(apiserver.event("ADDED", pod("a")), HANG))
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


async def test_an_object_that_cannot_be_decoded_does_not_affect_others(server):
    server.on("GET", PODS, apiserver.page("5", pod("a", spec={"n": 1}), pod("bad", spec=[]), pod("c", spec={"n": 2})))
    gone = apiserver.event("DELETED", pod("bad", spec=[]))
    server.on("WATCH", PODS, apiserver.Stream(apiserver.event("MODIFIED", pod("a", spec=[])), gone, HANG))
    state = watching.WatchState()
    strict = msgspec.defstruct("Strict", [("spec", dict[str, int])])
    async with server.session() as api:
        taken = await take(6, api, decode=strict, state=state)
    assert taken == ["changed a", "unreadable bad", "changed c", "synced a,bad,c", "unreadable a", "deleted bad"]
    assert (state.events, state.unreadable) == (5, 3)


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
    server.on("WATCH", PODS, apiserver.Stream(lines, HANG))
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
    server.on("WATCH", PODS, apiserver.Stream(apiserver.event("ADDED", pod("b")), HANG))
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


async def test_pages_bookmarks_and_events_are_activity(server):
    server.on("GET", PODS, apiserver.page("5"), apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Stream(bookmark("9"), apiserver.event("ADDED", pod("a", "10")), HANG))
    state, moments = watching.WatchState(), iter(range(100, 200))
    async with server.session() as api:
        assert await take(1, api, state=state, now=lambda: 99.0) == ["synced "]
        assert state.last_activity == 99.0
        state = watching.WatchState()
        assert await take(2, api, state=state, now=lambda: float(next(moments))) == ["synced ", "changed a"]
    assert state.events == 1
    assert state.last_activity == 104.0  # page, connected (twice read), bookmark, event


@pytest.mark.parametrize("leave", ["cancel", "close"])
async def test_leaving_closes_the_connection(server, leave):
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Stream(apiserver.event("ADDED", pod("a")), HANG))
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


EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}


def added(name, version):
    return apiserver.event("ADDED", pod(name, version))


def versions(server):
    return [request.query["resourceVersion"] for request in server.asked("WATCH")]


def a_clock(*, step):
    moment = 0.0

    def now():
        nonlocal moment
        moment += step
        return moment

    return now


@pytest.mark.parametrize(
    "expired",
    [
        apiserver.Stream(added("b", "6"), apiserver.event("ERROR", EXPIRED)),
        apiserver.Answer(EXPIRED, 410),
    ],
    ids=["event", "status"],
)
async def test_an_expired_version_means_a_new_list(server, naps, expired):
    server.on("GET", PODS, apiserver.page("5", pod("a")), apiserver.page("9", pod("c")))
    server.on("WATCH", PODS, expired, apiserver.Stream(added("d", "10"), HANG))
    state = watching.WatchState()
    count = 6 if isinstance(expired, apiserver.Stream) else 5
    async with server.session() as api:
        taken = await take(count, api, sleep=naps, state=state)
    assert taken[-3:] == ["changed c", "synced c", "changed d"]
    assert versions(server)[-1] == "9"
    assert (state.lists, state.reconnects, state.last_error) == (2, 0, None)


async def test_a_version_that_expires_repeatedly_is_listed_with_growing_delays(server, naps):
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Answer(EXPIRED, 410))
    async with server.session() as api:
        await take(5, api, sleep=naps, uniform=lambda: 0.0)
    assert naps.seconds == pytest.approx([0.4, 0.8, 1.6, 3.2])


async def test_lists_at_once_after_an_outage_in_which_the_version_expired(server, naps):
    server.on("GET", PODS, apiserver.page("5"), apiserver.page("9", pod("a")))
    refused = [apiserver.status(500, "InternalError")] * 6
    server.on("WATCH", PODS, *refused, apiserver.status(410, "Expired"))
    async with server.session() as api:
        assert await take(3, api, sleep=naps, uniform=lambda: 0.0) == ["synced ", "changed a", "synced a"]
    assert naps.seconds == pytest.approx([0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 0.4])


@pytest.mark.parametrize(
    "cut",
    [(ABORT,), (b'{"type":"ADDED","obj', ABORT), (b'{"type":"ADDED","obj',)],
    ids=["between lines", "in a line", "in a line, properly ended"],
)
async def test_resumes_a_broken_connection_from_the_last_version(server, naps, cut):
    server.on("GET", PODS, apiserver.page("5"))
    server.on(
        "WATCH", PODS, apiserver.Stream(added("a", "6"), bookmark("8"), *cut), apiserver.Stream(added("b", "9"), HANG)
    )
    state = watching.WatchState()
    async with server.session() as api:
        assert await take(3, api, sleep=naps, state=state) == ["synced ", "changed a", "changed b"]
    assert versions(server) == ["5", "8"]
    assert len(server.asked("GET")) == 1
    assert (state.reconnects, state.lists, state.last_error) == (1, 1, None)


async def test_a_list_that_breaks_off_is_repeated_and_its_objects_with_it(server, naps):
    broken = apiserver.Stream(b'{"metadata":{"resourceVersion":"5"},"items":[{"metad', ABORT)
    first = apiserver.page("5", pod("a"), more="t")
    server.on("GET", PODS, first, broken, first, broken, broken, apiserver.page("8", pod("b")))
    state = watching.WatchState()
    async with server.session() as api:
        taken = await take(4, api, sleep=naps, state=state, uniform=lambda: 0.0)
    assert taken == ["changed a", "changed a", "changed b", "synced b"]
    assert naps.seconds == pytest.approx([0.4, 0.4, 0.8])
    assert (state.lists, state.last_error) == (1, None)


async def test_an_object_that_cannot_be_listed_is_unreadable_and_exists(server, monkeypatch):
    monkeypatch.setattr(objects, "_MOST_PAGE_BYTES", 4_000)
    items = [pod("a"), pod("large", blob="x" * 4_000), pod("c")]
    server.on("GET", PODS, apiserver.pages("5", *map(msgspec.json.encode, items)))
    state = watching.WatchState()
    async with server.session() as api:
        taken = await take(4, api, state=state)
    assert taken == ["changed a", "unreadable large", "changed c", "synced a,c,large"]
    assert state.unreadable == 1


async def test_reconnects_after_a_silent_peer(server, naps):
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Stream(added("a", "6"), HANG), apiserver.Stream(added("b", "7"), HANG))
    states = []
    async with server.session() as api:
        taken = await take(
            3, api, sleep=naps, silence_timeout_seconds=0.03, on_state=lambda it: states.append(it.last_error)
        )
        await server.until(lambda: server.hung_up == 2)
    assert taken == ["synced ", "changed a", "changed b"]
    assert versions(server) == ["5", "6"]
    assert any(isinstance(error, errors.WatchTimeout) and "sent nothing for 0.03 s" in str(error) for error in states)


async def test_reconnects_after_a_peer_that_never_answers(server, naps):
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, HANG, apiserver.Stream(added("b", "7"), HANG))
    async with server.session() as api:
        assert await take(2, api, sleep=naps, silence_timeout_seconds=0.03) == ["synced ", "changed b"]


async def test_two_silent_watches_in_a_row_put_the_version_in_doubt(server, naps):
    server.on("GET", PODS, apiserver.page("5"), apiserver.page("3", pod("a")))
    server.on("WATCH", PODS, apiserver.Stream(HANG))
    async with server.session() as api:
        taken = await take(3, api, sleep=naps, silence_timeout_seconds=0.01)
    assert taken == ["synced ", "changed a", "restored a"]
    assert versions(server) == ["5", "5"]


async def test_regular_bytes_are_not_silence(server, naps):
    beats = [bookmark(str(version)) for version in range(6, 12)]
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Stream(*beats, added("a", "12"), HANG))
    async with server.session() as api:
        assert await take(2, api, sleep=naps, silence_timeout_seconds=5.0) == ["synced ", "changed a"]
    assert versions(server) == ["5"]


async def test_the_planned_end_of_a_watch_is_not_a_failure(server, naps):
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Stream(added("a", "6")), apiserver.Stream(added("b", "7"), HANG))
    state = watching.WatchState()
    async with server.session() as api:
        await take(3, api, sleep=naps, now=a_clock(step=10.0), state=state)
    assert versions(server) == ["5", "6"]
    assert (naps.seconds, state.reconnects, state.last_error) == ([], 0, None)


async def test_a_watch_that_ends_at_once_does_not_make_a_busy_loop(server, naps):
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, *[apiserver.Stream()] * 4, apiserver.Stream(added("a", "6"), HANG))
    async with server.session() as api:
        await take(2, api, sleep=naps, uniform=lambda: 0.0)
    assert naps.seconds == pytest.approx([0.4, 0.8, 1.6, 3.2])


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (apiserver.NOT_SERVED, errors.UnknownResource),
        (apiserver.status(403, "Forbidden", "pods is forbidden"), errors.Forbidden),
        (apiserver.status(401, "Unauthorized"), errors.Unauthorized),
        (apiserver.status(503, "ServiceUnavailable"), errors.ServerError),
    ],
    ids=lambda it: getattr(it, "__name__", ""),
)
async def test_reports_and_retries_a_lasting_failure(server, naps, refusal, kind, caplog):
    server.on("GET", PODS, *[refusal] * 4, apiserver.page("5", pod("a")))
    state, states = watching.WatchState(), []
    with caplog.at_level(logging.DEBUG, logger="apiserver_client.watching"):
        async with server.session() as api:
            await take(2, api, sleep=naps, state=state, on_state=lambda it: states.append(type(it.last_error)))
    assert states == [kind] * 4 + [type(None)]
    assert len(naps.seconds) == 4
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "DEBUG", "DEBUG", "INFO"]
    assert "connected again" in caplog.messages[-1]


async def test_an_answer_of_a_proxy_is_retried_as_a_failure(server, naps):
    refused = True
    server.on("GET", PODS, lambda _: apiserver.Answer(b"<html>") if refused else apiserver.page("5", pod("a")))
    states = []

    def on_state(state):
        nonlocal refused
        states.append(type(state.last_error))
        refused = len(states) < 2

    async with server.session() as api:
        assert await take(2, api, sleep=naps, on_state=on_state) == ["changed a", "synced a"]
    assert states == [errors.DecodeError] * 2 + [type(None)]


async def test_respects_retry_after(server, naps):
    server.on("GET", PODS, apiserver.status(429, "TooManyRequests", retry_after="7"), apiserver.page("5"))
    async with server.session() as api:
        await take(1, api, sleep=naps)
    assert naps.seconds == [7.0]


async def test_a_throttled_watch_resumes_from_its_version(server, naps):
    server.on("GET", PODS, apiserver.page("5"))
    throttled = apiserver.event(
        "ERROR", {"code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 3}}
    )
    server.on("WATCH", PODS, apiserver.Stream(throttled), apiserver.Stream(added("a", "6"), HANG))
    async with server.session() as api:
        await take(2, api, sleep=naps)
    assert naps.seconds == [3.0]
    assert versions(server) == ["5", "5"]


async def test_a_missing_crd_is_named_with_the_fix(server, naps):
    states = []

    def on_state(state):
        states.append(str(state.last_error))
        server.on("GET", resources.NODE_METRICS.path(), apiserver.page("1"))

    async with server.session() as api:
        events = watching.list_then_watch(api, resources.NODE_METRICS, sleep=naps, on_state=on_state)
        assert await anext(events) == watching.Synced(frozenset(), "1")
        await events.aclose()
    assert "does not serve nodemetrics.slo.koordinator.sh: install its CRD" in states[0]


@pytest.mark.parametrize(
    "breaks",
    [
        [apiserver.Answer(EXPIRED, 410)],
        [apiserver.Stream(HANG), apiserver.Stream(HANG)],
        [apiserver.Stream(bookmark("101"), HANG)],
    ],
    ids=["the version is refused", "the apiserver waits for a version that never comes", "a bookmark goes back"],
)
async def test_after_a_restore_of_etcd_a_list_of_an_older_version_replaces_what_is_known(server, naps, breaks):
    restored = apiserver.page("100", pod("b", "90"))
    server.on("GET", PODS, apiserver.page("1000000", pod("a", "999999"), pod("b", "999998")), restored)
    server.on("WATCH", PODS, *breaks, apiserver.Stream(added("c", "101"), HANG))
    async with server.session() as api, asyncio.timeout(20):
        taken = await take(6, api, sleep=naps, silence_timeout_seconds=0.05)
    assert taken == ["changed a", "changed b", "synced a,b", "changed b", "restored b", "changed c"]
    assert versions(server)[-1] == "100"
    assert "resourceVersion" not in server.asked("GET", PODS)[-1].query


@pytest.mark.parametrize(
    "document",
    [{"kind": "Status", "metadata": {}, "status": "Success"}, {"metadata": {}}, {"metadata": {}, "items": []}],
    ids=["status", "no items", "no version"],
)
async def test_an_answer_that_is_no_list_empties_no_consumer(server, naps, document):
    server.on("GET", PODS, apiserver.page("5", pod("a")), apiserver.Answer(document), apiserver.page("9", pod("a")))
    server.on("WATCH", PODS, apiserver.Answer(EXPIRED, 410), apiserver.Stream(added("d", "10"), HANG))
    async with server.session() as api:
        taken = await take(5, api, sleep=naps)
    assert taken == ["changed a", "synced a", "changed a", "synced a", "changed d"]
    assert versions(server) == ["5", "9"]


CALL = errors.Call("GET", "/api/v1/pods", "watch", "pods")


def refused(kind, status=400, retry_after=None):
    return kind(CALL, status, errors.ApiStatus(), retry_after)


def after(error, failures=0):
    return watching.after(error, failures, wait=backoff.Backoff(1.0, 30.0), uniform=lambda: 0.0)


@pytest.mark.parametrize(
    ("error", "first", "second"),
    [
        (errors.Unreachable(), "go on", "go on"),
        (errors.Untrusted(), "go on", "go on"),
        (errors.NoCredentials(), "go on", "go on"),
        (refused(errors.Unauthorized), "go on", "go on"),
        (refused(errors.Forbidden), "go on", "go on"),
        (refused(errors.Throttled), "go on", "go on"),
        (refused(errors.ServerError), "go on", "go on"),
        (errors.WatchTimeout(), "go on", "list"),
        (errors.DecodeError(), "go on", "list"),
        (refused(errors.Gone), "list", "list"),
        (refused(errors.Invalid), "list", "list"),
        (refused(errors.UnknownResource), "list", "list"),
        (refused(errors.StatusError), "list", "list"),
    ],
    ids=lambda it: it if isinstance(it, str) else type(it).__name__,
)
def test_lists_again_only_where_the_failure_affects_the_version(error, first, second):
    assert after(error, failures=0).list_again == (first == "list")
    assert after(error, failures=1).list_again == (second == "list")


def test_waits_grow_with_the_failures_in_a_row():
    assert [after(errors.Unreachable(), failures).seconds for failures in (0, 1, 2, 9)] == [0.5, 1.0, 2.0, 15.0]


@pytest.mark.parametrize(
    ("asked", "failures", "seconds"), [(7.0, 0, 7.0), (0.1, 0, 0.5), (7.0, 9, 15.0), (86400.0, 0, 60.0)]
)
def test_retry_after_lengthens_the_delay_up_to_a_limit(asked, failures, seconds):
    assert after(refused(errors.Throttled, 429, asked), failures).seconds == seconds
