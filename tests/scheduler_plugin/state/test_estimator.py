"""Estimator; the expected numbers are those of Koordinator's defaultEstimator."""

import pytest

from api_types.kubernetes import pods, priority_and_qos
from scheduler_plugin.state import estimator
from scheduler_plugin.state.estimator import EstimatorArgs
from tests.scheduler_plugin import factories

RESOURCES = ("cpu", "memory")
FACTORS = "scheduling.koordinator.sh/load-estimated-scaling-factors"
AFTER_SCHEDULED = "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"


def arguments(cpu=85, memory=70, **more):
    return EstimatorArgs(RESOURCES, {"cpu": cpu, "memory": memory}, **more)


def estimated(given=None, **pod):
    made = factories.pod(**pod)
    of_class, requests = priority_and_qos.priority_class(made), pods.requests(made.spec)
    return estimator.estimate(made, given or arguments(), of_class, requests)


def test_a_request_is_scaled():
    assert estimated(requests={"cpu": "4", "memory": "8Gi"}) == {"cpu": 3400, "memory": 6012954214}


def test_the_larger_of_limit_and_request_is_scaled():
    assert estimated(requests={"cpu": "4"}, limits={"cpu": "8"})["cpu"] == 6800


def test_the_limit_caps_the_estimate():
    assert estimated(arguments(cpu=100), requests={"cpu": "4"}, limits={"cpu": "1"})["cpu"] == 1000


def test_halves_round_away_from_zero():
    assert estimated(arguments(50, 50), requests={"cpu": "3m", "memory": "5"}) == {"cpu": 2, "memory": 3}


def test_a_pod_without_requests_is_charged_the_floor():
    assert estimated() == {"cpu": 250, "memory": 209715200}


def test_a_mid_pod_is_charged_its_mid_requests():
    requests = {"kubernetes.io/mid-cpu": "4k", "kubernetes.io/mid-memory": "8Gi"}
    assert estimated(priority=7500, requests=requests) == {"cpu": 3400, "memory": 6012954214}


def test_a_mid_pod_without_mid_requests_is_charged_nothing():
    assert estimated(priority=7500, requests={"cpu": "4"}) == {"cpu": 0, "memory": 0}


def test_a_free_pod_is_charged_nothing():
    assert estimated(priority=3500, requests={"cpu": "4"}) == {"cpu": 0, "memory": 0}


def test_a_batch_pod_with_native_requests_is_charged_the_floor():
    assert estimated(priority=5500, requests={"cpu": "4"}) == {"cpu": 250, "memory": 209715200}


BY_CLASS = {
    "koord-prod": {"cpu": 3400, "memory": 6012954214},
    "koord-mid": {"cpu": 1700, "memory": 3006477107},
    "koord-batch": {"cpu": 850, "memory": 1503238554},
    "koord-free": {"cpu": 0, "memory": 0},
}
OF_EVERY_KIND = {
    "cpu": "4",
    "memory": "8Gi",
    "kubernetes.io/mid-cpu": "2k",
    "kubernetes.io/mid-memory": "4Gi",
    "kubernetes.io/batch-cpu": "1k",
    "kubernetes.io/batch-memory": "2Gi",
}


@pytest.mark.parametrize("qos", ["LSE", "LSR", "LS", "BE", "SYSTEM", None])
@pytest.mark.parametrize("stated", list(BY_CLASS))
def test_a_stated_class_is_charged_the_requests_of_its_class_with_any_qos(stated, qos):
    labels = {"koordinator.sh/priority-class": stated, **({"koordinator.sh/qosClass": qos} if qos else {})}
    assert estimated(priority=None, labels=labels, requests=OF_EVERY_KIND) == BY_CLASS[stated]


@pytest.mark.parametrize("how", ["requests", "limits"])
@pytest.mark.parametrize(
    ("qos", "of_class"),
    [
        ("LSE", "koord-prod"),
        ("LSR", "koord-prod"),
        ("LS", "koord-prod"),
        ("SYSTEM", "koord-prod"),
        ("BE", "koord-batch"),
        (None, "koord-prod"),
    ],
)
def test_a_pod_that_states_no_class_is_charged_by_its_qos(qos, of_class, how):
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    assert estimated(priority=None, labels=labels, **{how: OF_EVERY_KIND}) == BY_CLASS[of_class]


def test_factors_of_the_pod_count_only_if_allowed():
    requests = {"cpu": "4", "memory": "8Gi"}
    annotations = {FACTORS: '{"cpu":150}'}
    assert estimated(requests=requests, annotations=annotations)["cpu"] == 3400
    allowed = arguments(allow_customize=True)
    assert estimated(allowed, requests=requests, annotations=annotations) == {"cpu": 6000, "memory": 6012954214}


@pytest.mark.parametrize("annotation", ['{"cpu":"150"}', '{"cpu":150.0}', '{"cpu":true}', "[]", "{}", "null", "{} x"])
def test_factors_that_are_not_all_integers_are_ignored_together(annotation):
    found = estimated(arguments(allow_customize=True), requests={"cpu": "4"}, annotations={FACTORS: annotation})
    assert found["cpu"] == 3400


def test_seconds_after_initialisation_take_precedence_even_if_they_end_earlier():
    given = arguments(seconds_after_scheduled=180, seconds_after_initialized=10)
    assert estimator.forced_until(factories.pod(), given, -60.0, -30.0) == -20


def test_a_single_second_after_initialisation_counts_and_none_does_not():
    given = arguments(seconds_after_scheduled=180, seconds_after_initialized=1)
    assert estimator.forced_until(factories.pod(), given, -60.0, -30.0) == -29
    none = arguments(seconds_after_scheduled=180, seconds_after_initialized=0)
    assert estimator.forced_until(factories.pod(), none, -60.0, -30.0) == 120


def test_seconds_after_scheduling_count_while_the_pod_is_not_initialised():
    given = arguments(seconds_after_scheduled=180, seconds_after_initialized=10)
    assert estimator.forced_until(factories.pod(), given, -60.0, None) == 120


@pytest.mark.parametrize(("text", "deadline"), [("0", None), ("30", 30.0), ("-5", 180.0), ("x", 180.0), ("+7", 7.0)])
def test_the_pods_own_seconds_switch_off_or_replace_the_arguments(text, deadline):
    given = arguments(allow_customize=True, seconds_after_scheduled=180)
    assert estimator.forced_until(factories.pod(annotations={AFTER_SCHEDULED: text}), given, 0.0, None) == deadline
