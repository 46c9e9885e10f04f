"""Tests from a provider's answer to a score: provider, analyser, windows, measurements, plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers.provider import Fetched, Provider, ProviderFailed
from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, NodeMetrics, Window
from scheduler_plugin.load_watcher.watcher import Watcher
from scheduler_plugin.plugins.trimaran.node_columns import FallbackLevel
from tests.scheduler_plugin.plugins.trimaran.measured_cluster import NOW, MeasuredCluster, metrics, pod

PLUGINS = ("TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment")


class Answers:
    """Provider whose answer is set by the test."""

    has_deviation = True

    def __init__(self, nodes: Mapping[str, NodeMetrics], name: str = "Prometheus") -> None:
        self.name = name
        self.nodes: Mapping[str, NodeMetrics] | None = nodes

    async def check(self) -> Sequence[str]:
        return ()

    async def fetch(self, window: Window) -> Fetched:
        if self.nodes is None:
            raise ProviderFailed(window.duration)
        return Fetched(self.nodes)

    async def is_healthy(self) -> bool:
        return True

    async def close(self) -> None:
        return


class Chain:
    """Cluster with nodes, and a watcher that fetches from providers into it."""

    def __init__(self, plugin: str, nodes: Sequence[str], *providers: Answers, **args: object) -> None:
        self.cluster = MeasuredCluster(plugin, **args)
        for name in nodes:
            self.cluster.node(name)
            self.cluster.place(name, pod("1", "1Gi", limit_cpu="8"))
        self.now = NOW
        self._nodes = nodes
        self.watch(*providers)

    def watch(self, *providers: Provider) -> None:
        self._watcher = Watcher(providers, self.cluster.windows, clock=lambda: self.now, expected=lambda: self._nodes)

    async def refresh(self, after_seconds: float = 0.0) -> None:
        self.now += after_seconds
        for duration in DURATIONS_SECONDS:
            await self._watcher.refresh(duration)
        self.cluster.refresh(self.now)

    def scores(self, *names: str) -> list[int]:
        return self.cluster.scores(pod("500m", "1Gi", limit_cpu="1"), names, self.now)

    def levels(self, *names: str) -> list[list[int]]:
        """Return the levels of CPU and of memory."""
        rows = self.cluster.parts.vectors.find(list(names))
        levels: list[list[int]] = self.cluster.plugin.columns.fallback_levels(rows, self.now).tolist()
        return levels


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize(
    "hot",
    [metrics(106, 30, 3, 1), metrics(None, 30, 3, 1), metrics(float("nan"), 30, 3, 1), metrics(95, 30, 53, 1)],
    ids=["mean above 105 %", "no mean", "NaN", "impossible deviation"],
)
async def test_a_node_with_a_lost_mean_or_deviation_is_never_preferred(plugin: str, hot: NodeMetrics) -> None:
    chain = Chain(plugin, ("hot", "calm"), Answers({"hot": hot, "calm": metrics(30, 30, 3, 1)}))
    await chain.refresh()
    scores = chain.scores("hot", "calm")
    assert scores[0] == 0 < scores[1]
    assert chain.levels("hot", "calm") == [
        [FallbackLevel.UNKNOWN, FallbackLevel.MEASURED],
        [FallbackLevel.MEASURED, FallbackLevel.MEASURED],
    ]


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("lost", ["mean", "deviation"])
async def test_a_partial_answer_does_not_replace_a_whole_older_one(plugin: str, lost: str) -> None:
    provider = Answers({"a": metrics(95, 30, 2, 1), "b": metrics(5, 30, 2, 1)})
    chain = Chain(plugin, ("a", "b"), provider)
    await chain.refresh()
    before = chain.scores("a", "b")
    if lost == "mean":
        provider.nodes = {"a": metrics(None, 30, 2, 1), "b": metrics(None, 30, 2, 1)}
    else:
        provider.nodes = {"a": metrics(95, 30, None, 1), "b": metrics(5, 30, None, 1)}
    await chain.refresh(30)
    assert chain.scores("a", "b") == before
    await chain.refresh(271)
    assert chain.levels("a", "b") == [[FallbackLevel.BY_REQUESTS] * 2, [FallbackLevel.MEASURED] * 2]


@pytest.mark.parametrize("formula", ["corrected", "kep"])
@pytest.mark.parametrize("has_pods", [True, False])
async def test_the_example_of_kep_61_chooses_n3(formula: str, has_pods: bool) -> None:
    example = {"N1": metrics(20, 20, 80, 60), "N2": metrics(50, 80, 1, 0.05), "N3": metrics(30, 40, 10, 5)}
    chain = Chain("LoadVariationRiskBalancing", (), Answers(example), formula=formula)
    for name in example:
        chain.cluster.node(name, capacity={"cpu": "4", "memory": "8G"})
        if has_pods:
            chain.cluster.place(name, pod("500m", "1G"))
    await chain.refresh()
    scores = chain.cluster.scores(pod("500m", "1G"), list(example))
    assert scores == ([0, 7, 43] if formula == "kep" else [0, 54, 71])


async def test_a_mix_of_providers_is_as_old_as_its_oldest_part() -> None:
    old = msgspec.structs.replace(metrics(80, 20, 1, 1), window=records.window_ending_at("15m", NOW - 200))
    other = Answers({"n": metrics(20, 20, 1, 1), "only": metrics(20, 20, 1, 1)}, "InfluxDB")
    chain = Chain("TargetLoadPacking", ("n", "only"), Answers({"n": old}), other)
    await chain.refresh()
    assert chain.cluster.fallback_levels(["n", "only"], NOW + 100) == [FallbackLevel.MEASURED] * 2
    assert chain.cluster.fallback_levels(["n", "only"], NOW + 101) == [FallbackLevel.UNKNOWN, FallbackLevel.MEASURED]


class MeanOf(Answers):
    """Provider of the mean over each window of nodes of 4 cores, of which each placed pod uses 400m."""

    def __init__(self, placed: Sequence[tuple[str, float]]) -> None:
        super().__init__({})
        self._placed = placed

    async def fetch(self, window: Window) -> Fetched:
        millis = {"a": 0.0, "b": 0.0}
        for node, at in self._placed:
            millis[node] += 400.0 * max(0.0, window.end - max(at, window.start)) / (window.end - window.start)
        return Fetched({node: metrics(used / 40.0, 10, 0, 0) for node, used in millis.items()})


async def test_pods_that_arrive_slowly_do_not_fill_a_node_beyond_the_target() -> None:
    placed: list[tuple[str, float]] = []
    chain = Chain("TargetLoadPacking", (), MeanOf(placed), targetUtilization=40)
    for name in ("a", "b"):
        chain.cluster.node(name)
    for _pod in range(8):
        await chain.refresh(after_seconds=70)
        incoming = pod("400m", limit_cpu="400m")
        first, second = chain.cluster.scores(incoming, ["a", "b"], chain.now)
        chosen = "a" if first >= second else "b"
        chain.cluster.place(chosen, incoming, age_seconds=NOW - chain.now)
        placed.append((chosen, chain.now))
    assert [name for name, _at in placed] == ["a"] * 4 + ["b"] * 4


@pytest.mark.parametrize("plugin", ["TargetLoadPacking", "LoadVariationRiskBalancing"])
@pytest.mark.parametrize(
    ("queries", "age_seconds", "share"),
    [
        *(("koordlet", age, share) for age, share in ((0, 1.0), (90, 0.9), (450, 0.5), (900, 0.0), (86400, 0.0))),
        ("node-exporter", 450, 1 - (450 - 60) / 900),
        # Of a rate over 300 s, the samples of the first 150 s have a quarter of the pod, and those after 300 s all.
        *(("kube-prometheus", age, share) for age, share in ((150, 1 - 37.5 / 900), (450, 1 - 300 / 900), (1200, 0.0))),
    ],
)
def test_a_pod_counts_for_the_share_of_the_window_it_did_not_run_in(
    plugin: str, queries: str, age_seconds: float, share: float
) -> None:
    cluster = MeasuredCluster(plugin, metricProvider={"type": "Prometheus", "queries": queries})
    for name in ("recent", "incoming"):
        cluster.node(name)
    cluster.place("recent", pod("1", "1Gi", limit_cpu="1"), age_seconds=age_seconds)
    cluster.measure({name: metrics(40, 10, 0, 0) for name in ("recent", "incoming")})
    millis = round(share * 1000)
    recent = cluster.scores(pod("0", limit_cpu="0"), ["recent"])
    incoming = cluster.scores(pod(f"{millis}m", limit_cpu=f"{millis}m"), ["incoming"])
    assert recent == incoming


@pytest.mark.parametrize("plugin", ["TargetLoadPacking", "LoadVariationRiskBalancing"])
@pytest.mark.parametrize("is_measured", [True, False])
@pytest.mark.parametrize(("band", "priority"), [("mid", 7500), ("batch", 5500)])
def test_fresh_pods_count_by_what_their_class_requests(
    plugin: str, is_measured: bool, band: str, priority: int
) -> None:
    def scores(spec: Mapping[str, object], **args: object) -> list[int]:
        cluster = MeasuredCluster(plugin, **args)
        for name in ("busy", "idle"):
            cluster.node(name, capacity={"cpu": "16", "memory": "64Gi"})
        for _pod in range(10):
            cluster.place("busy", spec, age_seconds=5)
        if is_measured:
            cluster.measure({name: metrics(20, 20, 2, 1) for name in ("busy", "idle")})
        return cluster.scores(spec, ["busy", "idle"])

    amounts = {f"kubernetes.io/{band}-cpu": "1000", f"kubernetes.io/{band}-memory": str(2**30)}
    resources = {"requests": {**amounts, "cpu": "0", "memory": "0"}, "limits": amounts}
    of_band = {"containers": [{"name": "main", "resources": resources}], "priority": priority}
    assert scores(of_band) == scores(pod("1", "1Gi", limit_cpu="1", priority=9500))
    if is_measured and plugin == "LoadVariationRiskBalancing":
        busy, idle = scores(of_band, formula="upstream")
        assert busy == idle, "as shipped, native resources alone"
