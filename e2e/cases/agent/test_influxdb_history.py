"""The exporter with a real InfluxDB 2: an InfluxDB that is down, hangs or refuses never affects a NodeMetric.

The cases with influxd, which takes many minutes to build, are in the long run; the unit tests of the exporter have the
responses of a scripted server. Needs no cluster: two agents, one with the exporter and one without, measure the same
files for the same objects, each with an apiserver of its own on loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from e2e.thirdparty.influxdb import server
from koordlet.influxdb_exporter import client
from koordlet.influxdb_exporter.writer import Failure, WriteFailed
from tests.fakes import agent_process, cluster
from tests.host_trees import plain_files
from tools.localcluster.host import ports

pytestmark = pytest.mark.timeout(1500)  # cold, the first test builds influxd

NODE, PODS = "node-1", 3
INTERVAL_SECONDS, QUEUE_POINTS, BATCH_POINTS, TIMEOUT_MS = 2, 20, 10, 500
POINTS_A_RECORD = 6 + PODS + 2  # node, system and four classes; pods; two of a prediction at most
PERIODIC = ("updateTime", "lastTransitionTime", "time", "since")


@pytest.fixture(scope="module")
def influx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.Influxd]:
    running = server.Influxd(tmp_path_factory.mktemp("influxd"))
    running.start()
    try:
        running.set_up()
        yield running
    finally:
        running.stop()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    return _write(tmp_path / "token", server.TOKEN)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Make a machine with constant counters, so that two agents measure the same at any time."""
    root = tmp_path / "host"
    machine = plain_files.PlainHost(root)
    machine.set_node(busy_ticks=1000, used_bytes=8 << 30)
    for number in range(PODS):
        machine.set_group(machine.pod(_uid(number), plain_files.BURSTABLE), number, (100 + number) << 20)
    return root


def _write(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _uid(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012d}"


def _pod(number: int) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "128Mi"}}}
    return {
        "metadata": {"name": f"pod-{number}", "namespace": "default", "uid": _uid(number)},
        "spec": {"nodeName": NODE, "priority": 9000, "containers": [container]},
        "status": {"phase": "Running", "qosClass": "Burstable"},
    }


