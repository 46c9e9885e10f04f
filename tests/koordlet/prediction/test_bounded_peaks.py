"""Peaks of ordinary loads over days, as the default predictor gives them: bounded by what can be used at all."""

import math

import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.metric_cache import series as class_series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.predictors import registry
from koordlet.prediction.server import PredictionServer
from koordlet.samples import Resource, Snapshot, UsageSample
from tests.koordlet.prediction.pods import Pod

STEP_SECONDS = 300
STEPS_AN_HOUR = 12
START = 1.7e9
CAPACITY, ALLOCATABLE = WholeAmounts(16_000, 2**36), WholeAmounts(15_500, 2**36)
FOUR = tuple(Pod(f"p{number}", cpu_request_millis=3500) for number in range(4))


class Node:
    """A node of 16 cores whose pods use what a test says, trained every five minutes."""

    def __init__(self):
        self.server = PredictionServer(PredictParameters(), training_interval_seconds=STEP_SECONDS)
        self.steps = 0

    @property
    def hour(self):
        return self.steps / STEPS_AN_HOUR

    def run(self, hours, cores_of, classes=None):
        """Train for so many hours; `cores_of` returns the cores of each pod at an hour; no class is known by None."""
        for _ in range(hours * STEPS_AN_HOUR):
            self.steps += 1
            pods = {uid: UsageSample(cores, 2.0**30) for uid, cores in cores_of(self.hour).items()}
            used = sum(usage.cpu_cores for usage in pods.values())
            at_seconds = START + STEP_SECONDS * self.steps
            snapshot = Snapshot(at_seconds, UsageSample(used + 0.3, 2.0**33), UsageSample(0.3, 2.0**29), pods)
            self.server.train(at_seconds, class_series.series_of(snapshot, classes, Reserved(0.5, 2.0**30)))

    def predict(self, pods=FOUR, predictor="n-sigma-v2"):
        parameters = PredictParameters(predictor=predictor)
        return self.server.predict(START + STEP_SECONDS * self.steps, pods, ALLOCATABLE, parameters, CAPACITY)


def all_prod(*uids):
    return dict.fromkeys(uids, PriorityClass.PROD)


def day_and_night(hour):
    return dict.fromkeys([pod.uid for pod in FOUR], (8 if 9 <= hour % 24 < 21 else 2) / 4)


@pytest.mark.parametrize("predictor", registry.PREDICTORS)
def test_a_week_of_day_and_night_has_no_peak_above_the_capacity(predictor):
    node = Node()
    node.run(7 * 24, day_and_night, all_prod(*(pod.uid for pod in FOUR)))
    found = node.predict(predictor=predictor)
    assert 8.0 <= found.prod[Resource.CPU].peak <= 16.0
    assert found.node[Resource.CPU].peak == 16.0  # mean + 5 deviations is 20 cores


def test_pods_one_by_one_count_at_most_their_cpu_limits():
    limited = [Pod(pod.uid, cpu_request_millis=2000, cpu_limit_millis=2500) for pod in FOUR]
    node = Node()
    node.run(3 * 24, day_and_night, all_prod(*(pod.uid for pod in FOUR)))
    cpu = node.predict(limited).prod[Resource.CPU]
    assert cpu.pod_sum_peak == pytest.approx(4 * 2.5)
    assert node.predict().prod[Resource.CPU].pod_sum_peak > 16.0


def test_after_a_large_pod_left_the_peak_is_at_most_the_capacity():
    steady = dict.fromkeys([pod.uid for pod in FOUR], 1.0)
    node = Node()
    node.run(48, lambda _hour: steady, all_prod(*steady))
    node.run(4, lambda _hour: steady | {"big": 6.0}, all_prod(*steady, "big"))
    node.run(1, lambda _hour: steady, all_prod(*steady))
    cpu = node.predict().prod[Resource.CPU]
    assert cpu.class_peak > 16.0
    assert cpu.peak == 16.0


def test_hours_without_a_list_of_pods_teach_nothing_about_prod():
    """The API server is away while the agent starts, on a node with a Batch pod of 10 cores."""
    usage = {"p": 1.0, "b": 10.0}
    classes = {"p": PriorityClass.PROD, "b": PriorityClass.BATCH}
    node = Node()
    node.run(4, lambda _hour: usage, None)
    node.run(3, lambda _hour: usage, classes)
    found = node.predict([Pod("p", cpu_request_millis=4000), Pod("b", PriorityClass.BATCH)])
    assert found.prod_peak.cpu_millis == 1000
    assert found.prod_reclaimable.cpu_millis == 3000
    assert found.warm_pods == 1  # each pod's own series needs no list


@pytest.mark.parametrize("predictor", registry.PREDICTORS)
def test_a_cold_pod_without_a_request_is_charged_what_it_uses(predictor):
    node = Node()
    node.run(3, lambda _hour: {"p0": 1.0}, all_prod("p0"))
    node.run(1, lambda _hour: {"p0": 1.0, "new": 6.0}, all_prod("p0", "new"))
    pods = [FOUR[0], Pod("new", cpu_request_millis=0, memory_request_bytes=0)]
    found = node.predict(pods, predictor)
    assert (found.warm_pods, found.cold_pods) == (1, 1)
    assert found.prod[Resource.CPU].cold_requests == pytest.approx(6.0)
    assert found.prod[Resource.MEMORY].cold_requests == pytest.approx(2.0**30)
    assert found.prod[Resource.CPU].peak >= 6.0 + 1.0


@pytest.mark.parametrize(("request_millis", "charged"), [(7000, 7.0), (6000, 6.0), (5000, 6.0)])
def test_a_cold_pod_is_charged_the_larger_of_request_and_usage(request_millis, charged):
    node = Node()
    node.run(1, lambda _hour: {"new": 6.0}, all_prod("new"))
    found = node.predict([Pod("new", cpu_request_millis=request_millis), Pod("unseen", cpu_request_millis=250)])
    assert found.prod[Resource.CPU].cold_requests == pytest.approx(charged + 0.25)


def test_a_usage_that_was_never_measured_is_not_charged():
    node = Node()
    node.run(1, lambda _hour: {"new": math.nan}, all_prod("new"))
    node.run(1, lambda _hour: {}, {})
    assert node.predict([Pod("new", cpu_request_millis=500)]).prod[Resource.CPU].cold_requests == 0.5
