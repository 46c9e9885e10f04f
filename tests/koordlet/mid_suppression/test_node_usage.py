import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.cluster.pods import PodTable
from koordlet.mid_suppression import node_usage
from koordlet.mid_suppression.node_usage import CoresByPart, CpuWaits, RecentUsage, SuppressionPods
from koordlet.samples import NODE, SYSTEM, SeriesKey, SeriesKind, UsageSample, pod_key
from tests.koordlet.mid_suppression.suppressed_node import limited
from tests.koordlet.one_node import bound_pod

PROD = SeriesKey(SeriesKind.CLASS, PriorityClass.PROD)


def members(*pods):
    table = PodTable()
    for pod in pods:
        table.put(pod)
    return SuppressionPods.sort(table)


def samples(prod=3.0, **pods):
    cores = {NODE: 8.0, SYSTEM: 1.0, PROD: prod, **{pod_key(name): used for name, used in pods.items()}}
    return {key: UsageSample(used, 0.0) for key, used in cores.items()}


@pytest.mark.parametrize("missing", [NODE, SYSTEM, PROD])
def test_nothing_is_known_while_the_node_or_all_pods_are_unknown(missing):
    some = samples()
    del some[missing]
    assert node_usage.from_samples(some, members()) is None


@pytest.mark.parametrize("missing", [{SYSTEM}, {PROD}, {SYSTEM, PROD}])
def test_usage_of_new_and_ended_pods_counts_as_that_of_the_system(missing):
    """Of 8 cores 3.5 are measured in pods; a pod without a class, such as a static one, counts as Prod."""
    batch = bound_pod("batch", PriorityClass.BATCH)
    some = samples(web=1.0, static=0.5, mid=1.25, hidden=0.5, batch=0.25)
    some = {key: sample for key, sample in some.items() if key not in missing}
    mid = limited("mid", 1000), limited("hidden", 1000)
    result = node_usage.from_samples(some, members(*mid, batch, bound_pod("web")))
    assert result == CoresByPart(8.0, 1.5, 4.5)


def used(cores):
    return CoresByPart(cores, 0.0, 0.0)


def test_the_mean_is_over_five_seconds():
    recent = RecentUsage()
    for second in range(4):
        recent.add(second, second + 1, used(9.0), 6.5)
        assert recent.mean(second + 1) is None
    recent.add(4, 5, used(4.0), 6.5)
    assert recent.mean(5).node == 8.0
    for second in range(5, 9):
        recent.add(second, second + 1, used(4.0), 6.5)
    assert recent.mean(9).node == 4.0


def test_gaps_are_bridged_and_old_samples_are_not():
    recent = RecentUsage()
    for second in (1, 2, 4, 6, 8):
        recent.add(second - 1, second, used(2.0), 6.5)
    assert recent.mean(8).node == 2.0
    assert recent.mean(12) is None


def test_usage_is_above_the_threshold_after_five_seconds_without_a_gap_in_it():
    recent = RecentUsage()
    for second, cores in enumerate((9.0, 9.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 9.0, 9.0, 9.0, 9.0)):
        recent.add(second, second + 1, used(cores), 8.0)
        assert not recent.is_busy(second + 1)
    recent.add(12, 13, used(9.0), 8.0)
    assert recent.is_busy(13)


def test_after_a_busy_time_the_slow_mean_decides_until_it_falls_below_the_threshold():
    """Its time constant is 20 s: 9 - 2.5 / e = 8.08 cores, then 8.08 * exp(-4 / 20) = 6.6 and exp(-5 / 20): 6.3."""
    recent = RecentUsage()
    recent.add(100.0, 120.0, used(9.0), 6.5)
    for second in range(120, 124):
        recent.add(second, second + 1, used(0.0), 6.5)
        assert recent.is_busy(second + 1)
    recent.add(124, 125, used(0.0), 6.5)
    assert not recent.is_busy(125)


def read_each_minute(waits, *counters, begin=0):
    """Return which pods wait, seen each 5 s, at the end of each minute."""
    seen = []
    for minute, waited in enumerate(counters):
        for second in range(5, 65, 5):
            found = waits.waiting(begin + 60 * minute + second, {"a": waited})
        seen.append(sorted(found))
    return seen


def test_a_pod_that_waits_a_quarter_of_the_time_is_named_and_one_that_waits_less_is_not():
    assert read_each_minute(CpuWaits(), 100.0, 115.0, 129.0, 189.0) == [[], ["a"], [], ["a"]]


def test_nothing_is_kept_of_a_pod_that_is_gone():
    waits = CpuWaits()
    read_each_minute(waits, 0.0, 60.0)
    assert waits.waiting(300.0, {}) == frozenset()
    assert waits.waiting(360.0, {"a": 60.0}) == frozenset()
