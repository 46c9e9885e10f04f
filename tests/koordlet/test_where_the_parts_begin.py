"""Initial values of parts of the agent: no containers, no usage, no time; and their scales."""

import numpy as np
import pytest

from koordlet.collectors.cgroup.discovery import CgroupDiscovery
from koordlet.collectors.interface import Tick
from koordlet.collectors.numa.collector import NumaUsage
from koordlet.collectors.open_files import DescriptorBudget
from koordlet.collectors.pod_usage import CONTAINER_TICKS, PodUsage
from koordlet.collectors.snapshot import SnapshotCollector
from koordlet.collectors.statistics import CollectStatistics
from koordlet.metric_cache.store import MetricStore
from koordlet.prediction.calibration import node_calibration
from koordlet.prediction.calibration.scores import CPU_SCALE, MEMORY_SCALE, ScoreHistogram
from koordlet.samples import Resource, Snapshot, UsageSample, pod_key
from tests.host_trees.clock import Clock
from tests.host_trees.plain_files import MIB, V2, PlainHost

DAY, NOW = 86_400.0, 1.7e9
CID = "c" * 64


@pytest.fixture
def host(tmp_path):
    made = PlainHost(tmp_path, V2)
    made.set_group(made.pod("a"), 10.0, 100 * MIB)
    made.set_group(made.container("a", CID), 9.0, 80 * MIB)
    return made


def test_containers_are_measured_only_where_it_is_wanted(host):
    clock = Clock()
    discovery, statistics = CgroupDiscovery(host.host_root.cgroup_root), CollectStatistics()
    usage = PodUsage(discovery, DescriptorBudget(0), statistics, clock)
    snapshots = SnapshotCollector(host.host_root, clock)
    found = []
    for _ in range(2 * CONTAINER_TICKS):
        clock.advance(1.0)
        found += [usage.measure().containers, snapshots.collect(NOW).containers]
    usage.close()
    snapshots.close()
    assert not any(found)


def test_a_store_without_containers_keeps_none():
    store = MetricStore(300.0, 10, {})
    sample = UsageSample(1.0, 2.0)
    store.append(Snapshot(NOW, sample, sample, containers={"c": sample}), {pod_key("a"): sample})
    assert store.containers is None
    assert store.series_count == 1


def test_a_tick_has_no_complete_pods_before_they_are_measured():
    tick = Tick(NOW)
    assert (tick.are_pods_complete, tick.node, tick.system, tick.pods) == (False, None, None, {})


def test_a_source_that_was_not_read_took_no_time():
    statistics = CollectStatistics()
    source = statistics.source("x")
    assert (source.reads, source.failures, source.last_seconds, source.total_seconds) == (0, 0, 0, 0)
    with statistics.timed("x"):
        pass
    assert (source.reads, source.total_seconds) == (1, source.last_seconds)


def test_the_cache_has_room_for_two_series_of_64_numa_nodes_and_refuses_more():
    store = MetricStore(300.0, 10, {NumaUsage.name: NumaUsage.ring})
    ring = store.of_collectors[NumaUsage.name].ring
    for count, refused in ((128, 0), (129, 1)):
        of_nodes = {pod_key(str(number)): UsageSample(1.0, 2.0) for number in range(count)}
        store.append(Snapshot(NOW + count, None, None, series={NumaUsage.name: of_nodes}), {})
        assert (ring.series_count, ring.refused_samples) == (128, refused)


@pytest.mark.parametrize(("scale", "days"), [(CPU_SCALE, 7), (MEMORY_SCALE, 30)])
def test_scores_of_cpu_count_half_after_a_week_and_those_of_memory_after_30_days(scale, days):
    histogram = ScoreHistogram(scale, 3_600.0)
    histogram.add(0.3, NOW)
    histogram.add(0.9, NOW + days * DAY)
    weights = histogram.export().weights
    assert sorted(weights[weights > 0]) == [0.5, 1.0]


def test_multipliers_of_cpu_are_factors_and_those_of_memory_are_differences():
    assert CPU_SCALE.grid == pytest.approx(np.geomspace(0.25, 0.25 * 1.015**172, 173))
    assert MEMORY_SCALE.grid == pytest.approx(np.arange(-400, 401) / 400)
    corrections = [scale.correction(2.0, 0.5, 0.1) for scale in (CPU_SCALE, MEMORY_SCALE)]
    assert corrections == pytest.approx([0.2, 0.15])


def test_memory_is_held_to_half_of_the_target():
    shares = [node_calibration._target_share(resource, 1.0) for resource in (Resource.CPU, Resource.MEMORY)]
    assert shares == pytest.approx([0.01, 0.005])
