"""State between the calls of one scheduling cycle."""

import numpy as np

from scheduler_plugin.extender.pending_cycle import Passed, PendingCycle, Placement
from scheduler_plugin.state.node_columns import RowChanges
from scheduler_plugin.state.pod_info import PodInfo
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

POD = PodInfo(uid="u", key="default/web", is_prod=True, is_pinned=False, estimate=(0, 0))


def test_the_passed_candidates_are_taken_once():
    pending = PendingCycle()
    passed = Passed(b"{", POD, np.array([1, 2]), NOW)
    pending.pass_on(passed)
    assert pending.take_passed() is passed
    assert pending.take_passed() is None


PLACEMENT = Placement("u", 1)
PASSED = Passed(b"{", POD, np.array([1, 2]), NOW)


def changes():
    """Return the changes of four rows."""
    result = RowChanges()
    result.grow(4)
    return result


def test_a_response_is_for_its_request_and_expires():
    pending, rows = PendingCycle(), changes()
    pending.expect(PASSED, b"request", b"response", PLACEMENT, rows.version)
    assert pending.response_to(b"request", rows, NOW + 1.9) == (b"response", PLACEMENT)
    assert pending.response_to(b"request", rows, NOW + 2) is None
    assert pending.response_to(b"another", rows, NOW) is None


def test_a_response_is_dropped_when_a_candidate_changed():
    pending, rows = PendingCycle(), changes()
    pending.expect(PASSED, b"request", b"response", PLACEMENT, rows.version)
    rows.changed(3)
    assert pending.response_to(b"request", rows, NOW) == (b"response", PLACEMENT)
    rows.changed(2)
    assert pending.response_to(b"request", rows, NOW) is None


def test_a_new_cycle_drops_the_previous_one_but_not_the_pods():
    pending = PendingCycle()
    pod = factories.pod()
    pending.keep_pod(pod, 100)
    pending.pass_on(PASSED)
    pending.expect(PASSED, b"request", b"response", PLACEMENT, 0)
    pending.begin("uid")
    assert pending.take_passed() is None
    assert pending.response_to(b"request", changes(), NOW) is None
    assert pending.take_pod(pod.metadata.uid) is pod
    assert pending.take_pod(pod.metadata.uid) is None


def test_the_oldest_pods_are_evicted_by_number_and_by_size():
    pending = PendingCycle()
    for index in range(4097):
        pending.keep_pod(factories.pod(f"p{index}") if index in (0, 1) else factories.pod(uid=f"u{index}"), 10)
    assert pending.take_pod("uid-p0") is None
    assert pending.take_pod("uid-p1") is not None
    pending.keep_pod(factories.pod("large"), 32 * 1024**2)
    assert pending.take_pod("u4096") is None
    assert pending.take_pod("uid-large") is not None


def test_a_pod_of_a_new_try_replaces_the_one_of_the_last_try():
    pending, pod, again = PendingCycle(), factories.pod(), factories.pod()
    pending.keep_pod(pod, 20 * 1024**2)
    pending.keep_pod(factories.pod("other"), 0)
    pending.keep_pod(again, 20 * 1024**2)
    assert pending.find_pod(pod.metadata.uid) is again, "the size of the last try counts as well"
    assert pending.find_pod("uid-other") is not None
    pending.keep_pod(pod, -1)
    assert pending.find_pod(pod.metadata.uid) is None
    assert pending.find_pod("uid-other") is not None


def test_the_stored_response_ends_the_cycle_of_its_pod():
    pending, rows = PendingCycle(), changes()
    pending.begin("u")
    pending.expect(PASSED, b"request", b"response", PLACEMENT, rows.version)
    assert pending.response_to(b"another", rows, NOW) is None
    assert pending.is_of("u")
    assert pending.response_to(b"request", rows, NOW) is not None
    assert not pending.is_of("u")
