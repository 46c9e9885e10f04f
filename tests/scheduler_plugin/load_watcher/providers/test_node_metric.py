from __future__ import annotations

import msgspec

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers.node_metric import RESOURCES, NodeMetricProvider
from scheduler_plugin.load_watcher.providers.provider import Fetched, KnownNode
from scheduler_plugin.load_watcher.records import Metadata
from scheduler_plugin.state import node_report
from scheduler_plugin.state.node_report import NodeMetric, NodeReport

NODE = KnownNode(4000, 1000, Metadata("zone-a", "gpu"))
AT = 1_700_000_000.0  # 2023-11-14T22:13:20Z


def usage(cpu: str, memory: str) -> dict[str, object]:
    return {"resources": {"cpu": cpu, "memory": memory}}


def report(**windows: dict[str, dict[str, object]]) -> NodeReport:
    aggregated = [{"duration": name.strip("_"), "usage": statistics} for name, statistics in windows.items()]
    node = {"nodeUsage": usage("2", "500"), "aggregatedNodeUsages": aggregated}
    wire = {"metadata": {"name": "n"}, "status": {"updateTime": "2023-11-14T22:13:20Z", "nodeMetric": node}}
    return node_report.read(msgspec.json.decode(msgspec.json.encode(wire), type=NodeMetric), RESOURCES)


def provider(**reports: NodeReport) -> NodeMetricProvider:
    return NodeMetricProvider(lambda: reports, lambda: {"n": NODE})


def values(fetched: Fetched) -> list[tuple[str, str, float]]:
    return [(metric.type, metric.operator, metric.value) for metric in fetched.nodes["n"].metrics]


async def test_g14_returns_mean_and_deviation_in_percent_of_capacity_with_metadata() -> None:
    known = report(_10m={"avg": usage("1", "250"), "std": usage("400m", "10")}, _5m={"avg": usage("3", "750")})
    fetched = await provider(n=known).fetch(records.window_ending_at("10m", AT + 30))
    assert values(fetched) == [
        ("CPU", "AVG", 25.0),
        ("Memory", "AVG", 25.0),
        ("CPU", "STD", 10.0),
        ("Memory", "STD", 1.0),
    ]
    assert fetched.nodes["n"].metadata == NODE.metadata
    assert not fetched.problems


async def test_uses_current_usage_if_the_report_lacks_the_window() -> None:
    fetched = await provider(n=report()).fetch(records.window_ending_at("15m", AT))
    assert values(fetched) == [("CPU", "Latest", 50.0), ("Memory", "Latest", 50.0)]


async def test_the_window_ends_with_the_sample_of_the_report() -> None:
    aggregated = report(_10m={"avg": usage("1", "250")})
    fetched = await provider(n=aggregated).fetch(records.window_ending_at("10m", AT + 100))
    assert fetched.nodes["n"].window == records.window_ending_at("10m", AT)
    current = await provider(n=report()).fetch(records.window_ending_at("10m", AT + 100))
    assert current.nodes["n"].window == records.moment(AT)
