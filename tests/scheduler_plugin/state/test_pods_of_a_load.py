"""Mid requests of a node's pods, the version of its pods, and the part of one pod."""

from api_types.node_metric import mid_report
from scheduler_plugin.state import node_report
from scheduler_plugin.state.node_load import NodeLoad
from scheduler_plugin.state.node_report import NodeReport
from scheduler_plugin.state.pod_info import AssignedPod


def assigned(name, estimate=(1000, 100), *, at=0.0, mid=(0, 0)):
    return AssignedPod(f"uid-{name}", f"ns/{name}", True, estimate, *mid, at, None, 0, True)


def reported(updated, aggregated=(), **pod_usage):
    table = node_report.table({f"ns/{name}": (*usage, 1) for name, usage in pod_usage.items()}, 3)
    return NodeReport(updated, 60, (5000, 500), (70, 7), None, dict(aggregated), table, None, mid_report.MidReport())


def mid(load):
    return load.mid_cpu_millis, load.mid_memory_bytes


def test_mid_requests_are_those_of_the_assigned_pods():
    load = NodeLoad(2, system_in_prod=False)
    assert mid(load) == (0, 0)
    load.assign(assigned("a", mid=(300, 40)))
    load.assign(assigned("b", mid=(20, 5)))
    assert mid(load) == mid(load.from_scratch()) == (320, 45)
    load.assign(assigned("a", mid=(100, 10)))
    assert mid(load) == (120, 15)
    load.remove("ns/b")
    assert mid(load) == (100, 10)


def test_each_change_of_the_pods_gives_a_version_that_was_not_there_before():
    load = NodeLoad(2, system_in_prod=False)
    versions = [load.pods_version]
    load.assign(assigned("a"))
    versions.append(load.pods_version)
    load.assign(assigned("a", (5, 5)))
    versions.append(load.pods_version)
    load.remove("ns/a")
    versions.append(load.pods_version)
    load.assign(assigned("a"))
    versions.append(load.pods_version)
    assert len(set(versions)) == 5
    load.remove("ns/unknown")
    assert load.pods_version == versions[-1]


def test_the_part_of_one_pod_is_its_share_of_the_sums():
    load = NodeLoad(2, system_in_prod=False)
    old, new = assigned("old", at=-100.0), assigned("new", (400, 30), at=-10.0, mid=(7, 8))
    load.assign(old)
    load.assign(new)
    load.set_report(reported(0.0, old=(200, 20)))
    alone = load.alone(new)
    assert (alone.node_delta, alone.prod_delta, alone.prod_usage) == ([400, 30], [400, 30], [0, 0])
    assert (alone.node_estimated, mid(alone), list(alone.pods)) == ([400, 30], (7, 8), ["ns/new"])
    alone = load.alone(old)
    assert (alone.node_delta, alone.prod_usage, alone.node_estimated) == ([0, 0], [200, 20], [1000, 100])


def test_the_part_of_one_pod_keeps_the_time_of_the_report_before():
    load = NodeLoad(2, system_in_prod=False)
    old = assigned("old", at=-100.0)
    load.assign(old)
    load.set_report(reported(0.0, old=(200, 20)))
    load.set_report(reported(None, old=(200, 20)))
    assert load.node_delta == [0, 0]
    for copy in (load.alone(old), load.from_scratch()):
        assert (copy.update_time, copy.node_delta, copy.prod_usage) == (0.0, [0, 0], [200, 20])


def test_the_part_of_one_pod_without_a_report_is_its_estimate():
    load = NodeLoad(2, system_in_prod=False)
    load.assign(assigned("a"))
    assert load.alone(assigned("a")).plain() == (1000, 100)


def test_a_statistic_is_there_if_the_report_has_it_for_the_window():
    load = NodeLoad(2, system_in_prod=False)
    load.assign(assigned("a", (10, 1)))
    assert not load.has_aggregated("p95", 300)
    load.set_report(reported(0.0, {("p95", 300): (7000, 700)}))
    assert load.has_aggregated("p95", 300)
    assert not load.has_aggregated("p95", 600)
    assert not load.has_aggregated("p99", 300)
    assert load.aggregated("p95", 300) == (7010, 701)
    assert load.aggregated("p99", 300) == load.plain() == (5010, 501)
