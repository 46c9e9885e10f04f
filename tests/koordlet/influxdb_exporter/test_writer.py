"""The writer turn by turn with a simulated clock, and its thread against a destination that never answers."""

from __future__ import annotations

import logging
import threading

from hypothesis import given
from hypothesis import strategies as st

from apiserver_client.backoff import DEFAULT, Backoff
from koordlet.influxdb_exporter.exporter import InfluxDbExporter
from koordlet.influxdb_exporter.writer import DropReason, Failure, PointQueue, WriteFailed, Writer
from koordlet.samples import NODE, UsageSample

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


def test_after_a_failure_the_thread_waits_unless_the_agent_ends():
    attempts, another = [], threading.Event()

    class Away:
        def write(self, lines, _timeout_ms):
            attempts.append(list(lines))
            if len(attempts) > 1:
                another.set()
            raise AWAY

    queue, it = writer(Away(), ["a"], backoff=Backoff(1000.0, 1000.0))
    it.start()
    assert not another.wait(0.2)
    it.wake()
    assert len(attempts) <= 1
    it.request_drain(10.0)
    it.join()
    assert attempts == [["a"], ["a"]]
    assert queue.dropped[DropReason.SHUTDOWN] == 1


def test_after_a_write_that_succeeds_the_pauses_begin_again():
    destination = Scripted(AWAY, AWAY)
    _, it = writer(destination, ["a", "b", "c", "d"])
    pauses = [it.turn() for _ in range(3)]
    destination.failures = [AWAY]
    assert [*pauses, it.turn()] == [0.5, 1.0, 0.0, 0.5]


def test_nothing_is_written_once_the_time_to_drain_is_over():
    destination, clock = Scripted(), Clock()
    _, it = writer(destination, ["a"], monotonic=clock)
    it.request_drain(3.0)
    clock.now += 3.0
    it.drain()
    assert destination.batches == []


REFUSED = WriteFailed(Failure.REFUSED, "a field of another type")


def test_an_export_wakes_a_writer_that_found_no_points(monkeypatch):
    taken, written, batches = threading.Semaphore(0), threading.Semaphore(0), []
    take = PointQueue.take

    def take_and_signal(queue, most):
        lines = take(queue, most)
        taken.release()
        return lines

    class Destination:
        def write(self, lines, _timeout_ms):
            batches.append(list(lines))
            written.release()

    monkeypatch.setattr(PointQueue, "take", take_and_signal)
    queue = PointQueue(100)
    it = Writer(queue, Destination(), batch_points=10, timeout_ms=100, backoff=DEFAULT)
    exporter = InfluxDbExporter("n1", queue, it, interval_seconds=10, first_seconds=0.0)
    it.start()
    assert taken.acquire(timeout=10)
    exporter.export(7.0, {NODE: UsageSample(1.0, 2.0)}, {}, None)
    is_written = written.acquire(timeout=5)
    it.request_drain(10.0)
    it.join()
    assert is_written
    assert batches == [["koordlet_usage,kind=node,node=n1 cpu_cores=1.0,memory_bytes=2.0 7"]]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 12)),
        st.tuples(st.just("take"), st.integers(1, 5)),
        st.tuples(st.sampled_from(["done", "put_back", "refused"]), st.none()),
    )
)


def test_points_leave_in_the_order_they_came():
    queue = PointQueue(10)
    queue.add(["a", "b"])
    queue.add(["c"])
    assert list(queue.take(2)) == ["a", "b"]
    queue.done()
    assert list(queue.take(2)) == ["c"]


def test_a_full_queue_drops_the_oldest_and_counts_them():
    queue = PointQueue(3)
    queue.add(["a", "b", "c", "d", "e"])
    assert queue.dropped[DropReason.QUEUE_FULL] == 2
    assert list(queue.take(9)) == ["c", "d", "e"]


def test_points_that_were_not_written_are_the_oldest_again():
    queue = PointQueue(10)
    queue.add(["a", "b", "c"])
    queue.take(2)
    queue.put_back()
    assert list(queue.take(9)) == ["a", "b", "c"]


def test_points_put_back_into_a_full_queue_give_way_to_newer_ones():
    queue = PointQueue(3)
    queue.add(["a", "b", "c"])
    queue.take(2)
    queue.add(["d", "e"])
    queue.put_back()
    assert queue.dropped[DropReason.QUEUE_FULL] == 2
    assert list(queue.take(9)) == ["c", "d", "e"]


def test_what_the_server_never_takes_is_dropped_under_its_own_reason():
    queue = PointQueue(3)
    queue.add(["a", "b", "c"])
    queue.take(2)
    queue.refused()
    assert (queue.dropped[DropReason.REFUSED], queue.depth) == (2, 1)


def test_what_is_left_at_the_end_is_counted_also_when_it_is_on_its_way():
    queue = PointQueue(3)
    queue.add(["a", "b", "c"])
    queue.take(1)
    assert queue.abandon() == 3
    assert (queue.dropped[DropReason.SHUTDOWN], queue.depth) == (3, 0)


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
