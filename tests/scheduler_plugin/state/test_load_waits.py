"""A Prod pod that load alone refuses everywhere for too long is placed on the least loaded node."""

import json

import pytest

from scheduler_plugin.config import loader
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, node, pod_document, request

BOUND = 60


class Scene:
    """Nodes of 100 cores, by the cores used, a limit of 65 %, and a monotonic clock."""

    def __init__(self, *, bound=BOUND, **cores_used):
        self.clock = factories.Clock()
        self.parts = factories.parts({"softAfterSeconds": bound}, monotonic=self.clock)
        self.nodes = list(cores_used)
        for name, cores in cores_used.items():
            self.parts.cluster.node_changed(node(name))
            self.use(name, cores)

    def use(self, name, cores):
        self.parts.cluster.metric_changed(factories.metric(name, usage={"cpu": str(cores), "memory": "1Gi"}))

    def pod(self, name="web", priority=9500):
        return pod_document(name, priority=priority, requests={"cpu": "1", "memory": "1Mi"})

    def filter(self, name="web", priority=9500):
        """Return the names of the nodes that pass."""
        body = request(self.pod(name, priority), self.nodes)
        return json.loads(self.parts.extender.filter(body, NOW))["NodeNames"]

    def best(self, name="web"):
        """Return the node with the best score."""
        scores = json.loads(self.parts.extender.prioritize(request(self.pod(name), self.nodes), NOW))
        return max(scores, key=lambda each: each["Score"])["Host"]


def test_after_the_bound_the_pod_gets_the_least_loaded_node():
    scene = Scene(a=90, b=70, c=80)
    assert scene.filter() == []
    scene.clock.seconds = BOUND - 1
    assert scene.filter() == []
    scene.clock.seconds = BOUND
    assert scene.filter() == ["a", "b", "c"]
    assert scene.best() == "b"
    assert scene.parts.waits.placed == 1


def test_it_stays_so_for_that_pod_until_it_is_bound_and_for_no_other_pod():
    scene = Scene(a=90)
    scene.filter()
    scene.clock.seconds = BOUND
    assert scene.filter() == scene.filter() == ["a"]
    assert scene.filter("other") == []
    scene.parts.extender.shown(factories.pod("web", node="a"), NOW)
    scene.parts.cluster.pod_deleted("default", "web")
    assert scene.filter() == []


@pytest.mark.parametrize("priority", [7500, 5500, 3500])
def test_only_prod_pods_are_placed_despite_load(priority):
    scene = Scene(a=90)
    scene.filter(priority=priority)
    scene.clock.seconds = 10 * BOUND
    assert scene.filter(priority=priority) == []


def test_without_a_bound_a_pod_waits_as_before():
    scene = Scene(bound=None, a=90)
    scene.filter()
    scene.clock.seconds = 10**6
    assert scene.filter() == []
    assert len(scene.parts.waits) == 0


def test_a_negative_bound_is_a_problem():
    with pytest.raises(loader.InvalidConfiguration, match="softAfterSeconds"):
        loader.parse({"pluginConfig": [{"name": "LoadAwareScheduling", "args": {"softAfterSeconds": -1}}]})
