"""A pod counts on its node from the scores on, and stops when it is clear that it does not run there."""

import json

import pytest

from scheduler_plugin.queueing import reservations
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, node, pod_document, request


class Scene:
    """An extender over nodes with growing usage, and a clock."""

    def __init__(self, **cores_used):
        self.now, self.monotonic = NOW, 1000.0
        self.parts = factories.parts(monotonic=lambda: self.monotonic)
        for name, cores in cores_used.items():
            self.parts.cluster.node_changed(node(name))
            self.parts.cluster.metric_changed(factories.metric(name, usage={"cpu": str(cores), "memory": "1Gi"}))

    def schedule(self, name="web", nodes=("a", "b"), cores=10, claims=(), **more):
        """Call filter and prioritize as kube-scheduler does; return the scores."""
        pod = pod_document(name, requests={"cpu": str(cores), "memory": "1Gi"}, **more)
        pod["spec"]["volumes"] = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
        extender = self.parts.extender
        passed = json.loads(extender.filter(request(pod, list(nodes)), self.now))["NodeNames"]
        extender.reserve(self.now, self.monotonic)
        if len(passed) < 2:
            return {}
        scores = json.loads(extender.prioritize(request(pod, passed), self.now))
        extender.reserve(self.now, self.monotonic)
        return {each["Host"]: each["Score"] for each in scores}

    def counted(self):
        return {
            pod.key.removeprefix("default/"): entry.name
            for entry in self.parts.cluster.entries.values()
            for pod in entry.load.pods.values()
        }

    def wait(self, seconds):
        """Let time pass as the housekeeping does; return the reservations whose claims are read."""
        self.now += seconds
        self.monotonic += seconds
        due = self.parts.reservations.due(self.monotonic)
        self.parts.cluster.expire_assumed()
        return due


def test_the_node_with_the_one_best_score_counts_the_pod_at_once():
    scene = Scene(a=10, b=30)
    scene.schedule()
    assert scene.counted() == {"web": "a"}


def test_one_of_equal_nodes_is_not_guessed():
    scene = Scene(a=10, b=10)
    scene.schedule()
    assert scene.counted() == {}


def test_a_burst_spreads_without_any_bind_call():
    scene = Scene(a=10, b=23, c=50)
    for index in range(5):
        scene.schedule(f"p{index}", nodes=("a", "b", "c"))
    assert sorted(scene.counted().values()) == ["a", "a", "a", "b", "b"]


def test_a_reservation_lasts_five_seconds():
    scene = Scene(a=10, b=30)
    scene.schedule()
    scene.wait(4.9)
    assert scene.counted() == {"web": "a"}
    assert scene.wait(0.2) == []
    assert scene.counted() == {}
    assert len(scene.parts.reservations) == 0


def test_a_tenant_whose_pods_wait_for_volumes_ends_no_reservation_of_others(monkeypatch):
    monkeypatch.setattr(reservations, "_MOST", 4)
    scene = Scene(a=10, b=30)
    scene.schedule("victim", claims=["c"])
    for index in range(6):
        scene.schedule(f"p{index}", cores=0.1, claims=["c"], namespace="evil")
    assert list(scene.counted()) == ["victim", "evil/p3", "evil/p4", "evil/p5"]


def test_the_bind_call_replaces_it():
    scene = Scene(a=10, b=30)
    scene.schedule()
    scene.parts.extender.bind(b'{"PodName":"web","PodNamespace":"default","PodUID":"uid-web","Node":"b"}', scene.now)
    assert scene.counted() == {"web": "b"}
    scene.wait(30)
    assert scene.counted() == {"web": "b"}


def test_a_failed_binding_ends_it_also_after_the_bind_call():
    scene = Scene(a=10, b=30)
    scene.schedule()
    scene.parts.extender.bind(b'{"PodName":"web","PodNamespace":"default","PodUID":"uid-web","Node":"a"}', scene.now)
    refused = factories.waiting_pod("web", scheduled="False", reason="Unschedulable")
    scene.parts.reservations.pod_changed(refused, scene.now, scene.monotonic)
    assert scene.counted() == {"web": "a"}
    failed = factories.waiting_pod("web", scheduled="False", reason="SchedulerError")
    scene.parts.reservations.pod_changed(failed, scene.now, scene.monotonic)
    assert scene.counted() == {}


