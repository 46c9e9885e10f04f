"""Refused pods are woken when a node passes, in order, and never more than the nodes have room for."""

import itertools

import pytest

from scheduler_plugin.queueing import refused_pods
from scheduler_plugin.queueing.refused_pods import WakeCause
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, node, pod_document, request


class Scene:
    """An extender over nodes of 100 cores, a limit of 65 %, and a monotonic clock."""

    def __init__(self, **cores_used):
        self.parts = factories.parts()
        self.monotonic = 1000.0
        for name, cores in cores_used.items():
            self.parts.cluster.node_changed(node(name))
            self.use(name, cores)

    def use(self, name, cores):
        self.parts.cluster.metric_changed(factories.metric(name, usage={"cpu": str(cores), "memory": "1Gi"}))

    def filter(self, name, nodes, cores=1, priority=9500, **more):
        pod = pod_document(name, priority=priority, requests={"cpu": str(cores), "memory": "1Mi"}, **more)
        return self.parts.extender.filter(request(pod, nodes), NOW)

    def woken(self, seconds=0.25):
        self.monotonic += seconds
        retries = [each for each in self.parts.refused.choose(NOW, self.monotonic) if each is not None]
        return [retry.pod.key.removeprefix("default/") for retry in retries]


def test_a_pod_is_woken_once_its_node_passes_again():
    scene = Scene(a=90, b=90)
    scene.filter("web", ["a", "b"])
    assert scene.woken() == []
    scene.use("b", 10)
    assert scene.woken() == ["web"]
    assert scene.parts.refused.woken[WakeCause.COOLED] == 1


def test_a_woken_pod_is_not_woken_again_before_kube_scheduler_had_time_to_try_it():
    scene = Scene(a=90)
    scene.filter("web", ["a"])
    scene.use("a", 10)
    assert scene.woken() == ["web"]
    assert scene.woken(10) == []
    assert scene.woken(6) == ["web"]


def test_a_pod_that_passed_is_bound_or_is_gone_is_forgotten():
    scene = Scene(a=90)
    scene.filter("placed", ["a"])
    scene.filter("deleted", ["a"])
    scene.use("a", 10)
    scene.filter("placed", ["a"])
    scene.parts.waiting.changed(factories.waiting_pod("deleted"))
    scene.parts.waiting.gone("default", "deleted")
    assert scene.woken() == []


def test_no_more_pods_are_woken_than_the_node_has_room_for():
    scene = Scene(a=90, b=90)
    for index in range(10):
        scene.filter(f"p{index}", ["a", "b"], cores=10)
    scene.use("a", 30)  # 35 cores are left: four pods of 8.5 by estimate
    assert scene.woken() == ["p0", "p1", "p2", "p3"]
    assert scene.woken(1) == []
    scene.use("b", 50)  # 15 cores: one more
    assert scene.woken(1) == ["p4"]


def test_at_most_twenty_pods_a_second_are_woken_oldest_first():
    scene = Scene(**{f"n{index}": 90 for index in range(60)})
    names = list(scene.parts.vectors.rows)
    for index in range(50):
        scene.filter(f"p{index:02d}", names)
    for name in names:
        scene.use(name, 5)
    woken = [scene.woken(0.5) for _ in range(5)]
    assert list(itertools.chain(*woken)) == [f"p{index:02d}" for index in range(50)]
    assert [len(each) for each in woken] == [20, 10, 10, 10, 0]


def test_a_node_that_was_not_named_wakes_at_growing_intervals():
    scene = Scene(hot=90, cool=10)
    pauses, since = [], 0.0
    for _ in range(40 * 4):
        scene.filter("web", ["hot"])  # kube-scheduler refuses the cool node for reasons of its own
        since += 0.25
        if scene.woken(0.25):
            pauses.append(since)
            since = 0.0
    assert pauses[:5] == pytest.approx([0.25, 1, 2, 4, 8])
    assert scene.parts.refused.woken[WakeCause.COOLED] == 0


def test_more_important_pods_are_woken_first():
    scene = Scene(a=90)
    scene.filter("older", ["a"], cores=20, priority=9000)
    scene.filter("important", ["a"], cores=20, priority=9500)
    scene.use("a", 40)
    assert scene.woken() == ["important"]


def test_where_too_many_wait_a_greedy_tenant_drops_its_own_pods(monkeypatch):
    scene = Scene(a=90)
    monkeypatch.setattr(refused_pods, "MOST_PODS", 4)
    scene.filter("prod", ["a"])
    scene.filter("modest", ["a"], priority=7000, namespace="modest")
    for index in range(6):
        scene.filter(f"greedy{index}", ["a"], priority=7000, namespace="greedy")
    scene.filter("later", ["a"])
    assert (len(scene.parts.refused), scene.parts.refused.evicted) == (4, 5)
    scene.use("a", 10)
    assert scene.woken() == ["prod", "later", "modest/modest", "greedy/greedy0"]


@pytest.mark.parametrize("count", [100, 2000])
def test_a_more_important_pod_gets_the_room_however_many_others_wait(count):
    scene = Scene(a=90)
    for index in range(count):
        scene.filter(f"low{index}", ["a"], cores=20 + index / 1000, priority=9100, namespace="evil")
    scene.woken()
    scene.filter("important", ["a"], cores=25, priority=9900)
    scene.use("a", 40)
    assert scene.woken() == ["important"]


def test_a_namespace_whose_pods_never_pass_in_kube_scheduler_lets_others_be_woken():
    scene = Scene(a=90)
    for index in range(1000):
        scene.filter(f"selector{index}", ["a"], cores=0.1 + index / 10_000, namespace="evil")
    scene.use("a", 10)
    for _ in range(20):
        scene.woken()
    scene.use("a", 90)
    scene.filter("web", ["a"], cores=1)
    scene.use("a", 10)
    assert "web" in [*scene.woken(), *scene.woken()]


def test_mid_pods_are_woken_only_as_far_as_the_mid_of_the_node_goes():
    scene = Scene(a=10)
    policy = {"midColocationPolicy": {"enable": True}}

    def offer(cores):
        status = {
            "allocated": {"prod": {"cpu": "0", "memory": "0"}, "mid": {}},
            "prodReclaimableMetric": {"resource": {"resources": {"cpu": str(cores), "memory": "8Gi"}}},
        }
        usage = {"cpu": "10", "memory": "10Gi"}
        scene.parts.cluster.metric_changed(factories.metric("a", usage=usage, status=status, spec=policy))

    offer(1)
    for index in range(4):
        pod = pod_document(f"m{index}", requests={"kubernetes.io/mid-cpu": "2000"}, priority=7000)
        scene.parts.extender.filter(request(pod, ["a"]), NOW)
    offer(5)
    assert scene.woken() == ["m0", "m1"]


def test_a_pod_that_no_longer_exists_waits_no_longer():
    scene = Scene(a=90)
    scene.filter("gone", ["a"])
    scene.parts.refused.is_gone("uid-gone")
    assert len(scene.parts.refused) == 0
    assert scene.parts.refused.refusals == 1
