"""Failures that a watch survives: expired versions, broken and silent connections, refusals, without loss of events."""

import logging

import msgspec
import pytest

from apiserver_client import errors, objects, resources, watching
from tests.apiserver_client.test_watching import PODS, bookmark, pod, take
from tests.fakes import apiserver

HANG, ABORT = apiserver.HANG, apiserver.ABORT
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
    assert taken == ["synced ", "changed a", "synced a"]
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


async def test_failures_with_events_between_them_do_not_add_up(server, naps):
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, *[apiserver.Stream(added("a", str(version)), ABORT) for version in range(6, 10)])
    async with server.session() as api:
        await take(5, api, sleep=naps, uniform=lambda: 0.0)
    assert naps.seconds == pytest.approx([0.4] * 3)


async def test_a_watch_that_worked_for_long_restarts_with_short_delays(server, naps):
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, *[apiserver.Stream(ABORT)] * 4, apiserver.Stream(added("a", "6"), HANG))
    async with server.session() as api:
        await take(2, api, sleep=naps, uniform=lambda: 0.0, now=a_clock(step=50.0))
    assert naps.seconds == pytest.approx([0.4] * 4)


@pytest.mark.parametrize(("step", "waits"), [(0.5, []), (0.375, [0.4])])
async def test_a_watch_that_ends_within_a_second_is_a_failure(server, naps, step, waits):
    """The clock is read at the begin of a watch, once it is connected, and at its end."""
    server.on("GET", PODS, apiserver.page("5"))
    server.on("WATCH", PODS, apiserver.Stream(), apiserver.Stream(added("a", "6"), HANG))
    async with server.session() as api:
        await take(2, api, sleep=naps, uniform=lambda: 0.0, now=a_clock(step=step))
    assert naps.seconds == waits


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


async def test_another_kind_of_failure_is_a_warning_again(server, naps, caplog):
    away, refused = apiserver.status(503, "ServiceUnavailable"), apiserver.status(403, "Forbidden")
    server.on("GET", PODS, away, away, away, refused, refused, apiserver.page("5"))
    with caplog.at_level(logging.DEBUG, logger="apiserver_client.watching"):
        async with server.session() as api:
            await take(1, api, sleep=naps)
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO", "WARNING", "DEBUG", "WARNING", "DEBUG", "INFO"]


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


async def test_an_error_in_a_watch_without_a_code_is_of_no_known_kind(server, naps):
    """`code` of a metav1.Status is 0 if it is not set."""
    server.on("GET", PODS, apiserver.page("5"))
    failed = apiserver.Stream(apiserver.event("ERROR", {"kind": "Status", "message": "storage is away"}))
    server.on("WATCH", PODS, failed, apiserver.Stream(added("a", "6"), HANG))
    seen = []
    async with server.session() as api:
        await take(3, api, sleep=naps, on_state=lambda it: seen.append(it.last_error))
    (error,) = filter(None, seen)
    assert (type(error), error.status, error.server_message) == (errors.StatusError, 0, "storage is away")


async def test_waits_for_an_apiserver_that_is_away(naps):
    async with apiserver.running() as server:
        pass
    states = []

    async def sleep(seconds):
        await naps(seconds)
        if len(naps.seconds) == 3:
            raise InterruptedError("enough")

    async with server.session() as api:
        with pytest.raises(InterruptedError):
            await take(1, api, sleep=sleep, uniform=lambda: 0.0, on_state=lambda it: states.append(it.last_error))
    assert naps.seconds == pytest.approx([0.4, 0.8, 1.6])
    assert all(isinstance(error, errors.Unreachable) and server.url in str(error) for error in states)


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
        [apiserver.Stream(added("a", "1000001"), bookmark("101"), HANG)],
    ],
    ids=["the version is refused", "the apiserver waits for a version that never comes", "a bookmark goes back"],
)
async def test_after_a_restore_of_etcd_a_list_of_an_older_version_replaces_what_is_known(server, naps, breaks):
    restored = apiserver.page("100", pod("b", "90"))
    server.on("GET", PODS, apiserver.page("1000000", pod("a", "999999"), pod("b", "999998")), restored)
    server.on("WATCH", PODS, *breaks, apiserver.Stream(added("c", "101"), apiserver.event("ERROR", EXPIRED)))
    async with server.session() as api:
        taken = await take(9 - len(breaks) % 2, api, sleep=naps, silence_timeout_seconds=0.05)
    assert [it for it in taken if it != "changed a"][:5] == [
        *("changed b", "synced a,b", "changed b", "restored b", "changed c"),
    ]
    assert [it for it in taken if it.startswith("restored")] == ["restored b"], "once"
    assert versions(server)[-1] == "100"
    assert "resourceVersion" not in server.asked("GET", PODS)[-1].query


async def test_only_the_first_list_comes_from_the_cache_of_the_apiserver(server, naps):
    server.on("GET", PODS, apiserver.page("5", pod("a")), apiserver.page("9"))
    server.on("WATCH", PODS, apiserver.Answer(EXPIRED, 410), apiserver.Stream(HANG))
    async with server.session() as api:
        assert await take(3, api, sleep=naps, first_list_from_cache=True) == ["changed a", "synced a", "synced "]
    assert [request.query.get("resourceVersion") for request in server.asked("GET", PODS)] == ["0", None]


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