class Agent:
    """An agent under test: its metrics and its reports."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, apiserver: cluster.Cluster) -> None:
        self.process = process
        self._port = port
        self._apiserver = apiserver

    async def metrics(self) -> dict[str, float]:
        """Return samples by name, `name{label value}` where there is one label."""
        text = await asyncio.to_thread(self._get, "/metrics")
        return {
            f"{sample.name}{{{' '.join(sample.labels.values())}}}" if sample.labels else sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=5) as answer:
            return str(answer.read().decode())

    def reports(self) -> list[dict[str, Any]]:
        """Return every written status, without its times."""
        return [_timeless(body["status"]) for method, _, body in self._apiserver.writes if method == "PUT"]

    async def end(self) -> tuple[float, str]:
        """Send SIGTERM, and return the seconds until the end and the whole log."""
        assert self.process.stderr is not None
        began = time.monotonic()
        self.process.terminate()
        log = (await self.process.stderr.read()).decode()
        await self.process.wait()
        return time.monotonic() - began, log


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(below) for key, below in value.items() if key not in PERIODIC}
    return [_timeless(below) for below in value] if isinstance(value, list) else value


@contextlib.asynccontextmanager
async def agent(folder: Path, host: Path, *flags: str) -> AsyncIterator[Agent]:
    units = {"cpu": "4", "memory": "16Gi"}
    port = ports.free_port()
    async with cluster.running() as apiserver:
        apiserver.add("nodes", {"metadata": {"name": NODE}, "status": {"capacity": units, "allocatable": units}})
        spec = {"metricCollectPolicy": {"reportIntervalSeconds": 30}}
        apiserver.add("nodemetrics", {"metadata": {"name": NODE}, "spec": spec, "status": {}})
        for number in range(PODS):
            apiserver.add("pods", _pod(number), namespace="default")
        config = agent_process.kubeconfig(folder / "kubeconfig", apiserver.url)
        always = (
            f"--kubeconfig={config}", f"--node-name={NODE}", f"--host-root={host}", f"--state-dir={folder}",
            f"--http-port={port}", "--http-address=127.0.0.1",
        )  # fmt: skip
        async with agent_process.running(*always, *flags) as process:
            yield Agent(process, port, apiserver)


def _history(url: str, token_file: Path) -> list[str]:
    return [
        f"--influxdb-url={url}", f"--influxdb-org={server.ORG}", f"--influxdb-bucket={server.BUCKET}",
        f"--influxdb-token-file={token_file}", f"--influxdb-interval-seconds={INTERVAL_SECONDS}",
        f"--influxdb-queue-points={QUEUE_POINTS}", f"--influxdb-batch-points={BATCH_POINTS}",
        f"--influxdb-timeout-seconds={TIMEOUT_MS / 1000}",
    ]  # fmt: skip


async def until(true: Callable[[dict[str, float]], bool], it: Agent, within_seconds: float = 60) -> dict[str, float]:
    """Return the first metrics for which `true` holds."""
    metrics: dict[str, float] = {}
    async with asyncio.timeout(within_seconds):
        while not metrics or not true(metrics):
            await asyncio.sleep(0.2)
            with contextlib.suppress(OSError):
                metrics = await it.metrics()
    return metrics


def _added(metrics: dict[str, float]) -> float:
    """Return the number of all points: written, dropped and queued."""
    dropped = sum(value for name, value in metrics.items() if name.startswith("koordlet_influxdb_dropped_points_total"))
    return metrics["koordlet_influxdb_written_points_total"] + dropped + metrics["koordlet_influxdb_queued_points"]


def _points(influx: server.Influxd) -> int:
    """Return the number of points in the bucket: each has exactly one of these fields."""
    one_each = 'filter(fn: (r) => contains(value: r._field, set: ["cpu_cores", "peak_cpu_cores"]))'
    counts = [row["_value"] for row in influx.flux(f"{one_each} |> group() |> count()")]
    return sum(count for count in counts if isinstance(count, int))


@pytest.mark.long
async def test_an_outage_longer_than_the_queue_changes_no_report_and_blocks_no_tick(
    influx: server.Influxd, host: Path, tmp_path: Path, token_file: Path
) -> None:
    async with (
        agent(_folder(tmp_path / "without"), host) as without,
        agent(_folder(tmp_path / "with"), host, *_history(influx.url, token_file)) as it,
    ):
        before = await until(lambda seen: seen["koordlet_influxdb_written_points_total"] >= 3 * POINTS_A_RECORD, it)
        assert before["koordlet_influxdb_dropped_points_total{queue_full}"] == 0
        _points_are_those_of_the_reference(influx)

        influx.stop()
        ticks = before["koordlet_ticks_total"] - (await without.metrics())["koordlet_ticks_total"]
        reports = len(it.reports()), len(without.reports())
        away = await until(
            lambda seen: (
                seen["koordlet_influxdb_dropped_points_total{queue_full}"] >= QUEUE_POINTS
                and _predicts(it.reports()[reports[0] :])
                and _predicts(without.reports()[reports[1] :])
            ),
            it,
            within_seconds=120,
        )
        assert away["koordlet_influxdb_queued_points"] <= QUEUE_POINTS + BATCH_POINTS
        assert away["koordlet_influxdb_write_failures_total{unreachable}"] >= 2
        assert away["koordlet_ticks_total"] - (await without.metrics())["koordlet_ticks_total"] == pytest.approx(
            ticks, abs=2
        )
        assert it.reports()[-1] == without.reports()[-1]

        influx.start()
        back = await until(
            lambda seen: (
                seen["koordlet_influxdb_written_points_total"] > before["koordlet_influxdb_written_points_total"]
                and seen["koordlet_influxdb_queued_points"] == 0
            ),
            it,
            within_seconds=120,
        )
        later = await until(lambda seen: _added(seen) > _added(back) + POINTS_A_RECORD, it)
        lost = later["koordlet_influxdb_dropped_points_total{queue_full}"]
        assert lost >= away["koordlet_influxdb_dropped_points_total{queue_full}"]
        last = await it.metrics()
        seconds, log = await it.end()
    assert seconds < 5
    written = _added(last) - lost
    assert written <= _points(influx) <= written + 2 * POINTS_A_RECORD, "all but the counted ones are there"
    states = [line.partition(" InfluxDB exporter: ")[2] for line in log.splitlines() if " InfluxDB exporter: " in line]
    assert f"{influx.url} cannot be reached" in "".join(states)
    assert "writing again" in states[-1]
    assert all(one != after for one, after in itertools.pairwise(states)), "each state is logged once"


def _points_are_those_of_the_reference(influx: server.Influxd) -> None:
    newest = influx.flux('filter(fn: (r) => r._measurement == "koordlet_pod_usage") |> last()')
    assert {(row["pod"], row["_field"]): row["_value"] for row in newest} == {
        (f"pod-{number}", field): value
        for number in range(PODS)
        for field, value in (("cpu_cores", 0.0), ("memory_bytes", float((100 + number) << 20)))
    }
    assert {(row["node"], row["namespace"], row["kind"]) for row in newest} == {(NODE, "default", "prod")}
    node = 'filter(fn: (r) => r._measurement == "koordlet_usage" and r._field == "memory_bytes") |> last()'
    usage = {row["kind"]: row["_value"] for row in influx.flux(node)}
    assert usage.keys() == {"node", "system", "prod", "mid", "batch", "free"}
    assert usage["node"] == 8 << 30
    assert usage["prod"] == sum((100 + number) << 20 for number in range(PODS))


def _predicts(reports: list[dict[str, Any]]) -> bool:
    return bool(reports) and "prodPeakMetric" in reports[-1]


@pytest.mark.long
async def test_a_bad_token_is_logged_once_and_a_good_one_in_the_same_file_ends_it(
    influx: server.Influxd, host: Path, tmp_path: Path, token_file: Path
) -> None:
    _write(token_file, "revoked")
    async with agent(_folder(tmp_path / "agent"), host, *_history(influx.url, token_file)) as it:
        refused = await until(lambda seen: seen["koordlet_influxdb_write_failures_total{unauthorized}"] >= 2, it)
        assert refused["koordlet_influxdb_written_points_total"] == 0
        assert "koordlet_influxdb_last_success_timestamp_seconds" not in refused
        _write(token_file, server.TOKEN)
        await until(lambda seen: seen["koordlet_influxdb_written_points_total"] > 0, it)
        _, log = await it.end()
    assert log.count("returned status 401") == 1, log
    assert f"{token_file} needs a token" in log
    assert "revoked" not in log
    assert server.TOKEN not in log


async def test_a_server_that_never_answers_blocks_no_tick_and_no_shutdown(
    host: Path, tmp_path: Path, token_file: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:  # the kernel accepts, no process reads
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        hanging = [*_history(url, token_file), "--influxdb-timeout-seconds=60"]
        async with (
            agent(_folder(tmp_path / "without"), host) as without,
            agent(_folder(tmp_path / "with"), host, *hanging) as it,
        ):
            full = await until(lambda seen: seen["koordlet_influxdb_dropped_points_total{queue_full}"] > 0, it)
            assert full["koordlet_influxdb_queued_points"] <= QUEUE_POINTS + BATCH_POINTS
            began = full["koordlet_ticks_total"], (await without.metrics())["koordlet_ticks_total"]
            await asyncio.sleep(5)
            ended = (await it.metrics())["koordlet_ticks_total"], (await without.metrics())["koordlet_ticks_total"]
            assert ended[0] - began[0] == pytest.approx(ended[1] - began[1], abs=1)
            assert it.process.returncode is None
            seconds, log = await it.end()
    assert it.process.returncode == 0
    assert seconds < 5
    assert "points not written" in log


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "lines", "failure", "text"),
    [
        ({"bucket": "nowhere"}, ["m f=1.0 1"], Failure.NOT_FOUND, 'bucket "nowhere" not found'),
        ({"org": "unknown"}, ["m f=1.0 1"], Failure.NOT_FOUND, "organization name"),
        ({}, ["not a point"], Failure.REFUSED, "returned status 400"),
        ({}, ["conflict f=1.0 1", 'conflict f="text" 2'], Failure.REFUSED, "returned status 422"),
    ],
    ids=["missing bucket", "missing organization", "malformed", "type conflict"],
)
def test_refusals_of_a_real_influxdb_are_classified_and_explained(
    influx: server.Influxd, token_file: Path, changes: dict[str, str], lines: list[str], failure: Failure, text: str
) -> None:
    fields = {"url": influx.url, "org": server.ORG, "bucket": server.BUCKET, "token_file": str(token_file)}
    with pytest.raises(WriteFailed) as caught:
        client.InfluxDb(client.InfluxDbTarget(**(fields | changes))).write(lines, 5000)
    assert caught.value.failure is failure
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
