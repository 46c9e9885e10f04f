"""What begins a write: an export ends the wait of the thread, and a drain has to be requested."""

import threading

from apiserver_client.backoff import DEFAULT
from koordlet.influxdb_exporter.exporter import InfluxDbExporter
from koordlet.influxdb_exporter.queue import PointQueue
from koordlet.influxdb_exporter.writer import Writer
from koordlet.samples import NODE, UsageSample
from tests.koordlet.influxdb_exporter.test_writer import Scripted, writer


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


def test_a_drain_that_was_not_requested_writes_nothing_however_soon_after_boot():
    destination = Scripted()
    _, it = writer(destination, ["a"], monotonic=lambda: 0.5)
    it.drain()
    assert destination.batches == []
