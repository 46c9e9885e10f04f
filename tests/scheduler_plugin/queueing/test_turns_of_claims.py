"""Claims of reserved pods are read each at its time."""

from scheduler_plugin.queueing import reservations
from tests.scheduler_plugin.queueing.test_reservations import Scene


def test_a_pod_whose_claims_are_read_later_delays_no_other():
    scene = Scene(a=10, b=30)
    scene.schedule("first", cores=1, claims=["c1"])
    assert [each.pod.metadata.name for each in scene.wait(reservations._FIRST_CHECK_SECONDS)] == ["first"]
    scene.schedule("second", cores=1, claims=["c2"])
    assert [each.pod.metadata.name for each in scene.wait(reservations._FIRST_CHECK_SECONDS)] == ["second"]
