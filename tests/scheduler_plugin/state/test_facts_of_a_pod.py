"""Facts of a pod that decisions read, and the record of a pod on its node."""

import msgspec
import pytest

from scheduler_plugin.state import pod_info
from scheduler_plugin.state.estimator import EstimatorArgs
from scheduler_plugin.state.pod_info import PodInfo
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

ARGS = EstimatorArgs(("cpu", "memory"), {"cpu": 100, "memory": 100})
MID = {"priority": 7500, "requests": {"kubernetes.io/mid-cpu": "2k", "kubernetes.io/mid-memory": "5"}}


def read(**fields):
    return pod_info.read(factories.pod(**fields), ARGS)


def assigned(**fields):
    return pod_info.assigned(factories.pod(node="n1", **fields), ARGS, NOW, observed=True)


@pytest.mark.parametrize(("priority", "is_prod"), [(9500, True), (7500, False), (5500, False), (3500, False)])
def test_only_a_pod_of_the_class_prod_is_prod(priority, is_prod):
    found = read(priority=priority)
    assert (found.is_prod, found.priority) == (is_prod, priority)


def test_a_pod_without_a_priority_has_priority_zero():
    assert read(priority=None).priority == 0


def test_mid_requests_are_read_and_a_pod_without_them_holds_none():
    found = read(**MID)
    assert (found.mid_cpu_millis, found.mid_memory_bytes, found.estimate) == (2_000, 5, (2_000, 5))
    found = read(requests={"cpu": "1"})
    assert (found.mid_cpu_millis, found.mid_memory_bytes) == (0, 0)
    assert (found.waited_seconds, found.demand, found.is_exempt) == (0, None, False)


def test_a_pod_with_an_amount_that_cannot_be_parsed_has_no_estimate_and_holds_nothing():
    found = read(requests={"cpu": "lots", "kubernetes.io/mid-cpu": "2k"})
    assert (found.estimate, found.is_prod, found.mid_cpu_millis, found.mid_memory_bytes) == (None, False, 0, 0)
    record = assigned(requests={"cpu": "lots"})
    assert (record.estimate, record.is_prod, record.mid_cpu_millis) == (None, False, 0)


def test_a_pod_of_which_only_its_names_are_known_holds_nothing():
    found = PodInfo("uid", "default/web", True, False, None)
    assert (found.mid_cpu_millis, found.mid_memory_bytes, found.priority) == (0, 0, 0)
    assert (found.is_exempt, found.waited_seconds) == (False, 0)


@pytest.mark.parametrize(
    ("requests", "estimate"),
    [
        ({"kubernetes.io/mid-cpu": "2k"}, (2_000, 0)),
        ({"kubernetes.io/mid-memory": "5"}, (0, 5)),
        ({}, None),
    ],
)
def test_an_estimate_counts_unless_it_is_zero_in_every_resource(requests, estimate):
    assert assigned(priority=7500, requests=requests).estimate == estimate


def condition(pod, status):
    """Return the pod with that status of its first condition."""
    changed = [msgspec.structs.replace(each, status=status) for each in pod.status.conditions]
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=changed))


def test_a_condition_counts_by_its_type_while_it_is_true():
    pod = factories.pod(scheduled=-20, initialized=-10)
    assert pod_info.true_since(pod, "PodScheduled") == NOW - 20
    assert pod_info.true_since(pod, "Initialized") == NOW - 10
    assert pod_info.true_since(pod, "Ready") is None
    assert pod_info.true_since(condition(pod, "False"), "PodScheduled") is None


@pytest.mark.parametrize(("scheduled", "at"), [(-20, NOW - 20), (None, NOW)])
def test_the_time_of_a_record_is_that_of_its_condition_or_the_present(scheduled, at):
    assert assigned(scheduled=scheduled).timestamp == at


def test_the_signature_changes_with_the_spec_and_the_conditions_alone():
    before = assigned(requests={"cpu": "1"}, scheduled=-20).signature
    assert before == assigned(requests={"cpu": "1"}, scheduled=-20, labels={"a": "b"}, phase="Running").signature
    assert before != assigned(requests={"cpu": "2"}, scheduled=-20).signature
    assert before != assigned(requests={"cpu": "1"}, scheduled=-21).signature
