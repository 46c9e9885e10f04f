"""Random answers of two sources, from the wire to the scores, against a plain reading of the KEPs."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from api_types.kubernetes import times
from component_base.http_client import HttpClient, Reach, Reply
from component_base.prometheus import PrometheusClient
from scheduler_plugin.load_watcher.providers.node_metric import NodeMetricProvider
from scheduler_plugin.load_watcher.providers.prometheus import NodeNames, PrometheusProvider
from scheduler_plugin.load_watcher.providers.provider import KnownNode, ProviderFailed
from scheduler_plugin.load_watcher.providers.provider_spec import Query
from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, MetricType
from scheduler_plugin.load_watcher.watcher import Watcher
from scheduler_plugin.plugins.trimaran.node_columns import FallbackLevel
from scheduler_plugin.state.node_report import NodeMetric
from tests.scheduler_plugin.plugins.trimaran import kep_reference as reference
from tests.scheduler_plugin.plugins.trimaran.kep_reference import KINDS, PlacedPod, Report, Round, Sample, Series
from tests.scheduler_plugin.plugins.trimaran.measured_cluster import NOW, MeasuredCluster

pytestmark = pytest.mark.slow

QUERIES = tuple(Query(kind, MetricType(kind)) for kind in (*KINDS, "Bandwidth"))
NODES = ("a", "b")
ADDRESSES = {"a": "10.0.0.1", "b": "fd00::2"}
INSTANCES = {"a": "10.0.0.1:9100", "b": "[fd00::2]:9100"}
"""Labels of the series: a scrape configuration may know the addresses alone."""
START = int(NOW)
KEYS = {"CPU": "cpu", "Memory": "memory"}

impossible_means = st.sampled_from([None, float("nan"), -1.0, 106.0, 240.0])
impossible_deviations = st.sampled_from([None, float("nan"), -1.0, 53.0, 106.0])
mostly = st.sampled_from([False] * 5 + [True])


class Server(HttpClient):
    """Prometheus' API over the current round of answers, without the network, which has tests of its own."""

    def __init__(self) -> None:
        super().__init__(Reach("http://prometheus", dict, 5.0))
        self.round = Round(0, None, {})

    async def send(self, method: str, path: str, *, accept: Any = None, **request: Any) -> Reply:
        assert (method, path, accept) == ("POST", "/api/v1/query", None)
        return Reply(200, self._body(request["data"]["query"]))

    def _body(self, query: str) -> bytes:
        method, kind, duration = re.fullmatch(r"(avg|stddev)_over_time\((\w+)\[(\w+)\]\)", query).groups()  # type: ignore[union-attr]
        if self.round.series is None:
            raise ProviderFailed("503 out of order")
        found = []
        for node, series in self.round.series.items():
            if kind == "Bandwidth":
                found.append((node, float(self.round.at)))
                continue
            sample = series.of[duration][kind]
            value = sample.mean if method == "avg" else sample.deviation
            if value is not None:
                found.append((node, value / 100.0))
        result = [
            {"metric": {"instance": INSTANCES[node]}, "value": [self.round.at, str(value)]} for node, value in found
        ]
        return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


@st.composite
def series_samples(draw: st.DrawFn, base: Mapping[str, tuple[int, int]], broken: str) -> Series:
    """Draw the samples of each window; those of resource `broken` are impossible in all of them."""
    of: dict[str, dict[str, Sample]] = {}
    for duration in DURATIONS_SECONDS:
        of[duration] = {}
        for kind, (mean, deviation) in base.items():
            sample = Sample(mean + draw(st.integers(0, 3)), float(deviation))
            if kind == broken or draw(mostly):
                sample = Sample(draw(impossible_means), sample.deviation)
            if draw(mostly):
                sample = Sample(sample.mean, draw(impossible_deviations))
            of[duration][kind] = sample
    return Series(of)


@st.composite
def reports(draw: st.DrawFn, base: Mapping[str, tuple[int, int]], sampled_at: int) -> Report:
    """Draw a report, which may lack windows, deviations and resources."""
    kinds = [kind for kind in KINDS if not draw(mostly)]
    current = {kind: base[kind][0] + draw(st.integers(1, 3)) + (150.0 if draw(mostly) else 0.0) for kind in kinds}
    of = {}
    for duration in DURATIONS_SECONDS:
        if not draw(mostly):
            has_deviation = not draw(mostly)
            of[duration] = {
                kind: Sample(base[kind][0] + draw(st.integers(1, 3)), float(base[kind][1]) if has_deviation else None)
                for kind in kinds
            }
    return Report(sampled_at, of, current)


