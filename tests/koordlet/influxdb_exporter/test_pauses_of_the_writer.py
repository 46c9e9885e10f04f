"""Pauses after failures of both kinds, the time to join the thread, and a response without Retry-After."""

import threading

import pytest

from koordlet.influxdb_exporter import client, points
from koordlet.influxdb_exporter.writer import Failure, WriteFailed
from koordlet.samples import NODE, SeriesKey, SeriesKind, UsageSample
from tests.fakes import apiserver
from tests.koordlet.influxdb_exporter.test_client import answering, failure_of
from tests.koordlet.influxdb_exporter.test_writer import AWAY, Clock, Scripted, writer

REFUSED = WriteFailed(Failure.REFUSED, "a field of another type")


def test_after_points_that_are_dropped_the_pauses_begin_again():
    _, it = writer(Scripted(AWAY, AWAY, REFUSED, AWAY), ["a", "b", "c"])
    assert [it.turn() for _ in range(4)] == [0.5, 1.0, 0.0, 0.5]


@pytest.mark.parametrize(("passed", "left"), [(1.0, 2.0), (5.0, 0.0)])
def test_the_thread_is_waited_for_as_long_as_it_may_drain(monkeypatch, passed, left):
    clock, waited = Clock(), []
    _, it = writer(Scripted(), ["a"], monotonic=clock)
    monkeypatch.setattr(it._thread, "join", waited.append)
    it.request_drain(3.0)
    clock.now += passed
    it.join()
    assert waited == [left]


async def test_a_busy_server_without_retry_after_asks_for_no_pause(tmp_path):
    (tmp_path / "token").write_text("secret\n")
    async with answering(apiserver.Answer(b"busy", 503)) as server:
        target = client.Target(server.url, "o", "b", f"{tmp_path}/token")
        found = await failure_of(client.InfluxDb(target))
    assert (found.failure, found.retry_after_seconds) == (Failure.OVERLOADED, 0.0)


def test_a_series_without_a_name_hides_none_behind_it():
    means = {SeriesKey(SeriesKind.POD, "unknown"): UsageSample(1.0, 1.0), NODE: UsageSample(2.5, 1024.0)}
    assert points.usage("n1", 1700000000, means, {}) == [
        "koordlet_usage,kind=node,node=n1 cpu_cores=2.5,memory_bytes=1024.0 1700000000"
    ]


def test_without_points_the_thread_waits_until_it_is_woken():
    _, it = writer(Scripted())
    turns, turned = [], threading.Semaphore(0)

    def turn():
        turns.append(1)
        turned.release()

    it.turn = turn
    it.start()
    for _ in range(3):
        assert turned.acquire(timeout=10)
        it.wake()
    assert turned.acquire(timeout=10)
    assert len(turns) == 4
    it.request_drain(10.0)
    it.join()
