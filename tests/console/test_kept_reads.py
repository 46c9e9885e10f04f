"""Reads that are kept and forgotten, the pause between two snapshots, and the history of the fleet."""

import asyncio
import types
import urllib.parse

import pytest

from apiserver_client import connection
from console.cluster import poller as poller_module
from console.cluster.poller import Poller
from console.history import prometheus
from console.history.prometheus import CpuHistory
from tests.console.test_poller import NODES, first, polling
from tests.console.test_prometheus import answering, http, result
from tests.fakes import apiserver

pytestmark = pytest.mark.slow

FAILURE = apiserver.Answer({"kind": "Status", "reason": "InternalError", "message": "no leader", "code": 500}, 500)


# history


# Prometheus


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
