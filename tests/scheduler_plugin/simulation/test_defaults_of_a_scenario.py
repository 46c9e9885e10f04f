"""What a scenario of series and its objects have where nothing is stated."""

import math

import numpy as np
import pytest

from api_types.kubernetes import pods
from scheduler_plugin.simulation import scenario, usage_file
from scheduler_plugin.simulation.scenario import Scenario, SimulatedNode, SimulatedPod
from tests.scheduler_plugin import factories


def from_series(node_count=1, **more):
    return scenario.from_series(
        node_count=node_count,
        node_cpu_millis=2000,
        node_memory_bytes=4096,
        cpu_millis=[np.array([100.0, 300.0])],
        request_cpu_millis=[500],
        step_seconds=60,
        steps=5,
        **more,
    )


def test_a_series_alone_is_a_prod_pod_that_arrives_at_once_and_never_ends():
    (only,) = from_series().pods
    assert (only.at_seconds, only.lifetime_seconds) == (0, math.inf)
    assert only.usage.tolist() == [[100, 300], [0, 0]]
    assert pods.requests(only.pod.spec) == {"cpu": 500, "memory": 0}
    assert only.pod.spec.priority == 9000


def test_a_pod_uses_the_memory_of_its_series_or_all_that_it_requests():
    (requested,) = from_series(request_memory_bytes=[1024]).pods
    (measured,) = from_series(request_memory_bytes=[1024], memory_bytes=[np.array([7.0, 9.0])]).pods
    assert requested.usage[1].tolist() == [1024, 1024]
    assert measured.usage[1].tolist() == [7, 9]
    assert pods.requests(measured.pod.spec)["memory"] == 1024


@pytest.mark.parametrize(("count", "first", "last"), [(1, "0", "0"), (10, "0", "9"), (11, "00", "10"), (0, "", "")])
def test_nodes_are_equal_and_numbered_from_0(count, first, last):
    made = from_series(node_count=count).nodes
    assert [each.node.metadata.name for each in made[:1] + made[-1:]] == [
        f"node-{each}" for each in (first, last) if each
    ]
    for each in made:
        assert each.node.status.allocatable == {"cpu": "2000m", "memory": "4096", "pods": "110"}
        assert each.node.status.capacity == each.node.status.allocatable


def test_a_simulated_node_has_no_other_usage_and_an_agent_that_reports():
    one = SimulatedNode(factories.node())
    assert (one.other_usage, one.recorded, one.agent_reports) == ((0, 0), None, True)


def test_a_simulated_pod_is_there_from_the_beginning():
    one = SimulatedPod(factories.pod(), np.zeros((2, 1)))
    assert (one.at_seconds, one.lifetime_seconds) == (0, math.inf)
    assert Scenario([], [one], 60.0, 1).report_interval_seconds == 60


def test_the_usage_of_a_file_ends_with_the_step_of_its_last_line():
    found = usage_file.series("pod,seconds,cpu,memory\na/x,0,1,1\na/x,60,2,2\nb/y,61,3,3\n", 60)
    assert {name: each.tolist() for name, each in found.items()} == {
        "a/x": [[1000, 2000], [1, 2]],
        "b/y": [[3000, 3000, 3000], [3, 3, 3]],
    }
