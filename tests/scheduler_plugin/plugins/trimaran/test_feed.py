"""Tests of the extender's load watcher: reports in, rows, fallback levels and metrics out."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
import prometheus_client
import pytest

from api_types.kubernetes import pods
from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.load_watcher.database import Database
from scheduler_plugin.load_watcher.providers import registry
from scheduler_plugin.plugins.trimaran.feed import MeasurementFeed
from scheduler_plugin.plugins.trimaran.node_columns import FallbackLevel
from scheduler_plugin.state.node_report import NodeMetric
from tests.fakes import metrics_source
from tests.fakes.metrics_source import Answer
from tests.scheduler_plugin import factories

NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z


def parts(measurement_age_seconds: float = 300, **args: Any) -> assembly.Parts:
    plugin = {"name": "TargetLoadPacking"}
    chosen = loader.parse({"plugins": {"score": {"enabled": [plugin]}}, "pluginConfig": [plugin | {"args": args}]})
    return assembly.Parts(chosen, measurement_age_seconds=measurement_age_seconds)


def node(name: str) -> pods.Node:
    resources = {"cpu": "4", "memory": "8Gi"}
    wire = {"metadata": {"name": name}, "status": {"capacity": resources, "allocatable": resources}}
    return msgspec.convert(wire, type=pods.Node)


def report(name: str, cpu: str) -> NodeMetric:
    usage: dict[str, Any] = {"resources": {"cpu": cpu, "memory": "1Gi"}}
    aggregated = [{"duration": "15m", "usage": {"avg": usage}}]
    metric = {"nodeUsage": usage, "aggregatedNodeUsages": aggregated}
    wire = {"metadata": {"name": name}, "status": {"updateTime": "2023-11-14T22:13:00Z", "nodeMetric": metric}}
    return msgspec.json.decode(msgspec.json.encode(wire), type=NodeMetric)


async def measured(
    running: assembly.Parts,
    registry: prometheus_client.CollectorRegistry,
    now: list[float],
    file: Path | None = None,
) -> None:
    """Run the feed until its first refresh is complete."""
    feed = MeasurementFeed(
        running.provider_specs,
        running.measurements,
        running.measured,
        running.cluster,
        lambda: now[0],
        database=Database(file, 3600) if file else None,
    )
    task = asyncio.create_task(feed.run(None, registry, 3600))  # type: ignore[arg-type]  # NodeMetric needs no session
    async with asyncio.timeout(20):
        while running.measurements.find("hot") is None:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Let every write to a file fail, as on a full disk."""
    limits, before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


def sizes_in(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir()}


async def test_a_decision_is_recorded_with_the_measurements_of_its_time() -> None:
    running = parts()
    running.cluster.node_changed(node("hot"))
    running.cluster.metric_changed(report("hot", "3"))
    running.extender.filter(factories.request(factories.pod_document("web"), ["hot"]), NOW)
    await measured(running, prometheus_client.CollectorRegistry(), [NOW])
    (decision,) = running.records.decisions("default/web")
    assert decision.inputs["TargetLoadPacking"].columns["meanPercent"].tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("fault", ["corrupt", "unwritable", "full disk"])
async def test_a_file_that_cannot_be_used_costs_no_measurement(tmp_path: Path, fault: str) -> None:
    file = tmp_path / ("gone/windows.sqlite" if fault == "unwritable" else "windows.sqlite")
    if fault == "corrupt":
        file.write_bytes(b"no database")
    running = parts()
    running.cluster.node_changed(node("hot"))
    running.cluster.metric_changed(report("hot", "3"))
    with full_disk() if fault == "full disk" else contextlib.nullcontext():
        await measured(running, prometheus_client.CollectorRegistry(), [NOW], file)
    (plugin,) = running.measured
    assert plugin.columns.packing_percent[running.vectors.find(["hot"])].tolist() == [75.0]
    sizes = sizes_in(tmp_path)
    if fault == "corrupt":
        assert sizes.pop("windows.sqlite") > 1, "a new one, beside the one that is renamed"
    assert [size for size in sizes.values() if size > len("no database")] == [], "nothing could be written"


async def test_of_a_preset_only_the_series_of_cpu_and_memory_are_asked() -> None:
    sample = {"metric": {"instance": "hot"}, "value": [NOW, "0.2"]}
    reply = {"status": "success", "data": {"resultType": "vector", "result": [sample]}}
    with metrics_source.answering(lambda _asked: Answer(msgspec.json.encode(reply))) as source:
        running = parts(metricProvider={"type": "Prometheus", "address": source.address})
        running.cluster.node_changed(node("hot"))
        await measured(running, prometheus_client.CollectorRegistry(), [NOW])
    asked = {parse_qs(request.body.decode())["query"][0] for request in source.asked}
    assert [
        text for text in asked if "node_cpu:ratio" not in text and "node_memory_utilisation:ratio" not in text
    ] == []


