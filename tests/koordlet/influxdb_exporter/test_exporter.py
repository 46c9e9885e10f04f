"""When the agent hands something to the sink, and that a prediction is handed over once."""

from apiserver_client.backoff import DEFAULT
from koordlet.influxdb_exporter.exporter import HistoryRecorder
from koordlet.influxdb_exporter.queue import PointQueue
from koordlet.influxdb_exporter.writer import Writer
from koordlet.samples import NODE, UsageSample
from tests.koordlet.influxdb_exporter.test_points import PREDICTION


class Nowhere:
    def write(self, lines, timeout_ms):
        raise AssertionError("no thread was started")


def recorder(**changes):
    queue = PointQueue(100)
    writer = Writer(queue, Nowhere(), batch_points=10, timeout_ms=100, backoff=DEFAULT)
    return HistoryRecorder("n1", queue, writer, **({"interval_seconds": 10, "first_seconds": 5.0} | changes))


def queued(it):
    lines = list(it.queue.take(100))
    it.queue.put_back()
    return lines


def test_it_is_due_once_an_interval():
    it = recorder()
    assert [second for second in range(40) if it.is_due(float(second))] == [5, 15, 25, 35]


def test_after_a_standstill_it_does_not_catch_up():
    it = recorder()
    assert it.is_due(5.0)
    assert it.is_due(1000.0)
    assert [second for second in range(1001, 1021) if it.is_due(float(second))] == [1005, 1015]


def test_means_become_points_of_whole_seconds():
    it = recorder()
    it.record(1700000000.9, {NODE: UsageSample(1.0, 2.0)}, {}, None)
    assert queued(it) == ["koordlet_usage,kind=node,node=n1 cpu_cores=1.0,memory_bytes=2.0 1700000000"]


def test_a_prediction_is_recorded_once():
    it = recorder()
    for second in range(3):
        it.record(1700000000.0 + second, {}, {}, PREDICTION)
    assert [line.split(",")[0] for line in queued(it)] == ["koordlet_prod_prediction", "koordlet_node_prediction"]
