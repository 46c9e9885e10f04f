"""Load watcher process in the test's event loop: pages, probes, database and watches, between scripted servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import prometheus_client
import pytest

from apiserver_client import errors
from scheduler_plugin.load_watcher import app as load_watcher
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.database import Database
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec
from scheduler_plugin.load_watcher.records import Data, NodeMetrics, Snapshot
from scheduler_plugin.load_watcher.settings import LoadWatcherSettings
from tests.fakes import agent_process, apiserver, metrics_source
from tests.fakes.metrics_source import Answer, Source

NODES, NODE_METRICS = "/api/v1/nodes", "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
QUARTER = {"resultType": "vector", "result": [{"metric": {"node": "n1"}, "value": [1, "0.25"]}]}
NODE = {
    "metadata": {"name": "n1", "resourceVersion": "1"},
    "status": {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "4", "memory": "8Gi"}},
}


@pytest.fixture(autouse=True)
def _process_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no kubeconfig be found by itself; restore the format of counters."""
    monkeypatch.setenv("KUBECONFIG", "/missing/of-the-environment")
    prometheus_client.enable_created_metrics()  # type: ignore[no-untyped-call]
    yield
    prometheus_client.enable_created_metrics()  # type: ignore[no-untyped-call]


class Gate:
    """Open or closed way to the answers of a source."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.is_open.set()
        self.asked_while_closed = threading.Event()

    def pass_through(self) -> None:
        if not self.is_open.is_set():
            self.asked_while_closed.set()
        self.is_open.wait(20)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.is_open.set()


@pytest.fixture
def prometheus(gate: Gate) -> Iterator[Source]:
    def answer(_asked: metrics_source.Asked) -> Answer:
        gate.pass_through()
        return Answer(json.dumps({"status": "success", "data": QUARTER}).encode())

    with metrics_source.answering(answer) as source:
        yield source
        gate.is_open.set()


def from_prometheus(source: Source) -> ProviderSpec:
    return ProviderSpec(type="Prometheus", address=source.address, queries="openshift")


@contextlib.asynccontextmanager
async def started(*specs: ProviderSpec, **settings: object) -> AsyncIterator[int]:
    """Run the process until the end of the context; yield the port of its REST API."""
    chosen = LoadWatcherSettings.model_validate({"http_address": "127.0.0.1", "http_port": 0, **settings})
    app = load_watcher.LoadWatcherApp(chosen, specs)
    assert app.port == 0
    running = asyncio.create_task(app.run())
    async with asyncio.timeout(20):
        while not app.port:
            assert not running.done(), running.exception()
            await asyncio.sleep(0.005)
        yield app.port
        app.stop()
        await running


async def page(port: int, path: str) -> tuple[int, str]:
    """Return status and text of a page."""

    def call() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(call)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


async def until_ready(port: int) -> str:
    """Wait for the first window; return the text of the readiness."""
    while True:
        status, text = await page(port, "/readyz")
        if status == 200:
            return text
        await asyncio.sleep(0.01)


async def test_is_alive_at_once_and_ready_with_the_first_window(prometheus: Source, gate: Gate) -> None:
    gate.is_open.clear()
    async with started(from_prometheus(prometheus), kubeconfig="/missing") as port:
        assert (await page(port, "/healthz"))[0] == 200
        assert await page(port, "/readyz") == (503, "no provider has answered for 15m or 10m or 5m yet\n")
        assert (await page(port, "/watcher/health"))[0] == 503
        gate.is_open.set()
        text = await until_ready(port)
        found = re.fullmatch(r"1 nodes over (?:5m|10m|15m), (\d+) s old\n", text)
        assert found is not None, text
        assert int(found[1]) < 60
        assert (await page(port, "/watcher/health"))[0] == 200
        _status, body = await page(port, "/watcher")
        assert json.loads(body)["data"]["NodeMetricsMap"]["n1"]["metrics"][0]["value"] == 25.0
    with pytest.raises(urllib.error.URLError):
        await page(port, "/healthz")


async def test_while_no_provider_answers_questions_for_the_health_do_not_pile_up(
    prometheus: Source, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_watcher, "_HEALTH_SECONDS", 0.05)
    async with started(from_prometheus(prometheus), kubeconfig="/missing", interval_seconds=3600) as port:
        while "over 15m" not in await until_ready(port):
            await asyncio.sleep(0.01)
        gate.is_open.clear()
        assert (await page(port, "/watcher/health"))[0] == 503
        assert gate.asked_while_closed.is_set()
        running = len(asyncio.all_tasks())
        for _ in range(5):
            assert (await page(port, "/watcher/health"))[0] == 503
        async with asyncio.timeout(5):
            await until(lambda: len(asyncio.all_tasks()) <= running)
        gate.is_open.set()


async def test_a_provider_that_needs_the_cluster_does_not_start_without_credentials(prometheus: Source) -> None:
    chosen = LoadWatcherSettings(http_address="127.0.0.1", http_port=0, kubeconfig="/missing")
    for needs in ("NodeMetric", "KubernetesMetricsServer"):
        app = load_watcher.LoadWatcherApp(chosen, [from_prometheus(prometheus), ProviderSpec(type=needs)])
        with pytest.raises(errors.NoCredentials, match="/missing"):
            await app.run()
    assert prometheus.asked == []


def serve_nodes(cluster: apiserver.ScriptedServer, before: asyncio.Event | None = None) -> None:
    """Serve one node; its list waits for an event, if there is one."""
    listed = json.dumps(apiserver.page("5", NODE).document).encode()
    waits = [apiserver.After(before)] if before else []
    cluster.on("GET", NODES, apiserver.Stream(*waits, listed))
    cluster.on("WATCH", NODES, apiserver.Stream(apiserver.HANG))


async def test_the_first_window_waits_for_the_nodes_and_other_providers_need_no_reports(
    prometheus: Source, tmp_path: Path
) -> None:
    listed = asyncio.Event()
    async with apiserver.running() as cluster:
        serve_nodes(cluster, before=listed)
        config = agent_process.kubeconfig(tmp_path / "kubeconfig", cluster.url)
        async with started(from_prometheus(prometheus), kubeconfig=str(config)) as port:
            await cluster.until(lambda: cluster.asked("GET", NODES))
            for _ in range(5):
                assert (await page(port, "/readyz"))[0] == 503
            assert prometheus.asked == []
            listed.set()
            await until_ready(port)
        assert {request.path for request in cluster.requests} == {NODES}


async def test_the_file_keeps_windows_for_its_hours(prometheus: Source, tmp_path: Path) -> None:
    file, began = tmp_path / "watcher.sqlite", int(time.time())
    month = 720 * 3600
    too_old, old = began - month - 300, began - month + 3600
    before = Database(file, 10 * month)
    before.open()
    for ended in (too_old, old):
        window = records.window_ending_at("15m", ended)
        before.write(Snapshot(ended, window, "Prometheus", Data({"n1": NodeMetrics([])})))
    before.close()

    def kept() -> list[int]:
        with contextlib.closing(sqlite3.connect(file)) as other:
            return [ended for (ended,) in other.execute("SELECT ended FROM snapshots ORDER BY ended")]

    async with started(from_prometheus(prometheus), kubeconfig="/missing", database_file=str(file), database_hours=720):
        await until(lambda: kept()[-1] >= began)
        assert [ended for ended in kept() if ended < began] == [old]