@pytest.mark.parametrize(("after", "counted"), [(0.1, {"web": "a"}), (0.5, {})])
def test_podscheduled_false_ends_it_unless_it_belongs_to_the_attempt_before(after, counted):
    scene = Scene(a=10, b=30)
    scene.schedule()
    scene.wait(after)
    changed = factories.waiting_pod("web", scheduled="False")
    scene.parts.reservations.pod_changed(changed, scene.now, scene.monotonic)
    assert scene.counted() == counted


def test_a_pod_with_claims_counts_as_long_as_a_volume_is_provisioned_for_the_node():
    scene = Scene(a=10, b=30)
    scene.schedule(claims=["data"])
    for _ in range(20):
        for due in scene.wait(2):
            assert due.next_claims() == ["data"]
            scene.parts.reservations.checked(due, "a", scene.now, scene.monotonic)
        assert scene.counted() == {"web": "a"}
    for _ in range(4):
        for due in scene.wait(15):
            due.next_claims()
            scene.parts.reservations.checked(due, None, scene.now, scene.monotonic)
    assert scene.counted() == {}


@pytest.mark.parametrize(("claims", "times"), [(1, [1, 2, 3, 4, 5]), (17, [1, 4, 5, 8])], ids=["one", "one too many"])
def test_claims_without_a_node_end_the_reservation_after_five_seconds_if_all_were_read(claims, times):
    """Of 17 claims 16 are read at once: the pod stays for three seconds more, until the last one is read."""
    scene = Scene(a=10, b=30)
    scene.schedule(claims=[f"c{index}" for index in range(claims)])
    read_at = []
    for step in range(1, 20):
        for due in scene.wait(0.5):
            read_at.append(step / 2)
            due.next_claims()
            scene.parts.reservations.checked(due, None, scene.now, scene.monotonic)
        assert len(scene.counted()) == len(scene.parts.reservations) == (step / 2 < times[-1])
    assert read_at == times
    assert scene.parts.reservations.begun == 1


def test_claims_that_cannot_be_read_leave_the_pod_on_its_node():
    """A single error at the wrong time must not free the room that its volume will take."""
    scene = Scene(a=10, b=30)
    scene.schedule(claims=["data"])
    for _ in range(10):
        for due in scene.wait(3):
            due.next_claims()
            scene.parts.reservations.unread(due, scene.now, scene.monotonic)
        assert scene.counted() == {"web": "a"}


def test_a_claim_corrects_the_node():
    scene = Scene(a=10, b=30)
    scene.schedule(claims=["data"])
    (due,) = scene.wait(1)
    scene.parts.reservations.checked(due, "b", scene.now, scene.monotonic)
    assert scene.counted() == {"web": "b"}
    assert scene.parts.reservations.moved == 1


def test_twenty_pods_that_wait_for_volumes_stay_below_the_limits():
    scene = Scene(**{f"n{index}": 10 for index in range(10)})
    names = tuple(f"n{index}" for index in range(10))
    for index in range(40):
        scene.schedule(f"p{index}", nodes=names, cores=20, claims=["data"])
    per_node = list(scene.counted().values())
    assert max(per_node.count(name) for name in names) <= 3  # 17 of 100 cores each: 10 + 3 * 17 <= 65


def test_a_nomination_keeps_the_pod_on_the_nominated_node():
    scene = Scene(a=10, b=30)
    scene.schedule()
    nominated = factories.waiting_pod("web", scheduled="False", nominated="b")
    scene.parts.reservations.pod_changed(nominated, scene.now, scene.monotonic)
    for _ in range(10):
        for due in scene.wait(2):
            scene.parts.reservations.checked(due, None, scene.now, scene.monotonic)
    assert scene.counted() == {"web": "b"}
    cleared = factories.waiting_pod("web", scheduled="False")
    scene.parts.reservations.pod_changed(cleared, scene.now, scene.monotonic)
    assert scene.counted() == {}


def test_no_reservation_outlives_the_longest_wait_for_a_volume():
    scene = Scene(a=10, b=30)
    scene.schedule(claims=["data"])
    for _ in range(50):
        for due in scene.wait(15):
            scene.parts.reservations.checked(due, "a", scene.now, scene.monotonic)
    assert scene.counted() == {}
