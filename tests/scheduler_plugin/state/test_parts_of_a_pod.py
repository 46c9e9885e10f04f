"""Parts of a pod that decide whether and how it counts."""

import msgspec
import pytest

from api_types.kubernetes import pods, priority_and_qos
from scheduler_plugin.state import estimator, pod_info
from scheduler_plugin.state.estimator import EstimatorArgs
from scheduler_plugin.state.node_load import NodeLoad
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.state.test_node_load import assigned, report

RESERVE = {"scheduling.koordinator.sh/reserve-pod": "true"}


def with_containers(*requests, init=(), **metadata):
    """Build a running pod whose containers have these requests."""

    def listed(several):
        return [{"name": f"c{index}", "resources": {"requests": each}} for index, each in enumerate(several)]

    document = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", **metadata},
        "spec": {"nodeName": "n1", "containers": listed(requests), "initContainers": listed(init)},
        "status": {"phase": "Running"},
    }
    return msgspec.convert(document, type=pods.Pod)


def test_the_annotation_of_a_placeholder_is_known():
    assert {pod_info.names.ANNOTATION_RESERVE_POD: "true"} == RESERVE


@pytest.mark.parametrize(
    ("pod", "counts"),
    [
        (with_containers({"cpu": "1"}), True),
        (with_containers({"cpu": "1"}, annotations=RESERVE), False),
        (with_containers(annotations=RESERVE), False),
        (with_containers({"kubernetes.io/mid-cpu": "1"}, annotations=RESERVE), True),
        (with_containers({"kubernetes.io/mid-memory": "1"}, annotations=RESERVE), True),
        (with_containers({"cpu": "1"}, {"kubernetes.io/mid-cpu": "1"}, annotations=RESERVE), True),
        (with_containers({"cpu": "1"}, init=[{"kubernetes.io/mid-cpu": "1"}], annotations=RESERVE), True),
    ],
)
def test_a_placeholder_counts_only_if_any_container_requests_mid(pod, counts):
    assert pod_info.counts_on_its_node(pod) is counts


@pytest.mark.parametrize(
    ("kinds", "is_pinned"),
    [([], False), (["ReplicaSet"], False), (["DaemonSet"], True), (["Node"], True), (["ReplicaSet", "Node"], True)],
)
def test_a_pod_with_an_owner_of_one_node_is_pinned(kinds, is_pinned):
    owners = [{"kind": kind, "name": "o", "uid": "x"} for kind in kinds]
    assert pod_info.is_pinned(with_containers(ownerReferences=owners)) is is_pinned


@pytest.mark.parametrize(
    ("priority", "label", "is_exempt"),
    [
        (None, None, False),
        (0, "true", True),
        (9500, "false", False),
        (1_999_999_999, None, False),
        (2_000_000_000, None, True),
        (2_000_001_000, "true", True),
    ],
)
def test_system_critical_pods_and_those_with_the_label_are_exempt(priority, label, is_exempt):
    labels = {} if label is None else {"koordinator.sh/skip-load-aware": label}
    assert pod_info.is_exempt(factories.pod(priority=priority, labels=labels)) is is_exempt


@pytest.mark.parametrize(
    ("limit", "millis"), [("1m", 1), ("84m", 84), ("85m", 85), ("86m", 85), ("0", 85), ("100m", 85), ("200m", 170)]
)
def test_a_limit_below_the_scaled_request_caps_it_and_a_limit_of_zero_does_not(limit, millis):
    pod = factories.pod(requests={"cpu": "100m"}, limits={"cpu": limit})
    of_class = priority_and_qos.priority_class(pod)
    found = estimator.estimate(pod, EstimatorArgs(("cpu",), {"cpu": 85}), of_class, {"cpu": 100})
    assert found == {"cpu": millis}


@pytest.mark.parametrize("reported", [None, report()])
def test_a_resource_that_a_pod_is_estimated_at_zero_of_adds_nothing(reported):
    load = NodeLoad(2, system_in_prod=False)
    if reported:
        load.set_report(reported)
    load.assign(assigned("p", (100, 0)))
    assert load.node_estimated == [100, 0]
    assert load.node_delta == ([100, 0] if reported else [0, 0])
    load.remove("ns/p")
    assert load.sums() == NodeLoad(2, system_in_prod=False).sums()[:2] + load.sums()[2:]
    assert (load.node_estimated, load.node_delta, load.prod_delta) == ([0, 0], [0, 0], [0, 0])


def test_a_pod_that_is_reported_with_its_whole_estimate_adds_nothing():
    load = NodeLoad(2, system_in_prod=False)
    load.set_report(report({"p": (100, 7)}, ["p"], updated=0.0))
    load.assign(assigned("p", (100, 7), at=0.0))
    assert (load.node_delta, load.prod_delta, load.prod_usage) == ([0, 0], [0, 0], [100, 7])


@pytest.mark.parametrize(
    ("pod", "estimate"),
    [
        (factories.pod(requests={"cpu": "100m"}), (85,)),
        (factories.pod(priority=3500, requests={"cpu": "100m"}), None),
        (factories.pod(requests={"cpu": "lots"}), None),
    ],
)
def test_an_estimate_of_zero_and_one_of_an_unreadable_pod_do_not_count(pod, estimate):
    args = EstimatorArgs(("cpu",), {"cpu": 85})
    assert pod_info.assigned(pod, args, 5.0, observed=True).estimate == estimate


def test_an_assigned_pod_has_the_time_of_its_condition_else_the_present_one():
    args = EstimatorArgs(("cpu",), {"cpu": 85}, seconds_after_scheduled=10)
    scheduled = pod_info.assigned(factories.pod(scheduled=-30), args, 5.0, observed=False)
    assert (scheduled.timestamp, scheduled.forced_until) == (factories.NOW - 30, factories.NOW - 20)
    fresh = pod_info.assigned(factories.pod(), args, 5.0, observed=False)
    assert (fresh.timestamp, fresh.forced_until, fresh.observed) == (5.0, 15.0, False)


@pytest.mark.parametrize(("after_scheduled", "until"), [(None, None), (0, None), (-1, None), (1, 101.0)])
def test_an_estimate_is_forced_for_a_positive_time_only(after_scheduled, until):
    args = EstimatorArgs(("cpu",), {}, seconds_after_scheduled=after_scheduled)
    assert estimator.forced_until(factories.pod(), args, 100.0, 50.0) == until


@pytest.mark.parametrize(("initialized", "until"), [(None, 110.0), (50.0, 51.0)])
def test_the_time_after_initialisation_comes_first_even_if_it_ends_earlier(initialized, until):
    args = EstimatorArgs(("cpu",), {}, seconds_after_scheduled=10, seconds_after_initialized=1)
    assert estimator.forced_until(factories.pod(), args, 100.0, initialized) == until
