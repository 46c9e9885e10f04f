"""Bounds of the memory that reports share, and of what an estimate reads."""

import msgspec
import numpy as np
import pytest

from api_types.kubernetes import pods, priority_and_qos
from scheduler_plugin.state import aggregated_usage, blindness, estimator
from scheduler_plugin.state.aggregated_usage import AggregatedUsage
from scheduler_plugin.state.estimator import EstimatorArgs
from tests.scheduler_plugin import factories

FACTORS = "scheduling.koordinator.sh/load-estimated-scaling-factors"
AFTER_SCHEDULED = "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("names", "is_shared"),
    [
        ([f"x{index}" for index in range(32)], True),
        ([f"x{index}" for index in range(33)], False),
        (["y" * 16], True),
        (["y" * 17], False),
        (["y" * 17, "avg"], False),
    ],
)
def test_64_keys_of_16_letters_are_shared_by_all_nodes(names, is_shared):
    """Each statistic has one window, and is its own longest one."""
    shared = aggregated_usage._positions.cache_info().currsize
    windows = [{"duration": "7m", "usage": {name: {"resources": {"cpu": "1"}} for name in names}}]
    found = AggregatedUsage(msgspec.Raw(msgspec.json.encode(windows)), ("cpu",))
    assert len(found) == 2 * len(names)
    assert aggregated_usage._positions.cache_info().currsize == shared + is_shared


def test_a_window_without_usage_is_left_out_and_the_next_one_counts():
    windows = [
        {"duration": "5m", "usage": None},
        {"duration": "soon", "usage": {"avg": {"resources": {"cpu": "9"}}}},
        {"usage": {"avg": {"resources": {"cpu": "2"}}}},
        {"duration": "1m", "usage": {"avg": {"resources": {"cpu": "1"}}, "p99": {"resources": None}}},
    ]
    found = AggregatedUsage(msgspec.Raw(msgspec.json.encode(windows)), ("cpu",))
    assert dict(found) == {("avg", 0): (1000,), ("avg", 60 * 10**9): (1000,)}


def test_an_estimate_has_an_entry_for_each_resource_within_its_limits():
    args = EstimatorArgs(("cpu", "memory", "gpu"), {})
    assert args.vector({"memory": 2**60, "cpu": -(2**60), "disk": 7}) == (-(2**53), 2**53, 0)


def test_a_pod_customises_nothing_unless_that_is_allowed():
    args = EstimatorArgs(("cpu",), {"cpu": 100}, seconds_after_scheduled=60)
    assert not args.with_demand
    pod = factories.pod(annotations={FACTORS: '{"cpu": 50}', AFTER_SCHEDULED: "5"})
    assert estimator.scaling_factors(pod, args) == {"cpu": 100}
    assert estimator.forced_until(pod, args, 100.0, None) == 160.0


@pytest.mark.parametrize(
    ("text", "integers"),
    [
        (None, None),
        ("", None),
        ("null", None),
        ("{}", {}),
        ('{"a": null, "b": 2}', {"a": 0, "b": 2}),
        (f'{{"a": {LARGEST}, "b": {-LARGEST}}}', {"a": LARGEST, "b": -LARGEST}),
        (f'{{"a": {LARGEST + 1}}}', None),
        (f'{{"a": 1, "b": {-LARGEST - 2}}}', None),
        ('{"a": 1.5}', None),
        ('{"a": true}', None),
        ('{"a": "\ud800"}', None),
    ],
)
def test_an_annotation_of_integers_is_read_whole_or_not_at_all(text, integers):
    assert estimator.integer_map(text) == integers


@pytest.mark.parametrize(
    ("text", "factors"),
    [('{"cpu": 50}', {"cpu": 50, "memory": 70}), ("{}", {"cpu": 85, "memory": 70}), ("{", {"cpu": 85, "memory": 70})],
)
def test_factors_of_a_pod_replace_those_of_the_arguments_one_by_one(text, factors):
    args = EstimatorArgs(("cpu", "memory"), {"cpu": 85, "memory": 70}, allow_customize=True)
    assert estimator.scaling_factors(factories.pod(annotations={FACTORS: text}), args) == factors


@pytest.mark.parametrize(
    ("requests", "factor", "estimate"),
    [
        ({}, 85, 250),
        ({"cpu": "0"}, 85, 250),
        ({"cpu": "1m"}, 50, 1),
        ({"cpu": "1m"}, 49, 0),
        ({"cpu": "1"}, 0, 0),
        ({"cpu": "1"}, -50, -500),
        ({"cpu": "1e999"}, 100, 2**63),
    ],
)
def test_the_floor_is_for_a_pod_without_an_amount_and_all_else_is_scaled(requests, factor, estimate):
    pod = factories.pod(requests=requests)
    args = EstimatorArgs(("cpu",), {"cpu": factor})
    of_class = priority_and_qos.priority_class(pod)
    assert estimator.estimate(pod, args, of_class, pods.requests(pod.spec)) == {"cpu": estimate}


@pytest.mark.parametrize(
    ("scheduled", "initialized", "initialized_at", "until"),
    [
        (None, None, 50.0, None),
        (0, 0, 50.0, None),
        (1, None, 50.0, 101.0),
        (1, 2, None, 101.0),
        (1, 2, 50.0, 52.0),
        (None, 2, None, None),
        (-5, -5, 50.0, None),
    ],
)
def test_seconds_count_from_the_initialisation_or_else_from_the_assignment(
    scheduled, initialized, initialized_at, until
):
    args = EstimatorArgs(("cpu",), {}, seconds_after_scheduled=scheduled, seconds_after_initialized=initialized)
    assert estimator.forced_until(factories.pod(), args, 100.0, initialized_at) == until


@pytest.mark.parametrize(("now", "expired"), [(189.0, 0), (190.0, 1), (280.0, 2), (1000.0, 3)])
def test_a_report_expires_at_its_age_and_a_missing_one_never(now, expired):
    updated_at = np.array([100.0, np.nan, 10.0, 190.0])
    assert blindness.count_expired(updated_at, 180.0, now) == expired
