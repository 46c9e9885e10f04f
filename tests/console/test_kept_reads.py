"""Reads that are kept and forgotten, the pause between two snapshots, and the history of the fleet."""

import asyncio
import types
import urllib.parse

import pytest

from apiserver_client import connection
from console.cluster import poller as poller_module
from console.cluster.poller import Poller
from console.history import prometheus
from console.history.memory import History
from console.history.prometheus import CpuHistory
from fleet.node_state import Amounts, NodeState
from tests.console.test_poller import NODES, first, polling
from tests.console.test_prometheus import answering, http, result
from tests.fakes import apiserver

pytestmark = pytest.mark.slow

DAY = 24 * 60
FAILURE = apiserver.Answer({"kind": "Status", "reason": "InternalError", "message": "no leader", "code": 500}, 500)


# history


def test_the_fleet_has_a_value_a_minute_for_two_hours_then_one_in_five():
    history = History()
    for minute in range(2 * DAY):
        history.record(minute * 60 + 59, [NodeState("a", used=Amounts(minute * 1_000))])
    points = history.fleet_points("cpu")
    newest = 2 * DAY - 1
    minutes = [newest - number for number in range(119, -1, -1)]
    assert [(point.time_seconds, point.values[0]) for point in points[-120:]] == [(60 * at, at) for at in minutes]
    older = points[:-120]
    # 288 steps of five minutes are a day; those of the last two hours are shown by the minute
    assert [point.time_seconds for point in older] == [300 * step for step in range(288, 288 * 2 - 24)]
    assert [point.values[0] for point in older] == [5 * step + 4 for step in range(288, 288 * 2 - 24)]


def test_five_minutes_that_are_shown_by_the_minute_are_not_shown_twice():
    history = History()
    for minute in range(7, 130):
        history.record(minute * 60, [NodeState("a", used=Amounts(1_000))])
    for points in (history.fleet_points("cpu"), history.node_points("a", "cpu")):
        assert [point.time_seconds for point in points] == [300, *(60 * minute for minute in range(10, 130))]


def test_the_fleet_is_more_exact_than_a_node():
    history = History()
    history.record(0, [NodeState("a", used=Amounts(4_097_123))])
    assert history.fleet_points("cpu")[0].values[0] == 4097.123
    assert history.node_points("a", "cpu")[0].values[0] == pytest.approx(4097, rel=1e-3)


# Prometheus


async def test_of_the_kept_charts_those_that_were_read_last_stay(monkeypatch):
    monkeypatch.setattr(prometheus, "_MOST_KEPT", 2)
    async with answering(http(result())) as (url, asked):
        reader = CpuHistory(url)

        async def reads(node):
            before = len(asked)
            await reader.cpu(node)
            return (len(asked) - before) // len(prometheus.SERIES)

        assert [await reads(node) for node in ("a", "b", "a")] == [1, 1, 0]
        monkeypatch.setattr(prometheus, "_KEEP_SECONDS", -1.0)
        assert await reads("a") == 1
        monkeypatch.setattr(prometheus, "_KEEP_SECONDS", 60.0)
        assert [await reads(node) for node in ("c", "a", "c", "b")] == [1, 0, 0, 1]


async def test_two_reads_of_prometheus_run_at_once_and_the_others_wait(monkeypatch):
    monkeypatch.setattr(prometheus, "_PAGE_SECONDS", 0.3)
    async with answering(then_close=False) as (url, asked):
        reader = CpuHistory(url)
        found = await asyncio.gather(*(reader.cpu(f"n{number}") for number in range(5)))
        while len(asked) < 2:
            await asyncio.sleep(0.01)
    assert all("takes longer than" in each["prometheus_problem"] for each in found)
    assert len(asked) == 2


async def test_a_query_asks_for_a_day_in_steps_of_15_minutes(monkeypatch):
    now = 1_764_360_900 - 1  # a second before a whole step
    clocks = types.SimpleNamespace(time=lambda: float(now), monotonic=lambda: 0.0)
    monkeypatch.setattr(prometheus, "time", clocks)
    async with answering(http(result())) as (url, asked):
        await CpuHistory(url).cpu()
    for request in asked:
        query = urllib.parse.parse_qs(request.rpartition("\r\n\r\n")[2])
        end = now - 899
        assert [query[name] for name in ("start", "end", "step")] == [[str(end - 86_400)], [str(end)], ["900"]]
    assert len(asked) == 5


async def test_prometheus_is_read_without_a_proxy_of_the_environment(monkeypatch, closed_port):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with answering(http(result())) as (url, _):
        assert await CpuHistory(url).cpu() == {"prometheus_points": []}


@pytest.mark.parametrize(("length", "is_read"), [(2**18, True), (2**18 + 1, False)])
async def test_an_answer_of_prometheus_has_at_most_256_kib(length, is_read):
    async with answering(http(result().ljust(length))) as (url, _):
        found = await CpuHistory(url).cpu()
    assert ("prometheus_points" in found) is is_read


# poller


async def test_a_quick_read_is_followed_by_the_pause_of_the_interval():
    async with polling(interval_seconds=1_000.0) as (_, poller):
        await first(poller)
        seen = poller.newest()
    assert 0 < seen.read_seconds < 60
    pause = max(1_000.0, 9 * seen.read_seconds)
    assert seen.late_after_seconds == pytest.approx(3 * (pause + seen.read_seconds))


async def test_a_long_read_is_followed_by_a_pause_of_nine_times_its_length():
    async with polling(interval_seconds=0.0) as (_, poller):
        await first(poller)
        seen = poller.view
    assert seen.late_after_seconds == pytest.approx(3 * 10 * seen.read_seconds)


@pytest.mark.parametrize(
    ("headers", "pause"), [((), 30.0), ((("Retry-After", "7"),), 30.0), ((("Retry-After", "45"),), 45.0)]
)
async def test_a_failure_is_followed_by_the_interval_or_by_what_the_apiserver_asks_for(headers, pause):
    async with apiserver.running() as server, server.session() as api:
        server.on("GET", NODES, apiserver.Answer(FAILURE.document, FAILURE.status, headers))
        poller = Poller(connection.Connection(server=server.url, origin="a test"), "suite", interval_seconds=30.0)
        poller._loop.close()
        assert await poller._read(api) == pause


@pytest.mark.parametrize(("nodes", "error"), [((), ""), ((FAILURE,), "no leader")])
async def test_those_who_wait_for_the_first_attempt_continue_whatever_its_result(nodes, error):
    async with polling(*nodes, interval_seconds=1_000.0) as (_, poller):
        assert await asyncio.to_thread(poller.first.wait, 20)
        assert error in poller.view.error
        assert (poller.view.snapshot is None) is bool(error)


@pytest.mark.parametrize(("takes", "kept"), [(0.5, 10.0), (2.0, 18.0)])
async def test_what_one_page_shows_is_kept_for_ten_seconds_or_nine_times_its_read(monkeypatch, takes, kept):
    seconds, reads = [1e6], []
    monkeypatch.setattr(poller_module, "time", types.SimpleNamespace(monotonic=lambda: seconds[0]))

    async def read(_api):
        seconds[0] += takes
        reads.append(1)
        return len(reads)

    async with polling(interval_seconds=1_000.0) as (_, poller):
        assert await poller.detail(("x",), read) == 1
        seconds[0] += kept - 0.25
        assert await poller.detail(("x",), read) == 1
        seconds[0] += 0.5
        assert await poller.detail(("x",), read) == 2
