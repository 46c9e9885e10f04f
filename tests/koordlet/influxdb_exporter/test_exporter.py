"""Times of exports, exports of a prediction, and the cost of a disabled exporter."""

import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from api_types.kubernetes.priority_and_qos import PriorityClass
from apiserver_client.backoff import DEFAULT
from koordlet.cluster.pods import describe
from koordlet.influxdb_exporter import exporter
from koordlet.influxdb_exporter.exporter import InfluxDbExporter
from koordlet.influxdb_exporter.writer import PointQueue, Writer
from koordlet.metrics import agent as metrics
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.evaluation import Record, Scores
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NodePeak, Peak
from koordlet.prediction.server import Prediction
from koordlet.samples import NODE, SYSTEM, Resource, SeriesKey, SeriesKind, UsageSample
from koordlet.settings import KoordletSettings
from tests.koordlet.cluster.test_pods import pod

AGENT_WITHOUT = """
import sys
from koordlet import agent
from koordlet.influxdb_exporter import exporter
from koordlet.settings import KoordletSettings
assert exporter.start(KoordletSettings(node_name="n")) is None
print(sorted(name for name in sys.modules if name.split(".")[0] in ("influxdb_client", "lightkube", "httpx2")))
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


@pytest.mark.slow
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


REFERENCE = Path(__file__).parents[3] / "docs/how-to/influxdb.md"
AT = 1700000000
EVALUATED = {"max": Record(3600.0, {}, {Resource.CPU: Scores(4.0, 1.0, 0.5, 2.0, 8.0)})}
PREDICTION = Prediction(
    parameters=PredictParameters(),
    since_seconds=0.0,
    warm_pods=3,
    cold_pods=1,
    node={Resource.CPU: NodePeak(1.0, 0.25, 2.5), Resource.MEMORY: NodePeak(100.0, 10.0, 150.0)},
    prod={Resource.CPU: Peak(1.25, 0.0), Resource.MEMORY: Peak(64.0, 0.0)},
    prod_peak=WholeAmounts(1250, 64),
    prod_allocated=WholeAmounts(4000, 256),
    prod_reclaimable=WholeAmounts(2750, 192),
)


def by_uid(**changes):
    described = describe(pod(name="web-0", uid="u-1", **changes))
    return {described.uid: described}


def test_node_system_and_classes_are_kinds_of_one_measurement():
    means = {
        NODE: UsageSample(2.5, 1024.0),
        SYSTEM: UsageSample(0.5, 24.0),
        SeriesKey(SeriesKind.CLASS, PriorityClass.PROD): UsageSample(2.0, 1000.0),
        SeriesKey(SeriesKind.CLASS, PriorityClass.MID): UsageSample(0.0, 0.0),
    }
    assert exporter.usage("n1", AT, means, {}) == [
        "koordlet_usage,kind=node,node=n1 cpu_cores=2.5,memory_bytes=1024.0 1700000000",
        "koordlet_usage,kind=system,node=n1 cpu_cores=0.5,memory_bytes=24.0 1700000000",
        "koordlet_usage,kind=prod,node=n1 cpu_cores=2.0,memory_bytes=1000.0 1700000000",
        "koordlet_usage,kind=mid,node=n1 cpu_cores=0.0,memory_bytes=0.0 1700000000",
    ]


def test_a_pod_has_namespace_name_and_class():
    means = {SeriesKey(SeriesKind.POD, "u-1"): UsageSample(0.25, 512.0)}
    assert exporter.usage("n1", AT, means, by_uid(priority=7100)) == [
        "koordlet_pod_usage,kind=mid,namespace=ns,node=n1,pod=web-0 cpu_cores=0.25,memory_bytes=512.0 1700000000"
    ]


def test_a_pod_without_a_class_counts_as_prod_as_everywhere():
    means = {SeriesKey(SeriesKind.POD, "u-1"): UsageSample(0.25, 512.0)}
    assert "kind=prod," in exporter.usage("n1", AT, means, by_uid())[0]


def test_a_prediction_is_written_in_cores_and_bytes():
    prod, node = exporter.predicted("n1", AT, PREDICTION)
    assert prod == (
        "koordlet_prod_prediction,node=n1,predictor=n-sigma-v2 "
        "peak_cpu_cores=1.25,peak_memory_bytes=64.0,allocated_cpu_cores=4.0,allocated_memory_bytes=256.0,"
        "reclaimable_cpu_cores=2.75,reclaimable_memory_bytes=192.0,warm_pods=3.0,cold_pods=1.0 1700000000"
    )
    assert node == (
        "koordlet_node_prediction,node=n1 mean_cpu_cores=1.0,mean_memory_bytes=100.0,"
        "stdev_cpu_cores=0.25,stdev_memory_bytes=10.0,peak_cpu_cores=2.5,peak_memory_bytes=150.0 1700000000"
    )


def test_the_scores_of_each_predictor_are_written():
    assert exporter.evaluation("n1", AT, EVALUATED) == [
        (
            "koordlet_evaluation,node=n1,predictor=max,resource=cpu forecasts=4.0,violations_ratio=0.25,"
            "severity_ratio=0.5,savings_ratio=0.75 1700000000"
        )
    ]


def test_without_a_violation_there_is_no_severity():
    records = {"max": Record(3600.0, {}, {Resource.CPU: Scores(4.0, 0.0, 0.0, 2.0, 8.0)})}
    (line,) = exporter.evaluation("n1", AT, records)
    assert "severity" not in line


@pytest.mark.parametrize(
    "line",
    [
        *exporter.usage(
            "n", AT, {NODE: UsageSample(1, 1), SeriesKey(SeriesKind.POD, "u-1"): UsageSample(1, 1)}, by_uid()
        ),
        *exporter.predicted("n", AT, PREDICTION),
        *exporter.evaluation("n", AT, EVALUATED),
    ],
    ids=lambda line: line.partition(",")[0],
)
def test_every_measurement_tag_and_field_is_in_the_reference(line):
    key, fields, _ = line.split(" ")
    measurement, *tags = key.split(",")
    rows = re.findall(rf"^\| `{measurement}` \| (.+) \| (.+) \| .+ \|$", REFERENCE.read_text(), re.MULTILINE)
    assert len(rows) == 1, f"one row about {measurement}"
    listed_tags, listed_fields = (re.findall(r"`([a-z_]+)`", cell) for cell in rows[0])
    assert [tag.partition("=")[0] for tag in tags] == listed_tags
    assert [field.partition("=")[0] for field in fields.split(",")] == listed_fields


PARTS = re.compile(r"(?:\\.|[^\\ ])+")
TAG = re.compile(r"((?:\\.|[^\\=])+)=((?:\\.|[^\\])+)")
ESCAPE = re.compile(r"\\([,= ])")
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\\\n"), min_size=1)


def parsed(line):
    """Return (measurement, tags, fields, time), split at unescaped spaces and commas."""
    key, fields, at = PARTS.findall(line)
    measurement, *tags = re.findall(r"(?:\\.|[^\\,])+", key)
    pairs = [TAG.fullmatch(tag).groups() for tag in tags]
    return (
        ESCAPE.sub(r"\1", measurement),
        {ESCAPE.sub(r"\1", name): ESCAPE.sub(r"\1", value) for name, value in pairs},
        {name: float(value) for name, _, value in (field.partition("=") for field in fields.split(","))},
        int(at),
    )


@given(NAMES, NAMES, st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 1 << 33))
def test_any_name_and_number_is_read_back_as_written(measurement, tag, number, at):
    written = exporter.line(measurement, {"tag": tag}, {"f": number}, at)
    if "=" in measurement:  # not escaped in a measurement, and not split there either
        measurement = measurement.replace("\\=", "=")
    assert parsed(written) == (measurement, {"tag": tag}, {"f": number}, at)
