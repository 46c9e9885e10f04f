"""Tests of placements and of their effect on nodes, with small examples."""

import numpy as np
import pytest

from benchmarks.series_scenario import from_series
from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.simulation import outcome, scenario
from scheduler_plugin.simulation.kube_scheduler_model import Weights
from scheduler_plugin.simulation.replay import Replay
from tests.scheduler_plugin import factories

GIB = 1024**3
MINUTES = 60


def parts(load_aware=None, **document):
    entries = [{"name": "LoadAwareScheduling", "args": load_aware or {}}]
    return assembly.Parts(loader.parse({"pluginConfig": entries, **document}))


def a_cluster(shares, requests, *, nodes=2, cores=10, at_seconds=None, lifetime_seconds=None, steps=60):
    """Build a scenario of pods that use a constant share of the cores they request."""
    return from_series(
        node_count=nodes,
        node_cpu_millis=1000 * cores,
        node_memory_bytes=100 * GIB,
        cpu_millis=[np.array([1000.0 * share * request]) for share, request in zip(shares, requests, strict=True)],
        request_cpu_millis=[1000 * request for request in requests],
        request_memory_bytes=[GIB] * len(requests),
        step_seconds=MINUTES,
        steps=steps,
        at_seconds=at_seconds,
        lifetime_seconds=lifetime_seconds,
    )


def nodes_of(result):
    return [result.placements[index].node for index in sorted(result.placements)]


def test_kube_scheduler_alone_decides_by_requests_and_the_product_by_usage():
    # The first pod requests 4 cores and uses almost none; the second requests 3 and uses them.
    cluster = a_cluster([0.05, 1.0, 1.0], [4, 3, 2], at_seconds=[0, 0, 600])
    stock = Replay(cluster).run()
    first, second, third = nodes_of(stock)
    assert first != second
    assert third == second  # the node with fewer requests, although it is the busy one
    product = Replay(cluster, parts()).run()
    first, second, third = nodes_of(product)
    assert first != second
    assert third == first


@pytest.mark.parametrize("plugin", ["LoadVariationRiskBalancing", "LowRiskOverCommitment"])
def test_load_aware_scores_keep_a_node_that_requests_little_and_uses_much_from_congestion(plugin):
    # The first pod uses 7 times its request, the second almost nothing; four of 1 core come later.
    cluster = a_cluster([7.0, 0.1, 1, 1, 1, 1], [1] * 6, at_seconds=[0, 0, 1200, 1200, 2400, 2400], steps=120)
    assert outcome.summary(Replay(cluster).run()).hot_ratio > 0.3
    score = {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]}
    scored = parts(plugins={"filter": {"disabled": [{"name": "*"}]}, "score": score})
    assert outcome.summary(Replay(cluster, scored).run()).hot_ratio == 0.0


def test_rejects_a_hot_node_and_counts_the_rejections():
    cluster = a_cluster([1.0, 1.0], [7, 1], nodes=1, at_seconds=[0, 300])
    result = Replay(cluster, parts({"usageThresholds": {"cpu": 65}})).run()
    assert nodes_of(result) == ["node-0"]
    # tried at 300 s and, as nothing changes, every 300 s until 3,600 s
    assert result.rejections == {"node(s) cpu usage exceed threshold": 11}
    assert result.tries == {0: 1, 1: 11}
    assert outcome.summary(result).never_placed == 1


def test_a_pod_waits_until_another_leaves():
    cluster = a_cluster([0.5, 0.5], [8, 8], nodes=1, at_seconds=[0, 0], lifetime_seconds=[600, 600])
    result = Replay(cluster).run()
    assert [result.placements[index].at_seconds for index in (0, 1)] == [0, 600]
    assert result.rejections == {"Insufficient cpu": 2}  # at 0 s and 300 s; the departure wakes it
    summary = outcome.summary(result)
    assert (summary.placed, summary.waited, summary.never_placed, summary.mean_wait_seconds) == (2, 1, 0, 300)


