"""The writer turn by turn with a simulated clock, and its thread against a destination that never answers."""

from __future__ import annotations

import logging
import threading

from hypothesis import given
from hypothesis import strategies as st

from apiserver_client.backoff import Backoff
from koordlet.influxdb_exporter.writer import DropReason, Failure, PointQueue, WriteFailed, Writer

AWAY = WriteFailed(Failure.UNREACHABLE, "http://influx cannot be reached")


class Scripted:
    """A destination that stores points, after it has failed a given number of times."""

    def __init__(self, *failures):
        self.failures = list(failures)
        self.batches, self.timeouts = [], []

    def write(self, lines, timeout_ms):
        self.timeouts.append(timeout_ms)
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append(list(lines))


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def writer(destination, lines=(), capacity=100, **changes):
    queue = PointQueue(capacity)
    queue.add(lines)
    options = {"batch_points": 2, "timeout_ms": 5000, "backoff": Backoff(1.0, 60.0), "uniform": lambda: 0.0}
    return queue, Writer(queue, destination, **(options | changes))


def test_points_go_out_in_batches_until_none_is_left():
    destination = Scripted()
    queue, it = writer(destination, ["a", "b", "c"])
    assert [it.turn(), it.turn(), it.turn()] == [0.0, None, None]
    assert destination.batches == [["a", "b"], ["c"]]
    assert (queue.written, queue.depth) == (3, 0)
    assert it.last_success_seconds is not None


def test_an_outage_is_waited_out_longer_each_time_and_loses_nothing_that_fits():
    destination = Scripted(AWAY, AWAY, AWAY)
    queue, it = writer(destination, ["a", "b"])
    assert [it.turn(), it.turn(), it.turn()] == [0.5, 1.0, 2.0]  # half of 1, 2, 4 s is fixed, the rest is random
    assert it.turn() is None
    assert destination.batches == [["a", "b"]]
    assert it.failures[Failure.UNREACHABLE] == 3
    assert sum(queue.dropped.values()) == 0


def test_after_an_outage_longer_than_the_queue_the_newest_points_are_written():
    destination = Scripted(*[AWAY] * 5)
    queue, it = writer(destination, capacity=3)
    for number in range(5):
        queue.add([f"{number}"])
        it.turn()
    while it.turn() is not None:
        pass
    assert destination.batches == [["2", "3"], ["4"]]
    assert queue.dropped[DropReason.QUEUE_FULL] == 2


def test_retry_after_is_respected_up_to_five_minutes():
    busy = [WriteFailed(Failure.OVERLOADED, "busy", seconds) for seconds in (7.0, 1e9)]
    _, it = writer(Scripted(*busy), ["a"])
    assert [it.turn(), it.turn()] == [7.0, 300.0]


def test_points_that_can_never_be_written_are_dropped_and_the_next_are_tried_at_once():
    destination = Scripted(WriteFailed(Failure.REFUSED, "a field of another type"))
    queue, it = writer(destination, ["bad", "bad", "good"])
    assert it.turn() == 0.0
    assert it.turn() is None
    assert destination.batches == [["good"]]
    assert queue.dropped[DropReason.REFUSED] == 2


def test_a_change_is_logged_once_however_long_it_lasts(caplog):
    caplog.set_level(logging.INFO, "koordlet.influxdb_exporter.writer")
    no_token = WriteFailed(Failure.UNAUTHORIZED, "no token")
    queue, it = writer(Scripted(AWAY, AWAY, AWAY, no_token, no_token), ["a"])
    for _ in range(7):
        it.turn()
        queue.add(["b"])
    assert [record.getMessage() for record in caplog.records] == [
        "InfluxDB exporter: http://influx cannot be reached",
        "InfluxDB exporter: no token",
        "InfluxDB exporter: writing again, 4 points queued, 0 dropped since the start",
    ]


def test_the_drain_writes_what_is_left_with_the_time_that_is_left():
    destination, clock = Scripted(), Clock()
    queue, it = writer(destination, ["a", "b", "c"], monotonic=clock)
    it.request_drain(3.0)
    clock.now += 1.0
    it.drain()
    assert destination.batches == [["a", "b"], ["c"]]
    assert destination.timeouts == [2000, 2000]
    assert queue.depth == 0


def test_the_drain_ends_with_its_first_failure():
    destination, clock = Scripted(AWAY), Clock()
    queue, it = writer(destination, ["a", "b", "c"], monotonic=clock)
    it.request_drain(3.0)
    it.drain()
    assert (destination.batches, queue.depth) == ([], 3)


def test_the_drain_ends_with_its_time():
    clock = Clock()

    class Slow(Scripted):
        def write(self, lines, timeout_ms):
            super().write(lines, timeout_ms)
            clock.now += 2.0

    destination = Slow()
    queue, it = writer(destination, list("abcdefgh"), monotonic=clock)
    it.request_drain(3.0)
    it.drain()
    assert destination.batches == [["a", "b"], ["c", "d"]]
    assert queue.depth == 4


def test_the_thread_writes_when_woken_and_drains_at_the_end():
    written = threading.Semaphore(0)

    class Signalling(Scripted):
        def write(self, lines, timeout_ms):
            super().write(lines, timeout_ms)
            written.release()

    destination = Signalling()
    queue, it = writer(destination)
    it.start()
    queue.add(["a"])
    it.wake()
    assert written.acquire(timeout=10)
    queue.add(["b"])
    it.request_drain(10.0)
    it.join()
    assert destination.batches == [["a"], ["b"]]
    assert queue.added == queue.written == 2


def test_a_destination_that_never_answers_keeps_neither_adding_nor_the_end_waiting(caplog):
    asked, release = threading.Event(), threading.Event()

    class Hanging:
        def write(self, _lines, _timeout_ms):
            asked.set()
            release.wait(30)

    queue, it = writer(Hanging(), capacity=5)
    it.start()
    queue.add(["a"])
    it.wake()
    assert asked.wait(10)
    queue.add([str(number) for number in range(1000)])  # on this thread: returns, or the test times out
    it.wake()
    assert queue.depth == 6
    it.request_drain(0.01)
    it.join()
    assert queue.dropped == {DropReason.QUEUE_FULL: 995, DropReason.REFUSED: 0, DropReason.SHUTDOWN: 6}
    assert "ended with 6 points not written" in caplog.text
    release.set()


REFUSED = WriteFailed(Failure.REFUSED, "a field of another type")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 12)),
        st.tuples(st.just("take"), st.integers(1, 5)),
        st.tuples(st.sampled_from(["done", "put_back", "refused"]), st.none()),
    )
)


@given(st.integers(1, 8), STEPS)
def test_whatever_happens_every_point_is_accounted_for_and_memory_is_bounded(capacity, steps):
    queue = PointQueue(capacity)
    under_way = 0
    for verb, number in steps:
        if verb == "add":
            queue.add(["x"] * number)
        elif verb == "take" and not under_way:
            under_way = len(queue.take(number))
        elif verb in {"done", "put_back", "refused"}:
            getattr(queue, verb)()
            under_way = 0
        assert queue.added == queue.written + sum(queue.dropped.values()) + queue.depth
        assert queue.depth <= capacity + under_way
