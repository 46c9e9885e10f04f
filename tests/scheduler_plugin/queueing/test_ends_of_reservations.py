"""When the tentative place of a pod ends, moves or stays."""

import pytest

from scheduler_plugin.queueing import reservations
from scheduler_plugin.queueing.reservations import Reservations
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW


class Scene:
    def __init__(self):
        self.clock = factories.Clock()
        self.cluster = factories.parts(monotonic=self.clock).cluster
        self.held = Reservations(self.cluster)

    def reserve(self, name="web", node="a", claims=(), **more):
        self.held.reserve(factories.pod(name, **more), node, claims, NOW, self.clock.seconds)

    def at(self, seconds):
        """Return the names of the pods whose claims are to be read at that second, and their reservations."""
        self.clock.seconds = seconds
        self.due = self.held.due(seconds)
        self.cluster.expire_assumed()
        return [each.pod.metadata.name for each in self.due]

    def checked(self, node=None, reservation=None):
        self.held.checked(reservation or self.due[0], node, NOW, self.clock.seconds)

    def places(self):
        return {key.partition("/")[2]: each.name for each in self.cluster.entries.values() for key in each.load.pods}


def test_a_claim_that_names_the_same_node_moves_nothing():
    scene = Scene()
    scene.reserve(claims=["data"])
    scene.at(1)
    scene.checked("a")
    assert (scene.held.moved, scene.places()) == (0, {"web": "a"})
    scene.at(4)
    scene.checked("b")
    scene.at(7)
    scene.checked("b")
    assert (scene.held.moved, scene.held.begun, scene.places()) == (1, 1, {"web": "b"})


def test_an_answer_about_a_reservation_that_was_replaced_changes_nothing():
    scene = Scene()
    scene.reserve(claims=["data"])
    scene.at(1)
    (old,) = scene.due
    scene.held.end("uid-web")
    scene.checked("b", old)
    assert scene.places() == {}
    scene.reserve(node="c", claims=["data"])
    scene.checked("b", old)
    scene.held.unread(old, NOW, 1.0)
    scene.held.still_read(old, NOW, 1.0)
    assert scene.places() == {"web": "c"}


def test_a_confirmed_pod_is_left_to_the_bind_call():
    scene = Scene()
    scene.reserve()
    scene.held.confirmed("uid-web")
    assert (len(scene.held), scene.places()) == (0, {"web": "a"})
    scene.held.end("uid-web")
    scene.held.confirmed("uid-unknown")
    assert scene.places() == {"web": "a"}


def test_a_pod_without_claims_is_never_due_and_ends_after_five_seconds():
    scene = Scene()
    scene.reserve()
    assert (scene.at(1), scene.at(4.5), len(scene.held)) == ([], [], 1)
    assert (scene.at(5), len(scene.held), scene.places()) == ([], 0, {})


@pytest.mark.parametrize("kind", ["claims", "nominated"])
def test_a_pod_that_waits_ends_after_eleven_minutes(kind):
    scene = Scene()
    scene.reserve(claims=["data"] if kind == "claims" else [])
    if kind == "nominated":
        nominated = factories.waiting_pod("web", nominated="a")
        scene.held.pod_changed(nominated, NOW, 0.0)
    for second in range(3, 658, 3):
        if scene.at(second):
            scene.checked("a" if kind == "claims" else None)
    assert scene.places() == {"web": "a"}
    scene.at(675)
    assert (len(scene.held), scene.due, scene.places()) == (0, [], {})


def test_a_nomination_without_a_new_outcome_moves_the_pod_and_a_condition_without_one_ends_nothing():
    scene = Scene()
    scene.reserve()
    nominated = factories.waiting_pod("web", scheduled="False", reason="SchedulerError", nominated="b")
    scene.held.pod_changed(nominated, NOW, 1.0, has_new_outcome=False)
    assert scene.places() == {"web": "b"}
    cleared = factories.waiting_pod("web", scheduled="False", reason="SchedulerError")
    scene.held.pod_changed(cleared, NOW, 2.0, has_new_outcome=False)
    assert (len(scene.held), scene.places()) == (1, {"web": "b"})
    scene.held.pod_changed(cleared, NOW, 2.0)
    assert (len(scene.held), scene.places()) == (0, {})


def test_a_pod_whose_condition_is_not_false_keeps_its_place():
    scene = Scene()
    scene.reserve()
    scene.held.pod_changed(factories.waiting_pod("web"), NOW, 2.0)
    scene.held.pod_changed(factories.waiting_pod("web", scheduled="True"), NOW, 2.0)
    scene.held.pod_changed(factories.waiting_pod("other", scheduled="False"), NOW, 2.0)
    assert scene.places() == {"web": "a"}


def test_claims_are_read_sixteen_at_a_time_in_turns():
    scene = Scene()
    names = [f"c{index}" for index in range(20)]
    scene.reserve(claims=names)
    scene.at(1)
    (reservation,) = scene.due
    assert reservation.next_claims() == names[:16]
    assert reservation.unread == 4
    assert reservation.next_claims() == names[16:] + names[:12]
    assert reservation.next_claims() == names[12:] + names[:8]


def test_the_oldest_reservation_of_the_namespace_with_the_most_makes_room(monkeypatch):
    monkeypatch.setattr(reservations, "_MOST", 3)
    scene = Scene()
    scene.reserve("first", namespace="small")
    scene.reserve("one", namespace="large")
    scene.reserve("two", namespace="large")
    assert len(scene.held) == 3
    scene.reserve("last", namespace="small")
    assert (len(scene.held), scene.held.begun) == (3, 4)
    assert set(scene.places()) == {"first", "two", "last"}