def test_the_report_that_cools_a_node_wakes_a_pod():
    # The first pod uses 9 of 10 cores for 600 s, then almost none; its node reports every 60 s.
    usage = [np.array([9000.0] * 10 + [100.0]), np.array([500.0])]
    cluster = from_series(
        node_count=1,
        node_cpu_millis=10_000,
        node_memory_bytes=100 * GIB,
        cpu_millis=usage,
        request_cpu_millis=[1000, 1000],
        request_memory_bytes=[GIB, GIB],
        step_seconds=MINUTES,
        steps=60,
        at_seconds=[0, 330],
    )
    result = Replay(cluster, parts({"usageThresholds": {"cpu": 65}})).run()
    assert result.tries[1] == 3  # at 330 s, at 630 s without an event, and after the report
    assert 660 <= result.placements[1].at_seconds <= 662


def test_summarises_the_worked_example():
    # One node of 10 cores with 9 used for half of an hour, one idle: a quarter of the node-time is hot.
    cluster = a_cluster([1.0], [9], lifetime_seconds=[1800])
    summary = outcome.summary(Replay(cluster).run())
    assert summary.hot_ratio == 0.25
    assert summary.spread == pytest.approx(0.45 / 2)
    assert summary.nodes_used == 0.5
    assert summary.overload_ratio == 0


def test_a_run_is_repeatable_and_another_seed_breaks_ties_differently():
    cluster = a_cluster([0.5] * 12, [1] * 12, nodes=8, at_seconds=[60.0 * index for index in range(12)])
    one, same, other = (nodes_of(Replay(cluster, parts(), seed=seed).run()) for seed in (1, 1, 2))
    assert one == same != other


def test_load_aware_placement_spreads_unequal_pods_better_than_requests():
    random = np.random.default_rng(3)
    shares = random.choice([0.05, 0.95], 120)
    cluster = a_cluster(
        shares, [1] * 120, nodes=10, cores=16, at_seconds=list(np.sort(random.uniform(0, 3000, 120))), steps=120
    )
    by_requests, by_load = (outcome.summary(Replay(cluster, each).run()) for each in (None, parts()))
    assert by_load.spread < 0.8 * by_requests.spread
    assert by_load.placed == by_requests.placed == 120


def test_a_packing_plugin_uses_fewer_nodes_than_a_spreading_one():
    packing = {
        "score": {"enabled": [{"name": "TargetLoadPacking"}], "disabled": [{"name": "LoadAwareScheduling"}]},
    }
    cluster = a_cluster([0.5] * 12, [1] * 12, nodes=8, at_seconds=[120.0 * index for index in range(12)])
    spread = outcome.summary(Replay(cluster, parts()).run())
    packed = outcome.summary(Replay(cluster, parts(plugins=packing), weights=Weights(0, 0, 1)).run())
    assert packed.nodes_used < spread.nodes_used / 2


def test_running_pods_stay_and_do_not_count_as_placed():
    running = factories.pod("old", node="n1", requests={"cpu": "6"}, phase="Running")
    arriving = factories.pod("new", requests={"cpu": "6"})
    usage = np.array([[1000.0], [0.0]])
    cluster = scenario.Scenario(
        [scenario.SimulatedNode(factories.node(name, cpu="10")) for name in ("n1", "n2")],
        [scenario.SimulatedPod(running, usage), scenario.SimulatedPod(arriving, usage, at_seconds=60)],
        step_seconds=60,
        steps=10,
    )
    result = Replay(cluster, parts()).run()
    assert {index: placed.node for index, placed in result.placements.items()} == {1: "n2"}
    assert result.demand[0].tolist() == [[1000] * 10, [0] + [1000] * 9]


def test_load_refuses_a_pod_for_soft_after_seconds_only():
    # Both nodes use 80 % all the time, and the threshold is 65 %.
    nodes = [scenario.SimulatedNode(factories.node(name, cpu="10"), other_usage=(8000.0, GIB)) for name in ("n1", "n2")]
    arriving = scenario.SimulatedPod(
        factories.pod("web", requests={"cpu": "1"}), np.array([[500.0], [GIB]]), at_seconds=60
    )
    cluster = scenario.Scenario(nodes, [arriving], step_seconds=60, steps=30)
    assert not Replay(cluster, parts()).run().placements
    placed_at = Replay(cluster, parts({"softAfterSeconds": 90})).run().placements[0].at_seconds
    assert 150 <= placed_at <= 180
