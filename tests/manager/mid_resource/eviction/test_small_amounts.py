"""Pods and reports at the smallest amounts, and texts at the longest."""

import dataclasses
import datetime as dt

import pytest

from api_types import names
from api_types.kubernetes import pods
from manager.mid_resource.eviction import pod_view, shortage
from manager.mid_resource.eviction.pod_view import Metadata, OwnerReference, Pod
from manager.mid_resource.eviction.shortage import Trigger, Watched
from tests.manager.mid_resource.eviction.test_mid_only import at, reported, survey
from tests.manager.mid_resource.eviction.test_shortage import POLICY, seen


def pod(requests=None, *, priority=7000, **metadata):
    resources = pods.ResourceRequirements(requests=requests or {})
    return Pod(
        metadata=Metadata(name="p", namespace="a", uid="u", **metadata),
        spec=pods.PodSpec(node_name="n", priority=priority, containers=[pods.Container(resources=resources)]),
        status=pods.PodStatus(phase="Running", start_time="2026-11-21T12:00:00Z"),
    )


def staying(*given):
    return pod_view.node_pods(given, "n", {}, ())


@pytest.mark.parametrize(("amount", "counts"), [("0", False), ("1", True)])
def test_a_pod_of_another_class_counts_from_the_smallest_mid_request_on(amount, counts):
    found = staying(pod({names.MID_CPU: amount}, priority=9000))
    assert len(found.staying) == counts
    assert (found.requested(names.MID_CPU), found.requested(names.MID_MEMORY)) == (int(counts), 0)


@pytest.mark.parametrize(("requests", "amounts"), [({}, (0, 0)), ({"cpu": "1"}, (1000, 0)), ({"memory": "1"}, (0, 1))])
def test_a_keeper_needs_what_it_requests_and_nothing_else(requests, amounts):
    owner = OwnerReference(kind="ReplicaSet", name="o", uid="o", controller=True)
    (keeper,) = pod_view.keepers([pod(requests, priority=9000, owner_references=[owner])], "n")
    assert keeper.requests == amounts


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("-000000000000005", -5),
        ("-0000000000000005", 0),
        ("2147483647", 2**31 - 1),
        ("2147483648", 0),
        ("-2147483648", -(2**31)),
        ("-2147483649", 0),
        ("five", 0),
    ],
)
def test_a_priority_is_a_number_of_32_bits_and_at_most_16_characters(text, number):
    (found,) = staying(pod(annotations={names.ANNOTATION_EVICTION_PRIORITY: text})).staying
    assert found.eviction_priority == number


@pytest.mark.parametrize(("priority", "counted"), [(None, 0), (0, 0), (7000, 7000), (-5, -5)])
def test_a_pod_without_a_label_has_its_priority_as_sub_priority_too(priority, counted):
    (found,) = staying(pod({names.MID_CPU: "1"}, priority=priority)).staying
    assert (found.priority, found.sub_priority, found.eviction_priority) == (counted, counted, 0)


@pytest.mark.parametrize(("beyond", "count"), [(dt.timedelta(), 2), (dt.timedelta(seconds=1), 1)])
def test_reports_are_consecutive_up_to_the_age_of_a_fresh_one(beyond, count):
    first = seen((999, 100))
    second = dataclasses.replace(first, sample=first.sample + POLICY.fresh + beyond)
    found = shortage.watched(shortage.watched(Watched(), first, POLICY), second, POLICY)
    assert found.reports == {Trigger.MID_CPU: count}


@pytest.mark.parametrize(
    ("capacity", "used", "lower", "amount"),
    [
        (0, 5, None, 0),
        (1000, 799, None, 0),
        (1000, 800, None, 20),
        (1000, 809, None, 20),
        (1000, 1000, None, 220),
        (1000, 900, 50, 400),
        (1000, 800, 90, 0),
    ],
)
def test_memory_is_released_from_80_percent_down_to_78_or_what_is_configured(capacity, used, lower, amount):
    assert shortage.memory_to_release(capacity, used, 80, lower) == amount


@pytest.mark.parametrize(("a", "b"), [((0, 0), None), (None, (0, 0)), (None, None)])
def test_a_node_without_reported_requests_is_listed_as_one_of_which_prod_requests_nothing(a, b):
    found = survey(a=reported(prod=a), b=reported(prod=b))
    assert found.due((), 9, at(0)) == ["a", "b"]
