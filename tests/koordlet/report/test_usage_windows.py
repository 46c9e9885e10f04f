"""Usage of NUMA nodes from a tree of files to the report."""

import os

import pytest

from koordlet import node_observer
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import NoCluster
from koordlet.collectors.numa import NUMA_TICKS
from koordlet.metric_cache.aggregation import TimeWindow
from koordlet.metric_cache.ring import RingCache
from koordlet.report import usage_windows
from koordlet.report.builder import ReportBuilder
from koordlet.samples import NumaSample, SeriesKey, SeriesKind, UsageSample
from tests.host_trees import numa_tree
from tests.host_trees.plain_files import V1, PlainHost

MIB = 1 << 20
NOW = 1_700_000_000.0
PAGE = os.sysconf("SC_PAGE_SIZE")


def series(**numa):
    found = {}
    for name, sample in numa.items():
        found[SeriesKey(SeriesKind.NUMA_NODE, name[1:])] = sample.node
        if sample.system is not None:
            found[SeriesKey(SeriesKind.NUMA_SYSTEM, name[1:])] = sample.system
    return found


def test_means_are_of_the_window_and_of_known_values_only():
    ring = RingCache(1800.0, NUMA_TICKS)
    ring.append(NOW - 400, series(n0=NumaSample(UsageSample(9.0, 9.0), None)))
    ring.append(
        NOW - 10,
        series(
            n0=NumaSample(UsageSample(1.0, 100.0), UsageSample(0.5, 40.0)),
            n1=NumaSample(UsageSample(2.0, 50.0), None),
        ),
    )
    ring.append(NOW, series(n0=NumaSample(UsageSample(3.0, 300.0), None)))
    assert usage_windows.numa_means(ring, TimeWindow(NOW, 300.0)) == {
        0: NumaSample(UsageSample(2.0, 200.0), UsageSample(0.5, 40.0)),
        1: NumaSample(UsageSample(2.0, 50.0), None),
    }
    assert usage_windows.numa_means(ring, TimeWindow(NOW + 1000, 300.0)) == {}


def test_a_machine_with_one_node_has_no_means():
    assert usage_windows.numa_means(RingCache(1800.0, NUMA_TICKS), TimeWindow(NOW, 300.0)) == {}


def status_of(root, cpulists, used_bytes):
    """Return the report of a host whose four CPUs each use a tenth of a core times their number."""
    host = PlainHost(root, V1)
    host.set_node(1000, 200 * MIB)
    host.set_group(host.pod("a"), 0.0, 50 * MIB)
    host.write(
        host.pod("a"), "memory.numa_stat", "hierarchical_anon=9 N0=256 N1=512\nhierarchical_unevictable=0 N0=0 N1=0\n"
    )
    numa_tree.set_nodes(host.host_root, cpulists, used_bytes)
    observer = node_observer.NodeObserver(root, 100)
    cluster = NoCluster(observer.machine_capacity())
    ticks = dict.fromkeys(range(4), 1000)
    for second in range(NUMA_TICKS + 1):
        numa_tree.set_cpu_ticks(host.host_root, ticks)
        observer.observe(NOW + second, cluster)
    reports = ReportBuilder(observer)
    forecast = reports.predict(NOW + NUMA_TICKS, cluster, spec_in_force.predict_policy(None))
    built = reports.build(forecast, cluster, None).to_wire()
    observer.collector.close()
    return built["nodeMetric"]


def test_the_report_has_the_usage_of_each_numa_node(tmp_path):
    reported = status_of(tmp_path, ["0,1", "2-3"], [100 * MIB, 50 * MIB])["numaUsages"]
    assert [each["numaNodeID"] for each in reported] == [0, 1]
    assert [each["nodeUsage"]["resources"]["memory"] for each in reported] == [str(100 * MIB), str(50 * MIB)]
    assert [each["systemUsage"]["resources"]["memory"] for each in reported] == [
        str(100 * MIB - 256 * PAGE),
        str(50 * MIB - 512 * PAGE),
    ]


@pytest.mark.parametrize(("cpulists", "used"), [([], []), (["0-3"], [150 * MIB])], ids=["no NUMA", "one node"])
def test_the_report_of_a_machine_with_one_node_has_no_numa_usages(tmp_path, cpulists, used):
    assert "numaUsages" not in status_of(tmp_path, cpulists, used)
