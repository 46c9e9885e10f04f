"""A real Prometheus that scrapes a real node_exporter and the suite's agent, read by the load watcher's provider.

Needs no cluster. The measured machine is this one; the reference is the test's own reading of /proc meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import time
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.thirdparty.prometheus import server
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider_spec, registry
from scheduler_plugin.load_watcher.providers.provider import KnownNode, Provider, ProviderFailed
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec
from scheduler_plugin.load_watcher.records import MetricType, NodeMetrics, Statistic
from tests.fakes import agent_process, cluster
from tools.localcluster.host import ports

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

NODE = "node-1"
MINUTE = 60  # a subquery is evaluated at whole minutes
RATE_SECONDS = 2 * MINUTE
EARLY_SECONDS = 15
POINTS_OF_PERCENT = 5.0  # scrapes and our readings are up to a second apart, on a busy machine more
CORES = os.cpu_count() or 1
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Moment:
    """One reading of /proc."""

    at: float
    idle_seconds: float
    memory_percent: float


def _moment() -> Moment:
    cpu = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines()}
    used = 1.0 - sizes["MemAvailable"] / sizes["MemTotal"]
    return Moment(time.time(), int(cpu[4]) / TICKS, used * 100.0)


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True)
class Scene:
    """The running programs, and the values of /proc, read once a second since their start."""

    prometheus: server.Prometheus
    agent_port: int
    moments: list[Moment]

    def provider(self, queries: str) -> Provider:
        spec = ProviderSpec(type=provider_spec.PROMETHEUS, address=self.prometheus.url, queries=queries)
        nodes = {NODE: KnownNode(CORES * 1000, _memory_bytes())}
        return registry.build(spec, registry.ProviderContext(lambda: nodes, dict, None))

    def agent_memory_bytes(self) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.agent_port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return float(
            next(line.split()[-1] for line in lines if line.startswith('koordlet_usage_memory_bytes{kind="node"'))
        )


@contextlib.asynccontextmanager
async def _scene(folder: Path) -> AsyncIterator[Scene]:
    exporter, prometheus, port = server.NodeExporter(folder), server.Prometheus(folder), ports.free_port()
    units = {"cpu": str(CORES), "memory": str(_memory_bytes())}
    async with contextlib.AsyncExitStack() as stack:
        apiserver = await stack.enter_async_context(cluster.running())
        apiserver.add("nodes", {"metadata": {"name": NODE}, "status": {"capacity": units, "allocatable": units}})
        spec = {"metricCollectPolicy": {"reportIntervalSeconds": 30}}
        apiserver.add("nodemetrics", {"metadata": {"name": NODE}, "spec": spec, "status": {}})
        kubeconfig = agent_process.kubeconfig(folder / "kubeconfig", apiserver.url)
        flags = (
            f"--kubeconfig={kubeconfig}", f"--node-name={NODE}", "--host-root=/", f"--state-dir={folder / 'agent'}",
            f"--http-port={port}", "--http-address=127.0.0.1",
        )  # fmt: skip
        (folder / "agent").mkdir()
        await stack.enter_async_context(agent_process.running(*flags))
        stack.callback(exporter.stop)
        stack.callback(prometheus.stop)
        await asyncio.to_thread(exporter.start)
        await asyncio.to_thread(prometheus.start, {"node": exporter.port, "koordlet": port}, NODE)
        scene = Scene(prometheus, port, [])
        watching = asyncio.create_task(_watch(scene.moments))
        stack.callback(watching.cancel)
        yield scene


async def _watch(moments: list[Moment]) -> None:
    while True:
        moments.append(_moment())
        await asyncio.sleep(1)


async def _answered(provider: Provider, within_seconds: float = 100) -> NodeMetrics:
    """Return the metrics of the node over five minutes, once all four values exist."""
    async with asyncio.timeout(within_seconds):
        while True:
            fetched = await provider.fetch(records.window_ending_at("5m", time.time()))
            assert not fetched.problems
            assert fetched.nodes.keys() <= {NODE}
            if len(fetched.nodes.get(NODE, NodeMetrics()).metrics) == 4:
                return fetched.nodes[NODE]
            await asyncio.sleep(0.5)


def _of(node: NodeMetrics, kind: MetricType, operator: Statistic) -> float:
    (value,) = [metric.value for metric in node.metrics if (metric.type, metric.operator) == (kind, operator)]
    return value


def _busy_percent(moments: list[Moment], at: float) -> float:
    """Return the busy share of the machine in the window of a rate at this time."""
    inside = [each for each in moments if at - RATE_SECONDS <= each.at <= at]
    seconds = inside[-1].at - inside[0].at
    return 100.0 - 100.0 * (inside[-1].idle_seconds - inside[0].idle_seconds) / (seconds * CORES)


async def test_it_returns_the_values_of_proc_and_nothing_without_prometheus(tmp_path: Path) -> None:
    # Begin early in a minute: a value of few seconds would depend on when exactly they begin and end.
    passed = time.time() % MINUTE
    await asyncio.sleep(MINUTE - passed if passed > EARLY_SECONDS else 0.0)
    async with _scene(tmp_path) as scene:
        exporter, koordlet = scene.provider("node-exporter"), scene.provider("koordlet")
        by_exporter = await _answered(exporter)
        whole_minutes = range(int(scene.moments[0].at // MINUTE + 1) * MINUTE, int(time.time()) + 1, MINUTE)
        seen = [each for each in whole_minutes if each - scene.moments[0].at > 5]
        busy = statistics.fmean(_busy_percent(scene.moments, at) for at in seen)
        assert _of(by_exporter, MetricType.CPU, Statistic.AVG) == pytest.approx(busy, abs=POINTS_OF_PERCENT)
        used = [min(scene.moments, key=lambda each: abs(each.at - at)).memory_percent for at in seen]
        assert _of(by_exporter, MetricType.MEMORY, Statistic.AVG) == pytest.approx(statistics.fmean(used), abs=2.0)
        assert _of(by_exporter, MetricType.MEMORY, Statistic.STD) == pytest.approx(statistics.pstdev(used), abs=2.0)

        by_agent = await _answered(koordlet)
        moments = [each for each in scene.moments if each.at > time.time() - 5 * MINUTE]
        busy = _busy_percent(moments, time.time())
        assert _of(by_agent, MetricType.CPU, Statistic.AVG) == pytest.approx(busy, abs=2 * POINTS_OF_PERCENT)
        assert _of(by_agent, MetricType.CPU, Statistic.STD) > 0.0
        own = 100.0 * scene.agent_memory_bytes() / _memory_bytes()
        spread = max(_of(by_agent, MetricType.MEMORY, Statistic.STD) * 4, 1.0)
        assert _of(by_agent, MetricType.MEMORY, Statistic.AVG) == pytest.approx(own, abs=spread)
        problems = await exporter.check()  # this exporter has no network devices and disks
        assert not [problem for problem in problems if "node_cpu" in problem or "node_memory" in problem]
        assert not await koordlet.check()
        assert await exporter.is_healthy()

        await asyncio.to_thread(scene.prometheus.stop)
        with pytest.raises(ProviderFailed, match=scene.prometheus.url):
            await exporter.fetch(records.window_ending_at("5m", time.time()))
        assert not await exporter.is_healthy()
        for each in (exporter, koordlet):
            await each.close()
