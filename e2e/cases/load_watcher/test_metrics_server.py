"""A real metrics-server, which measures the real node, read through the apiserver by the load watcher's provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apiserver_client import session
from e2e.support.cluster_client import ClusterClient, cores_or_bytes
from e2e.thirdparty.metrics_server import server
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider_spec, registry
from scheduler_plugin.load_watcher.providers.provider import Fetched, KnownNode, Provider, ProviderFailed
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec
from scheduler_plugin.load_watcher.records import MetricType, Statistic
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]  # cold, the test builds metrics-server, for minutes

WINDOW = records.window_ending_at("15m", 1_700_000_000)  # metrics-server knows none


@pytest.fixture(scope="module")
def measuring(cluster: Cluster, node: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.MetricsServer]:
    if cluster.provider not in ("local", "nodes"):
        pytest.skip("serves an API of the whole cluster from this machine: for a cluster of our own only")
    with server.serving(cluster, tmp_path_factory.mktemp("metrics-server"), node) as made:
        yield made


@asynccontextmanager
async def _provider(cluster: Cluster, known: dict[str, KnownNode]) -> AsyncIterator[Provider]:
    async with session.open_session(str(cluster.kubeconfig), user_agent="case") as api:
        spec = ProviderSpec(type=provider_spec.METRICS_SERVER)
        yield registry.build(spec, registry.ProviderContext(lambda: known, dict, api))


async def test_it_returns_the_values_of_metrics_server_and_fails_without_it(
    cluster: Cluster, cluster_client: ClusterClient, node: str, measuring: server.MetricsServer
) -> None:
    cores, memory_bytes = cores_or_bytes(cluster_client.get("Node", node)["status"]["capacity"])
    async with _provider(cluster, {node: KnownNode(int(cores * 1000), int(memory_bytes))}) as source:
        usage, fetched = await _both(measuring, source, node)
        used_cores, used_bytes = cores_or_bytes(usage)
        reported = {(metric.type, metric.operator): metric.value for metric in fetched.nodes[node].metrics}
        assert reported == {
            (MetricType.CPU, Statistic.LATEST): pytest.approx(float(100 * used_cores / cores), abs=100 / 1000),
            (MetricType.MEMORY, Statistic.LATEST): pytest.approx(float(100 * used_bytes / memory_bytes)),
        }
        assert 0 < reported[MetricType.CPU, Statistic.LATEST] < 105
        assert fetched.nodes.keys() == {node}
        assert not await source.check()
        assert await source.is_healthy()

        await asyncio.to_thread(measuring.ends)
        with pytest.raises(ProviderFailed, match="is metrics-server installed"):
            await source.fetch(WINDOW)
        assert not await source.is_healthy()
    with pytest.raises(ClusterProblem):
        measuring.node_metrics()


async def _both(measuring: server.MetricsServer, source: Provider, node: str) -> tuple[dict[str, str], Fetched]:
    """Return the server's numbers and the provider's, of the same time."""
    for _attempt in range(10):
        before = _item(measuring, node)
        fetched = await source.fetch(WINDOW)
        if _item(measuring, node)["timestamp"] == before["timestamp"]:
            return before["usage"], fetched
    raise AssertionError("it measures more often than it can be read")


def _item(measuring: server.MetricsServer, node: str) -> dict[str, Any]:
    (item,) = (each for each in measuring.node_metrics() if each["metadata"]["name"] == node)
    return item
