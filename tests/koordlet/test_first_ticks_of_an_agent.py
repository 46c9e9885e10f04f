"""What is known after the first ticks: counters begin at 0, and the time of the newest sample is that of the node."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from koordlet.samples import SYSTEM, UNRESERVED_SYSTEM
from tests.host_trees.plain_files import V2
from tests.koordlet.idle_agent import idle_agent
from tests.koordlet.one_node import OneNode, StaticCluster, bound_pod

CID, SANDBOX = "c" * 64, "5" * 64


def test_every_counter_of_an_agent_begins_at_0(tmp_path):
    registry = CollectorRegistry()
    with idle_agent(tmp_path, registry):
        found = {
            (sample.name, *sample.labels.values()): sample.value
            for metric in registry.collect()
            for sample in metric.samples
            if sample.name.endswith(("_total", "_sum", "_count"))
        }
    assert len(found) > 10
    assert {name: value for name, value in found.items() if value} == {}


@pytest.fixture
def node(tmp_path):
    made = OneNode(
        tmp_path, StaticCluster(bound_pod("a", container_ids=frozenset({CID}))), V2, measures_containers=True
    )
    made.pod_cores = {"a": 0.5}
    for name in (CID, SANDBOX):
        made.host.set_group(made.host.container("a", name), 0.0, 1 << 20)
    yield made
    made.observer.collector.close()


@pytest.mark.parametrize(("synced", "groups"), [(True, 2), (False, 3)])
def test_containers_that_no_pod_names_are_left_out_once_the_pods_are_known(node, synced, groups):
    node.cluster.pods.synced = synced
    node.run(2)
    assert node.observer.collector.statistics.groups == groups


def test_the_newest_sample_of_the_node_is_of_the_last_tick_that_measured_it(node):
    node.run(1)
    assert node.observer.newest_at_seconds is None, "a rate needs two readings"
    node.run(2)
    measured_at = node.now
    assert node.observer.newest_at_seconds == measured_at
    node.run(2, after_writing=(node.host.host_root.proc_root / "meminfo").unlink)
    assert node.now == measured_at + 2
    assert node.observer.newest_at_seconds == measured_at


@pytest.mark.parametrize("unknown", ["capacity", "allocatable"])
def test_while_the_reservation_is_unknown_so_is_the_unreserved_system(node, unknown):
    setattr(node.cluster, unknown, None)
    node.run(3)
    assert SYSTEM in node.observer.newest
    assert UNRESERVED_SYSTEM not in node.observer.newest
