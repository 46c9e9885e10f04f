"""A replay: predictors that learn, policies without a prediction, and what is recorded."""

import numpy as np
import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordctl.backtest import replay
from koordctl.backtest.node_history import GIB, BoundPod, NodeHistory, SeriesStay, nodes_of_one_resource
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.samples import Resource

STEP, STEPS = 300, 300


def policy(predictor, **changes):
    return PredictParameters(predictor=predictor, horizon_seconds=900, **changes)


def alternating(pods=2, steps=STEPS):
    """Return a node of pods that use half a core and a whole one in turn."""
    used = np.tile([0.5, 1.0], (pods, steps // 2))
    stays = [SeriesStay(number, 0, steps) for number in range(pods)]
    return nodes_of_one_resource("n1", stays, used, [2.0] * pods, STEP, Resource.CPU)


@pytest.mark.parametrize(
    ("learning", "least", "most"),
    [
        (policy("calibrated", members=("percentile",)), 2.0, 2.2),
        (policy("max", members=("calibrated", "percentile")), 2.0, 2.4),
    ],
)
def test_a_calibrated_peak_is_near_the_usage_after_a_day_of_forecasts(learning, least, most):
    # Two pods never use more than 2 cores together; the mean and five deviations of them are 1.5 + 5 * 0.5.
    plain = policy("n-sigma-v2", members=("percentile",))
    for policies in ([learning], [plain, learning]):
        found = replay.replay(alternating(), policies, [STEPS - 2], 1)[Resource.CPU]
        assert least <= found.peaks[-1, 0] <= most
        assert found.oracle.tolist() == [2.0]
    assert found.peaks[0, 0] == pytest.approx(4.0, abs=0.01)


def test_a_policy_without_a_prediction_has_no_peak_and_the_others_are_predicted():
    policies = [policy("n-sigma-v2"), policy("max", members=("max",)), policy("n-sigma-v2")]
    peaks = replay.replay(alternating(steps=40), policies, [10, 38], 1)[Resource.CPU].peaks
    assert np.isnan(peaks).tolist() == [[False] * 2, [True] * 2, [False] * 2]
    assert peaks[0].tolist() == peaks[2].tolist()


def mixed(capacity=None, node_cores=9.0):
    """Return a node with a pod of each class and of none, which uses 1, 2, 4 ... cores and as many GiB."""
    classes = [PriorityClass.PROD, PriorityClass.NONE, PriorityClass.MID, PriorityClass.BATCH, PriorityClass.FREE]
    bound = [
        BoundPod(each or "none", each, 1_500, 3 * GIB, mid_cpu_request_millis=700 * (each is PriorityClass.MID),
                 mid_memory_request_bytes=5 * GIB * (each is PriorityClass.MID))
        for each in classes
    ]  # fmt: skip
    used = np.array([[2.0**number] * 4 for number in range(5)])
    usage = {Resource.CPU: used, Resource.MEMORY: used * GIB}
    whole = {Resource.CPU: np.full(4, node_cores), Resource.MEMORY: np.full(4, node_cores * GIB)}
    return NodeHistory(
        "n1", STEP, bound, [SeriesStay(number, 0, 4) for number in range(5)], usage, whole, capacity, capacity
    )


def recorded(node, resource):
    return replay.replay(node, [policy("n-sigma-v2")], [1], 2)[resource]


@pytest.mark.parametrize(("resource", "unit", "others"), [(Resource.CPU, 1, 0), (Resource.MEMORY, GIB, 8 + 16)])
def test_prod_pods_and_those_of_no_class_are_predicted_and_others_use_what_is_left(resource, unit, others):
    found = recorded(mixed(node_cores=34.5), resource)
    requested = 1.5 if resource is Resource.CPU else 3.0
    assert found.usage.tolist() == [3 * unit]
    assert found.requests.tolist() == [2 * requested * unit]
    assert found.other_usage.tolist() == [(others + 34.5 - 31) * unit]
    assert found.mid_requests.tolist() == [0.7 if resource is Resource.CPU else 5 * GIB]
    below = recorded(mixed(node_cores=30.0), resource)  # read a moment before the pods
    assert below.other_usage.tolist() == [others * unit]


@pytest.mark.parametrize(("capacity", "oracle"), [(None, 1.0 + 1.5), (WholeAmounts(64_000, 64 * GIB), 1.0 + 2.0)])
def test_only_the_pods_of_a_trace_never_use_more_than_they_request(capacity, oracle):
    assert recorded(mixed(capacity), Resource.CPU).oracle.tolist() == [oracle]