async def test_feed_converts_reports_to_percent_and_exports_the_levels() -> None:
    running, registry, now = parts(), prometheus_client.CollectorRegistry(), [NOW]
    for name in ("hot", "cool", "silent"):
        running.cluster.node_changed(node(name))
    pod = {"metadata": {"name": "old", "uid": "old"}, "spec": {"nodeName": "silent", "containers": []}}
    running.cluster.pod_changed(msgspec.convert(pod, type=pods.Pod), NOW - 3600)
    running.cluster.metric_changed(report("hot", "3"))
    running.cluster.metric_changed(report("cool", "1"))
    await measured(running, registry, now)

    (plugin,) = running.measured
    rows = running.vectors.find(["hot", "cool", "silent"])
    assert plugin.columns.packing_percent[rows[:2]].tolist() == [75.0, 25.0]
    assert plugin.columns.fallback_levels(rows, NOW)[0].tolist() == [
        FallbackLevel.MEASURED,
        FallbackLevel.MEASURED,
        FallbackLevel.UNKNOWN,
    ]
    counts = {
        level: registry.get_sample_value(
            "koord_scheduler_plugin_fallback_level_nodes", {"resource": "cpu", "level": level}
        )
        for level in ("measured", "by_requests", "predicted", "unknown")
    }
    assert counts == {"measured": 2, "by_requests": 0, "predicted": 0, "unknown": 1}
    assert registry.get_sample_value("koord_load_watcher_nodes", {"window": "15m"}) == 2

    now[0] = NOW + 301
    by_requests = {"resource": "memory", "level": "by_requests"}
    assert registry.get_sample_value("koord_scheduler_plugin_fallback_level_nodes", by_requests) == 3


async def test_no_node_is_unknown_while_the_rows_are_rewritten() -> None:
    """The first data after an outage: pods would otherwise go to the nodes whose rows are written first."""
    running, now = parts(), [NOW]
    names = [f"node-{index}" for index in range(200)]
    for name in names:
        running.cluster.node_changed(node(name))
        pod = {"metadata": {"name": name, "uid": name}, "spec": {"nodeName": name, "containers": []}}
        running.cluster.pod_changed(msgspec.convert(pod, type=pods.Pod), NOW - 3600)
        running.cluster.metric_changed(report(name, "1"))
    (plugin,) = running.measured
    rows, seen = running.vectors.find(names), set()
    feed = MeasurementFeed(
        running.provider_specs, running.measurements, running.measured, running.cluster, lambda: now[0]
    )
    task = asyncio.create_task(feed.run(None, prometheus_client.CollectorRegistry(), 3600))  # type: ignore[arg-type]
    async with asyncio.timeout(20):
        while FallbackLevel.MEASURED not in seen:
            await asyncio.sleep(0)
            levels = set(plugin.columns.fallback_levels(rows, NOW)[0].tolist())
            assert len(levels) == 1
            seen |= levels
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == {FallbackLevel.BY_REQUESTS, FallbackLevel.MEASURED}


class Silent:
    """A provider that never answers, and has one problem."""

    name = "Silent"
    has_deviation = True

    async def check(self):
        return ["it has no series of a node"]

    async def fetch(self, _window):
        await asyncio.Event().wait()

    async def is_healthy(self):
        return False

    async def close(self):
        pass


@contextlib.asynccontextmanager
async def running(monkeypatch, of, database=None):
    """Run a feed over the silent provider; everything in the context has ten seconds."""
    monkeypatch.setattr(registry, "build", lambda _spec, _context: Silent())
    feed = MeasurementFeed(of.provider_specs, of.measurements, of.measured, of.cluster, lambda: NOW, database=database)
    task = asyncio.create_task(feed.run(None, prometheus_client.CollectorRegistry(), 3600))
    try:
        async with asyncio.timeout(10):
            yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_restored_measurements_are_used_before_the_first_answer_of_a_provider(tmp_path, monkeypatch):
    file, before, after = tmp_path / "windows.sqlite", parts(), parts()
    for each in (before, after):
        each.cluster.node_changed(node("hot"))
    before.cluster.metric_changed(report("hot", "3"))
    await measured(before, prometheus_client.CollectorRegistry(), [NOW], file)
    (plugin,) = after.measured
    row = after.vectors.find(["hot"])
    async with running(monkeypatch, after, Database(file, 3600)):
        while plugin.columns.packing_percent[row].tolist() != [75.0]:
            await asyncio.sleep(0.005)
