"""Pauses, ends and waits of the writer, and what a failed write carries."""

from __future__ import annotations

import threading

import pytest

from koordlet.influxdb_exporter import client
from koordlet.influxdb_exporter.queue import DropReason
from koordlet.influxdb_exporter.writer import Failure, WriteFailed
from tests.fakes import apiserver
from tests.koordlet.influxdb_exporter.test_client import TOKEN, answering, failure_of
from tests.koordlet.influxdb_exporter.test_writer import AWAY, Clock, Scripted, writer


def test_a_failure_carries_its_text_and_no_wait_unless_the_server_asks_for_one():
    assert str(AWAY) == "http://influx cannot be reached"
    assert AWAY.retry_after_seconds == 0
    assert WriteFailed(Failure.OVERLOADED, "busy", 7.0).retry_after_seconds == 7


def test_after_a_write_that_succeeds_the_pauses_begin_again():
    destination = Scripted(AWAY, AWAY)
    _, it = writer(destination, ["a", "b", "c", "d"])
    pauses = [it.turn() for _ in range(3)]
    destination.failures = [AWAY]
    assert [*pauses, it.turn()] == [0.5, 1.0, 0.0, 0.5]


def test_a_pause_is_no_shorter_than_that_of_the_backoff():
    _, it = writer(Scripted(WriteFailed(Failure.OVERLOADED, "busy", 0.25)), ["a"])
    assert it.turn() == 0.5


def test_the_thread_keeps_no_process_alive():
    before = set(threading.enumerate())
    _, it = writer(Scripted())
    it.start()
    (thread,) = set(threading.enumerate()) - before
    assert (thread.name, thread.daemon) == ("influxdb-writer", True)
    it.request_drain(10.0)
    it.join()
    assert not thread.is_alive()


def test_nothing_is_drained_and_nothing_waited_for_before_it_is_requested():
    destination = Scripted()
    queue, it = writer(destination, ["a"])
    it.drain()
    assert destination.batches == []
    it.join()  # of a thread that was not started
    assert (queue.depth, queue.dropped[DropReason.SHUTDOWN]) == (0, 1)


def test_nothing_is_written_once_the_time_to_drain_is_over():
    destination, clock = Scripted(), Clock()
    _, it = writer(destination, ["a"], monotonic=clock)
    it.request_drain(3.0)
    clock.now += 3.0
    it.drain()
    assert destination.batches == []


@pytest.mark.parametrize(("left_seconds", "timeout_ms"), [(6.0, 5000), (5.0, 5000), (2.5, 2500), (0.0004, 1)])
def test_a_write_of_the_drain_may_take_what_is_left_and_no_more_than_usual(left_seconds, timeout_ms):
    destination = Scripted()
    _, it = writer(destination, ["a"], monotonic=Clock())
    it.request_drain(left_seconds)
    it.drain()
    assert destination.timeouts == [timeout_ms]


async def test_a_date_in_retry_after_asks_for_no_wait(tmp_path):
    headers = (("Retry-After", "Sat, 28 Nov 2026 12:00:00 GMT"),)
    (tmp_path / "token").write_text(TOKEN)
    async with answering(apiserver.Answer({}, 503, headers)) as server:
        destination = client.InfluxDb(client.Target(server.url, "o", "b", str(tmp_path / "token")))
        assert (await failure_of(destination)).retry_after_seconds == 0