@st.composite
def rounds(draw: st.DrawFn) -> list[Round]:
    # Below the mean that contradicts another window by more than the accepted difference; mostly with room for a pod,
    # because full nodes score 0 whatever is said about them.
    numbers = st.tuples(st.integers(0, 40) | st.integers(0, 97), st.integers(0, 10) | st.integers(0, 50))
    base = {node: {kind: draw(numbers) for kind in KINDS} for node in NODES}
    broken = {node: draw(st.sampled_from(["", "", *KINDS])) for node in NODES}
    is_long = draw(st.booleans())  # more rounds than the load watcher keeps snapshots
    at, found, last = START, [], dict[str, Report]()
    has_series, has_reports = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    for _round in range(6 if is_long else draw(st.integers(1, 3))):
        for node in NODES:
            if has_reports and not draw(mostly):
                late = draw(st.sampled_from([0, 20] if is_long else [0, 20, 90, 290, 310]))
                sampled = at - late
                if node not in last or sampled > last[node].sampled_at:
                    last[node] = draw(reports(base[node], sampled))
        series = {node: draw(series_samples(base[node], broken[node])) for node in NODES if not draw(mostly)}
        is_out = not has_series or draw(mostly)
        found.append(Round(at, None if is_out else series, dict(last)))
        at += draw(st.sampled_from([30] if is_long else [30, 60, 95]))
    return found


@st.composite
def placed_pods(draw: st.DrawFn, ages: Sequence[int] = (3600, 700, 290, 120, 40, 0)) -> PlacedPod:
    request = {"CPU": draw(st.integers(0, 1200)), "Memory": draw(st.integers(0, 2000)) * 2**20}
    limit = {kind: amount and amount * draw(st.integers(1, 4)) for kind, amount in request.items()}
    age = draw(st.sampled_from(ages))
    return PlacedPod(START + 100 - age, request, limit)


lists_of_pods = st.lists(placed_pods(), max_size=3) | st.lists(placed_pods((40, 0)), max_size=3)

INCOMING = PlacedPod(0, {"CPU": 500.0, "Memory": 2.0**30}, {"CPU": 1000.0, "Memory": 2.0**31})


def wire_pod(pod: PlacedPod) -> dict[str, Any]:
    def amounts(of: Mapping[str, float]) -> dict[str, str]:
        texts = {"cpu": f"{int(of['CPU'])}m", "memory": str(int(of["Memory"]))}
        return {name: text for name, text in texts.items() if text not in ("0m", "0")}

    resources = {"requests": amounts(pod.request), "limits": amounts(pod.limit)}
    return {"containers": [{"name": "main", "resources": resources}]}


def wire_report(node: str, report: Report) -> NodeMetric:
    def usage(percents: Mapping[str, float]) -> dict[str, Any]:
        amounts = {"CPU": "{:.0f}n", "Memory": "{:.0f}"}
        units = {"CPU": 1e6, "Memory": 1.0}
        return {
            "resources": {
                KEYS[kind]: amounts[kind].format(percent / 100.0 * reference.CAPACITY[kind] * units[kind])
                for kind, percent in percents.items()
            }
        }

    aggregated = []
    for duration, samples in report.of.items():
        means = {kind: sample.mean for kind, sample in samples.items() if sample.mean is not None}
        own = {"avg": usage(means)}
        deviations = {kind: sample.deviation for kind, sample in samples.items() if sample.deviation is not None}
        if deviations:
            own["std"] = usage(deviations)
        aggregated.append({"duration": f"{duration}0s", "usage": own})
    sampled = times.format_rfc3339(dt.datetime.fromtimestamp(report.sampled_at, dt.UTC))
    status = {
        "updateTime": sampled,
        "nodeMetric": {"nodeUsage": usage(report.now), "aggregatedNodeUsages": aggregated},
    }
    return msgspec.json.decode(msgspec.json.encode({"metadata": {"name": node}, "status": status}), type=NodeMetric)


class Product:
    """Everything of the product between the wire and the scores."""

    def __init__(
        self, plugin: str, formula: str, nodes: Sequence[str], pods: Mapping[str, Sequence[PlacedPod]]
    ) -> None:
        self.cluster = MeasuredCluster(plugin, formula=formula)
        self.nodes = nodes
        self.now = float(START)
        for node in nodes:
            self.cluster.node(node)
            for pod in pods[node]:
                self.cluster.place(node, wire_pod(pod), age_seconds=NOW - pod.placed_at)

    async def fetch(self, history: Sequence[Round], now: float) -> None:
        """Let both providers answer every round, and select measurements after each."""
        parts = self.cluster.parts
        known = {name: KnownNode(4000, 8 * 2**30, addresses=(ADDRESSES[name],)) for name in self.nodes}
        server = Server()
        series = PrometheusProvider(Reach("http://prometheus", dict, 5.0), QUERIES, lambda: known, NodeNames())
        series._prometheus = PrometheusClient(server)
        agents = NodeMetricProvider(parts.cluster.reports, lambda: known, parts.cluster.resources)
        watcher = Watcher(
            [series, agents], self.cluster.windows, clock=lambda: self.now, expected=lambda: list(self.nodes)
        )
        for round_ in history:
            self.now, server.round = round_.at, round_
            for node, report in round_.reports.items():
                parts.cluster.metric_changed(wire_report(node, report))
            for duration in DURATIONS_SECONDS:
                await watcher.refresh(duration)
            self.cluster.refresh(self.now)
        await watcher.close()
        self.now = now
        self.cluster.refresh(now)

    def levels(self) -> list[list[str]]:
        rows = self.cluster.parts.vectors.find(list(self.nodes))
        found = self.cluster.plugin.columns.fallback_levels(rows, self.now)
        return [[FallbackLevel(level).name for level in found[:, index]] for index in range(len(self.nodes))]

    def scores(self) -> list[int]:
        return self.cluster.scores(wire_pod(INCOMING), self.nodes, self.now)


