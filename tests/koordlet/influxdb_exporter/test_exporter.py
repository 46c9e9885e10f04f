"""Times of exports, exports of a prediction, and the cost of a disabled exporter."""

import subprocess
import sys
import types

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from apiserver_client.backoff import DEFAULT
from koordlet.influxdb_exporter import exporter
from koordlet.influxdb_exporter.exporter import InfluxDbExporter
from koordlet.influxdb_exporter.queue import PointQueue
from koordlet.influxdb_exporter.writer import Writer
from koordlet.metrics import agent as metrics
from koordlet.samples import NODE, UsageSample
from koordlet.settings import KoordletSettings
from tests.koordlet.influxdb_exporter.test_points import PREDICTION

AGENT_WITHOUT = """
import sys
from koordlet import agent
from koordlet.influxdb_exporter import exporter
from koordlet.settings import KoordletSettings
assert exporter.start(KoordletSettings(node_name="n")) is None
print(sorted(name for name in sys.modules if name.split(".")[0] in ("influxdb_client", "urllib3", "reactivex")))
"""


class Nowhere:
    def write(self, lines, timeout_ms):
        raise AssertionError("no thread was started")


def not_started(**changes):
    queue = PointQueue(100)
    writer = Writer(queue, Nowhere(), batch_points=10, timeout_ms=100, backoff=DEFAULT)
    return InfluxDbExporter("n1", queue, writer, **({"interval_seconds": 10, "first_seconds": 5.0} | changes))


def queued(subject):
    lines = list(subject.queue.take(100))
    subject.queue.put_back()
    return lines


def test_an_export_is_due_once_an_interval():
    subject = not_started()
    assert [second for second in range(40) if subject.is_due(float(second))] == [5, 15, 25, 35]


def test_missed_intervals_are_skipped():
    subject = not_started()
    assert subject.is_due(5.0)
    assert subject.is_due(1000.0)
    assert [second for second in range(1001, 1021) if subject.is_due(float(second))] == [1005, 1015]


def test_means_become_points_of_whole_seconds():
    subject = not_started()
    subject.export(1700000000.9, {NODE: UsageSample(1.0, 2.0)}, {}, None)
    assert queued(subject) == ["koordlet_usage,kind=node,node=n1 cpu_cores=1.0,memory_bytes=2.0 1700000000"]


def test_a_prediction_is_exported_once():
    subject = not_started()
    for second in range(3):
        subject.export(1700000000.0 + second, {}, {}, PREDICTION)
    assert [line.split(",")[0] for line in queued(subject)] == ["koordlet_prod_prediction", "koordlet_node_prediction"]


def test_without_an_address_there_is_no_exporter_and_its_library_is_not_loaded():
    ended = subprocess.run([sys.executable, "-c", AGENT_WITHOUT], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_every_metric_has_help_and_is_zero_at_the_start(tmp_path):
    chosen = KoordletSettings(
        node_name="n",
        influxdb_url="http://127.0.0.1:1",
        influxdb_org="o",
        influxdb_bucket="b",
        influxdb_token_file=str(tmp_path / "token"),
    )
    started = exporter.start(chosen)
    registry = CollectorRegistry()
    registry.register(metrics.ExporterCollector(started))
    lines = generate_latest(registry).decode().splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert "koordlet_influxdb_queued_points 0.0" in samples
    assert "koordlet_influxdb_written_points_total 0.0" in samples
    assert 'koordlet_influxdb_dropped_points_total{reason="queue_full"} 0.0' in samples
    assert 'koordlet_influxdb_write_failures_total{kind="unauthorized"} 0.0' in samples
    assert all(line.endswith(" 0.0") for line in samples)
    assert len([line for line in lines if line.startswith("# HELP koordlet_influxdb_")]) == 4
    started.writer.request_drain(10.0)
    started.writer.join()


@pytest.mark.parametrize(("share", "first_seconds"), [(0.0, 1000), (0.25, 1005), (0.75, 1015)])
def test_the_first_export_is_within_one_interval_at_a_random_time(tmp_path, monkeypatch, share, first_seconds):
    chosen = KoordletSettings(
        node_name="n",
        influxdb_url="http://127.0.0.1:1",
        influxdb_interval_seconds=20,
        influxdb_org="o",
        influxdb_bucket="b",
        influxdb_token_file=str(tmp_path / "token"),
    )
    monkeypatch.setattr(exporter, "random", types.SimpleNamespace(random=lambda: share))
    monkeypatch.setattr(exporter, "time", types.SimpleNamespace(monotonic=lambda: 1000.0))
    started = exporter.start(chosen)
    started.writer.request_drain(10.0)
    started.writer.join()
    due = [second for second in range(1000, 1040) if started.is_due(float(second))]
    assert due == [first_seconds, first_seconds + 20]
