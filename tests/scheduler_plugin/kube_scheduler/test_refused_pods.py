"""Refused pods are woken when a node passes, in order, and never more than the nodes have room for."""

import json

import numpy as np
import pytest

from scheduler_plugin.kube_scheduler import refused_pods
from scheduler_plugin.kube_scheduler.refused_pods import WakeCause
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, node, pod_document


class Scene:
    """Answers over nodes of 100 cores, a limit of 65 %, and a monotonic clock."""

    def __init__(self, **cores_used):
        self.parts = factories.parts()
        self.monotonic = 1000.0
        for name, cores in cores_used.items():
            self.parts.cluster.node_changed(node(name))
            self.use(name, cores)

    def use(self, name, cores):
        self.parts.cluster.metric_changed(factories.metric(name, usage={"cpu": str(cores), "memory": "1Gi"}))

    def ask(self, name, cores=1, priority=9500, requests=None, **more):
        """Ask about a pod, and report the rows that refuse it."""
        requests = requests or {"cpu": str(cores), "memory": "1Mi"}
        answers = self.parts.answers
        answers.show(json.dumps(pod_document(name, priority=priority, requests=requests, **more)).encode(), NOW)
        codes = answers.ask(f"uid-{name}", NOW).codes
        if codes is not None:
            answers.refuse(f"uid-{name}", np.packbits(codes != 0, bitorder="little").tobytes())

    def woken(self, seconds=0.25):
        self.monotonic += seconds
        woken = [each for each in self.parts.refused.choose(NOW, self.monotonic) if each is not None]
        return [pod.key.removeprefix("default/") for pod in woken]


def test_a_pod_is_woken_once_its_node_passes_again():
    scene = Scene(a=90, b=90)
    scene.ask("web")
    assert scene.woken() == []
    scene.use("b", 10)
    assert scene.woken() == ["web"]
    assert scene.parts.refused.woken[WakeCause.COOLED] == 1


def test_a_woken_pod_is_not_woken_again_before_it_is_refused_again():
    scene = Scene(a=90)
    scene.ask("web")
    scene.use("a", 10)
    assert scene.woken() == ["web"]
    assert [scene.woken(seconds) for seconds in (10, 6)] == [[], []]
    scene.use("a", 90)
    scene.ask("web")
    scene.use("a", 10)
    assert scene.woken() == ["web"]


def test_a_pod_that_passed_is_bound_or_is_gone_is_forgotten():
    scene = Scene(a=90)
    scene.ask("placed")
    scene.ask("deleted")
    scene.use("a", 10)
    scene.parts.answers.reserve("uid-placed", "a", NOW)
    scene.parts.answers.gone("uid-deleted", "default/deleted")
    assert scene.woken() == []


def test_no_more_pods_are_woken_than_the_node_has_room_for():
    scene = Scene(a=90, b=90)
    for index in range(10):
        scene.ask(f"p{index}", cores=10)
    scene.use("a", 30)  # 35 cores are left: four pods of 8.5 by estimate
    assert scene.woken() == ["p0", "p1", "p2", "p3"]
    assert scene.woken(1) == []
    scene.use("b", 50)  # 15 cores: one more
    assert scene.woken(1) == ["p4"]


def test_more_important_pods_are_woken_first():
    scene = Scene(a=90)
    scene.ask("older", cores=20, priority=9000)
    scene.ask("important", cores=20, priority=9500)
    scene.use("a", 40)
    assert scene.woken() == ["important"]


def test_where_too_many_wait_a_greedy_tenant_drops_its_own_pods(monkeypatch):
    scene = Scene(a=90)
    monkeypatch.setattr(refused_pods, "MOST_PODS", 4)
    scene.ask("prod")
    scene.ask("modest", priority=7000, namespace="modest")
    for index in range(6):
        scene.ask(f"greedy{index}", priority=7000, namespace="greedy")
    scene.ask("later")
    assert (len(scene.parts.refused), scene.parts.refused.evicted) == (4, 5)
    scene.use("a", 10)
    assert scene.woken() == ["prod", "later", "modest/modest", "greedy/greedy0"]


@pytest.mark.parametrize("count", [100, 2000])
def test_a_more_important_pod_gets_the_room_however_many_others_wait(count):
    scene = Scene(a=90)
    for index in range(count):
        scene.ask(f"low{index}", cores=20 + index / 1000, priority=9100, namespace="evil")
    scene.woken()
    scene.ask("important", cores=25, priority=9900)
    scene.use("a", 40)
    assert scene.woken() == ["important"]


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
        scene.ask(f"m{index}", requests={"kubernetes.io/mid-cpu": "2000"}, priority=7000)
    offer(5)
    assert scene.woken() == ["m0", "m1"]


def test_pods_beyond_a_quota_are_woken_as_far_as_what_leaves_it_goes():
    scene = Scene(a=10)
    scene.parts.vectors.mid_quotas.namespace_changed("shop", '{"cpu": "4"}')
    two = {"kubernetes.io/mid-cpu": "2000"}
    for name in ("x", "y"):
        scene.parts.cluster.pod_changed(factories.pod(name, namespace="shop", node="a", requests=two), NOW)
    for index in range(3):
        scene.ask(f"m{index}", requests=two, priority=7000, namespace="shop")
    assert scene.woken() == []
    for name in ("x", "y"):
        scene.parts.cluster.pod_deleted("shop", name)
    assert scene.woken() == ["shop/m0", "shop/m1"]
    assert scene.woken() == []


def test_a_round_begins_at_once_when_the_end_of_mid_emergency_frees_all_nodes():
    scene = Scene(a=10)
    scene.parts.vectors.frozen = True
    scene.ask("mid", requests={"kubernetes.io/mid-cpu": "2000"}, priority=7000)
    assert scene.parts.refused.begins_round(1000.0)
    assert scene.woken() == []
    assert not scene.parts.refused.begins_round(1000.1)
    scene.parts.vectors.frozen = False
    assert scene.parts.refused.begins_round(1000.2)
    assert scene.woken() == ["mid"]