@pytest.mark.parametrize("plugin", reference.POLICIES)
@settings(
    max_examples=50, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(
    history=rounds(),
    pods=st.fixed_dictionaries(dict.fromkeys(NODES, lists_of_pods)),
    waited=st.sampled_from([0, 10, 200, 290, 310]),
)
def test_random_answers_are_scored_by_the_keps(
    plugin: str,
    history: list[Round],
    pods: Mapping[str, Sequence[PlacedPod]],
    waited: int,
) -> None:
    now = history[-1].at + waited
    now -= now % 10  # scores are kept for 10 s
    now = max(now, history[-1].at)
    product = Product(plugin, "kep", NODES, pods)
    asyncio.run(product.fetch(history, now))
    states = {node: reference.known(history, node, now) for node in NODES}
    levels = reference.levels(states, pods, now)
    assert product.levels() == list(levels.values())
    wanted = [reference.POLICIES[plugin](states[node], levels[node], pods[node], INCOMING) for node in NODES]
    assert product.scores() == pytest.approx(wanted, abs=0.5 + 1e-6)


@st.composite
def twins(draw: st.DrawFn, *, varies_more: bool) -> list[Round]:
    """Draw answers about a, and about b which is as hot or hotter and whose answers are spoilt."""
    base = {kind: (draw(st.integers(50, 80)), draw(st.integers(0, 20 if varies_more else 5))) for kind in KINDS}
    heat = draw(st.sampled_from([0, 0, 10]))
    hot = {kind: (mean + heat, deviation + (heat if varies_more else 0)) for kind, (mean, deviation) in base.items()}
    has_reports = draw(st.booleans())
    history, at = [], START
    for _round in range(draw(st.integers(1, 7))):
        answers = {}
        for node, own in (("a", base), ("b", hot)):
            of: dict[str, dict[str, Sample]] = {}
            for duration in DURATIONS_SECONDS:
                of[duration] = {}
                for kind, (mean, deviation) in own.items():
                    sample = Sample(float(mean), float(deviation))
                    if node == "b" and draw(mostly):
                        sample = Sample(draw(impossible_means), sample.deviation)
                    if node == "b" and draw(mostly):
                        sample = Sample(sample.mean, draw(impossible_deviations))
                    of[duration][kind] = sample
            answers[node] = Series(of)
        # The agents know no deviation.
        found = {
            node: Report(at, {}, {kind: float(mean) for kind, (mean, _deviation) in own.items()})
            for node, own in (("a", base), ("b", hot))
            if has_reports
        }
        history.append(Round(at, answers, found))
        at += 40
    return history


@pytest.mark.parametrize("formula", ["corrected", "kep"])
@pytest.mark.parametrize("plugin", reference.POLICIES)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data(), waited=st.sampled_from([0, 100, 250]))
def test_a_node_with_worse_or_hotter_data_is_never_preferred(
    plugin: str, formula: str, data: st.DataObject, waited: int
) -> None:
    # Of a node that already uses more than its requests, KEP-357 counts a larger deviation as a smaller risk.
    history = data.draw(twins(varies_more=plugin != "LowRiskOverCommitment"))
    pod = PlacedPod(START - 3600, {"CPU": 1000.0, "Memory": 2.0**30}, {"CPU": 1000.0, "Memory": 2.0**30})
    product = Product(plugin, formula, ("a", "b"), {"a": [pod], "b": [pod]})
    asyncio.run(product.fetch(history, history[-1].at + waited))
    clean, spoilt = product.scores()
    assert spoilt <= clean


@pytest.mark.parametrize("lost", [Sample(None, None), Sample(50.0, None), Sample(None, 11.0)])
def test_a_node_whose_deviation_is_lost_does_not_pass_for_a_steady_one(lost: Sample) -> None:
    def answer(of_longest: Sample) -> Series:
        of_cpu = dict.fromkeys(DURATIONS_SECONDS, Sample(50.0, 11.0)) | {"15m": of_longest}
        return Series({duration: {"CPU": sample, "Memory": Sample(20.0, 0.0)} for duration, sample in of_cpu.items()})

    reports = {node: Report(START, {}, {"CPU": 50.0, "Memory": 20.0}) for node in NODES}
    history = [Round(START, {"a": answer(Sample(50.0, 11.0)), "b": answer(lost)}, reports)]
    product = Product("LoadVariationRiskBalancing", "kep", NODES, dict.fromkeys(NODES, ()))
    asyncio.run(product.fetch(history, START))
    assert len(set(product.scores())) == 1
