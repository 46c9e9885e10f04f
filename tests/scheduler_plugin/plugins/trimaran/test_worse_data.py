"""Random answers of two sources, from the wire to the scores: a node with worse data is never preferred."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from component_base.http_client import HttpClient, Reach, Reply
from component_base.prometheus import PrometheusClient
from scheduler_plugin.load_watcher.providers.node_metric import NodeMetricProvider
from scheduler_plugin.load_watcher.providers.prometheus import NodeNames, PrometheusProvider
from scheduler_plugin.load_watcher.providers.provider import KnownNode
from scheduler_plugin.load_watcher.providers.provider_spec import Query
from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, MetricType
from scheduler_plugin.load_watcher.watcher import Watcher
from scheduler_plugin.state.node_report import NodeMetric
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.plugins.trimaran.measured_cluster import NOW, MeasuredCluster, pod

pytestmark = pytest.mark.slow

PLUGINS = ("TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment")
KINDS = ("CPU", "Memory")
QUERIES = tuple(Query(kind, MetricType(kind)) for kind in KINDS)
ADDRESSES = {"a": "10.0.0.1", "b": "fd00::2"}
INSTANCES = {"a": "10.0.0.1:9100", "b": "[fd00::2]:9100"}
"""Labels of the series: a scrape configuration may know the addresses alone."""
START = int(NOW)

Sample = tuple[float | None, float | None]
"""Mean and deviation in percent of capacity; None: not in the answer."""
Samples = Mapping[str, Mapping[str, Sample]]
"""By window and resource."""


class Round(NamedTuple):
    """What both sources answer at one time, by node; agents know no deviation."""

    at: int
    series: Mapping[str, Samples]
    reports: Mapping[str, Mapping[str, float]]


class Server(HttpClient):
    """Prometheus' API over the current round of answers, without the network, which has tests of its own."""

    def __init__(self) -> None:
        super().__init__(Reach("http://prometheus", dict, 5.0))
        self.round = Round(0, {}, {})

    async def send(self, method: str, path: str, *, accept: Any = None, **request: Any) -> Reply:
        assert (method, path, accept) == ("POST", "/api/v1/query", None)
        query = re.fullmatch(r"(avg|stddev)_over_time\((\w+)\[(\w+)\]\)", request["data"]["query"])
        assert query is not None
        statistic, kind, duration = query.groups()
        result = []
        for node, samples in self.round.series.items():
            value = samples[duration][kind][statistic == "stddev"]
            if value is not None:
                result.append({"metric": {"instance": INSTANCES[node]}, "value": [self.round.at, str(value / 100)]})
        return Reply(
            200, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
        )


def report(node: str, at: int, percents: Mapping[str, float]) -> NodeMetric:
    usage = {"cpu": f"{percents['CPU'] * 40:.0f}m", "memory": f"{percents['Memory'] / 100 * 2**33:.0f}"}
    status = {"updateTime": factories.moment(at - NOW), "nodeMetric": {"nodeUsage": {"resources": usage}}}
    return msgspec.json.decode(msgspec.json.encode({"metadata": {"name": node}, "status": status}), type=NodeMetric)


async def scores(
    plugin: str, formula: str, history: Sequence[Round], waited: float, *running: Mapping[str, Any]
) -> Sequence[int]:
    """Return the scores of a and b after both providers have answered every round."""
    cluster, server, now = MeasuredCluster(plugin, formula=formula), Server(), [0.0]
    for node in ADDRESSES:
        cluster.node(node)
        for placed in running:
            cluster.place(node, placed, age_seconds=3600)
    parts = cluster.parts
    nodes = {name: KnownNode(4000, 8 * 2**30, addresses=(address,)) for name, address in ADDRESSES.items()}
    series = PrometheusProvider(Reach("http://prometheus", dict, 5.0), QUERIES, lambda: nodes, NodeNames())
    series._prometheus = PrometheusClient(server)
    agents = NodeMetricProvider(parts.cluster.reports, lambda: nodes, parts.cluster.resources)
    watcher = Watcher([series, agents], cluster.windows, clock=lambda: now[0], expected=lambda: list(ADDRESSES))
    for answers in history:
        now[0], server.round = answers.at, answers
        for node, percents in answers.reports.items():
            parts.cluster.metric_changed(report(node, answers.at, percents))
        for duration in DURATIONS_SECONDS:
            await watcher.refresh(duration)
        cluster.refresh(now[0])
    await watcher.close()
    cluster.refresh(now[0] + waited)
    return cluster.scores(pod("500m", "1Gi", limit_cpu="1"), list(ADDRESSES), now[0] + waited)


impossible_means = st.sampled_from([None, float("nan"), -1.0, 106.0, 240.0])
impossible_deviations = st.sampled_from([None, float("nan"), -1.0, 53.0, 106.0])
mostly = st.sampled_from([False] * 5 + [True])


@st.composite
def twins(draw: st.DrawFn, *, varies_more: bool) -> list[Round]:
    """Draw answers about a, and about b which is as hot or hotter and whose answers are spoilt."""
    base = {kind: (draw(st.integers(50, 80)), draw(st.integers(0, 20 if varies_more else 5))) for kind in KINDS}
    heat = draw(st.sampled_from([0, 0, 10]))
    hot = {kind: (mean + heat, deviation + (heat if varies_more else 0)) for kind, (mean, deviation) in base.items()}
    has_reports = draw(st.booleans())

    def spoilt(mean: float, deviation: float) -> Sample:
        return (
            draw(impossible_means) if draw(mostly) else mean,
            draw(impossible_deviations) if draw(mostly) else deviation,
        )

    def answer(at: int) -> Round:
        clean = dict.fromkeys(DURATIONS_SECONDS, base)
        bad = {duration: {kind: spoilt(*own) for kind, own in hot.items()} for duration in DURATIONS_SECONDS}
        means = {
            node: {kind: float(own[0]) for kind, own in samples.items()} for node, samples in (("a", base), ("b", hot))
        }
        return Round(at, {"a": clean, "b": bad}, means if has_reports else {})

    return [answer(START + 40 * number) for number in range(draw(st.integers(1, 7)))]


@pytest.mark.parametrize("formula", ["corrected", "kep"])
@pytest.mark.parametrize("plugin", PLUGINS)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data(), waited=st.sampled_from([0, 100, 250]))
def test_a_node_with_worse_or_hotter_data_is_never_preferred(
    plugin: str, formula: str, data: st.DataObject, waited: int
) -> None:
    # Of a node that already uses more than its requests, KEP-357 counts a larger deviation as a smaller risk.
    history = data.draw(twins(varies_more=plugin != "LowRiskOverCommitment"))
    clean, spoilt = asyncio.run(scores(plugin, formula, history, waited, pod("1", "1Gi", limit_cpu="1")))
    assert spoilt <= clean


@pytest.mark.parametrize("lost", [(None, None), (50.0, None), (None, 11.0)])
async def test_a_node_whose_deviation_is_lost_does_not_pass_for_a_steady_one(lost: Sample) -> None:
    def answer(in_longest: Sample) -> Samples:
        cpu = dict.fromkeys(DURATIONS_SECONDS, (50.0, 11.0)) | {"15m": in_longest}
        return {duration: {"CPU": sample, "Memory": (20.0, 0.0)} for duration, sample in cpu.items()}

    reports = {node: {"CPU": 50.0, "Memory": 20.0} for node in ADDRESSES}
    history = [Round(START, {"a": answer((50.0, 11.0)), "b": answer(lost)}, reports)]
    assert len(set(await scores("LoadVariationRiskBalancing", "kep", history, 0))) == 1
