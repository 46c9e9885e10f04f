from __future__ import annotations

import msgspec
import pytest

from scheduler_plugin.load_watcher.providers import metrics_server
from scheduler_plugin.load_watcher.providers.metrics_server import MeasuredUsage
from scheduler_plugin.load_watcher.providers.provider import KnownNode
from scheduler_plugin.load_watcher.records import Metric, NodeMetrics
from tests.fakes import apiserver

NODES = {"n": KnownNode(4000, 1000)}


def item(name: str = "n", **fields: object) -> MeasuredUsage:
    usage = {"cpu": "1", "memory": "250"}
    return msgspec.convert({"metadata": {"name": name}, "usage": usage, **fields}, type=MeasuredUsage)


def node(*fetched: MeasuredUsage) -> NodeMetrics:
    return metrics_server.usage_percent(fetched, NODES).nodes["n"]


def test_converts_usage_to_percent_of_capacity_and_skips_unknown_nodes() -> None:
    fetched = metrics_server.usage_percent([item(), item("other")], NODES)
    values = [Metric(type=kind, operator="Latest", value=25.0) for kind in ("CPU", "Memory")]
    assert fetched.nodes == {"n": NodeMetrics(values)}


def test_an_unreadable_quantity_is_a_problem_of_its_node_alone() -> None:
    fetched = metrics_server.usage_percent([item(usage={"cpu": "many"}), item()], NODES)
    assert len(fetched.problems) == 1
    assert "node n:" in fetched.problems[0]
    assert fetched.nodes.keys() == {"n"}


@pytest.mark.parametrize(("answer", "is_healthy"), [(apiserver.page("1"), True), (apiserver.NOT_SERVED, False)])
async def test_is_healthy_while_the_api_is_served(answer: apiserver.Answer, is_healthy: bool) -> None:
    async with apiserver.running() as server:
        server.on("GET", "/apis/metrics.k8s.io/v1beta1/nodes", answer)
        async with server.session() as api:
            provider = metrics_server.MetricsServerProvider(api, lambda: NODES)
            assert await provider.is_healthy() is is_healthy
            problems = await provider.check()
    assert [problem.endswith("is metrics-server installed?") for problem in problems] == [True] * (not is_healthy)
