"""Off costs nothing; on, everything is counted from zero."""

import subprocess
import sys

from prometheus_client import CollectorRegistry, generate_latest

from koordlet import metrics
from koordlet.influxdb_exporter import switch
from koordlet.settings import KoordletSettings

AGENT_WITHOUT = """
import sys
from koordlet import agent
from koordlet.influxdb_exporter import switch
from koordlet.settings import KoordletSettings
assert switch.start(KoordletSettings(node_name="n")) is None
print(sorted(name for name in sys.modules if name.split(".")[0] in ("influxdb_client", "urllib3", "reactivex")))
"""


def test_without_an_address_there_is_no_history_and_its_library_is_not_loaded():
    ended = subprocess.run([sys.executable, "-c", AGENT_WITHOUT], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_every_metric_is_there_from_the_start_with_help(tmp_path):
    chosen = KoordletSettings(
        node_name="n",
        influxdb_url="http://127.0.0.1:1",
        influxdb_org="o",
        influxdb_bucket="b",
        influxdb_token_file=str(tmp_path / "token"),
    )
    history = switch.start(chosen)
    registry = CollectorRegistry()
    registry.register(metrics.HistoryCollector(history))
    lines = generate_latest(registry).decode().splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert "koordlet_history_queued_points 0.0" in samples
    assert "koordlet_history_written_points_total 0.0" in samples
    assert 'koordlet_history_dropped_points_total{reason="queue_full"} 0.0' in samples
    assert 'koordlet_history_write_failures_total{kind="unauthorized"} 0.0' in samples
    assert all(line.endswith(" 0.0") for line in samples)
    assert len([line for line in lines if line.startswith("# HELP koordlet_history_")]) == 4
    history.writer.ask_to_drain(10.0)
    history.writer.join()
