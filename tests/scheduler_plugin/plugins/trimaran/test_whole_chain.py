"""Tests from a provider's answer to a score: provider, analyser, windows, measurements, plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from scheduler_plugin.load_watcher.providers.provider import Fetched, ProviderFailed
from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, NodeMetrics, Window
from scheduler_plugin.load_watcher.watcher import Watcher
from scheduler_plugin.plugins.trimaran.fallback import FallbackLevel
from tests.scheduler_plugin.plugins.trimaran.measured_cluster import NOW, MeasuredCluster, metrics, pod

PLUGINS = ("TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment")


class Answers:
    """Provider whose answer is set by the test."""

    name = "Prometheus"
    has_deviation = True

    def __init__(self, nodes: Mapping[str, NodeMetrics]) -> None:
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
        self._watcher = Watcher(providers, self.cluster.windows, clock=lambda: self.now, expected=lambda: nodes)

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
        levels: list[list[int]] = self.cluster.plugin.fallback_levels(rows, self.now).tolist()
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


async def test_target_load_packing_falls_back_to_requests_where_cpu_is_gone() -> None:
    provider = Answers({"full": metrics(None, 30, None, 1), "free": metrics(None, 30, None, 1)})
    chain = Chain("TargetLoadPacking", ("full", "free"), provider)
    chain.cluster.place("full", pod("2", "1Gi"))
    await chain.refresh()
    assert chain.scores("full", "free") == [87, 37]


async def test_memory_still_counts_where_cpu_is_gone() -> None:
    answers = Answers({"busy": metrics(None, 90, None, 1), "free": metrics(None, 10, None, 1)})
    chain = Chain("LoadVariationRiskBalancing", ("busy", "free"), answers)
    await chain.refresh()
    busy, free = chain.scores("busy", "free")
    assert busy < free


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
