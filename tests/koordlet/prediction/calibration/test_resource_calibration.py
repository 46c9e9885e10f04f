"""Tests of the calibrated peak of one resource."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordlet.prediction.calibration.resource_calibration import Level
from koordlet.samples import Resource
from tests.koordlet.prediction.calibration.nodes import STEPS_A_DAY, Node

REQUESTS = np.array([2.0, 4.0, 1.0, 8.0, 4.0, 2.0])
# Peaks and labels of an independent implementation in 64-bit numbers, on the usage of `days_and_nights`.
CALIBRATED_PEAKS = {705: 10.42102413676005, 1000: 9.425699123043216, 1300: 9.554004522678337, 1727: 9.669658379173217}
N_SIGMA_PEAKS = {280: 17.45111288240627, 400: 16.85776629530776}
LABELS = {280: 21, 400: 31, 705: 56, 1000: 81, 1300: 106, 1727: 141}


def days_and_nights(days=6):
    """Return usage of six pods, (pods, steps)."""
    rng = np.random.default_rng(7)
    steps = STEPS_A_DAY * days
    mean = np.array([0.5, 1.0, 0.3, 2.0, 0.8, 0.4])
    hour = np.arange(steps) / STEPS_A_DAY * 2 * np.pi
    wave = 1 + 0.5 * np.sin(hour + np.arange(6)[:, np.newaxis])
    usage = mean[:, np.newaxis] * wave * rng.lognormal(0, 0.3, (6, steps))
    return np.minimum(usage, REQUESTS[:, np.newaxis])


def grown(days, resource=None, **options):
    """Return a node after some days of usage."""
    node = Node(REQUESTS, capacity=32.0, **({} if resource is None else {"resource": resource}), **options)
    for usage in days_and_nights(days).T:
        node.step(usage)
    return node


def test_it_equals_an_independent_implementation():
    node = Node(REQUESTS, capacity=32.0)
    for step, usage in enumerate(days_and_nights().T):
        if step == 700:
            node.replace([2])
        node.step(usage)
        if step in LABELS:
            assert node.calibration.scores.labels == LABELS[step]
            expected = CALIBRATED_PEAKS.get(step) or N_SIGMA_PEAKS[step]
            assert node.peak() == pytest.approx(expected, rel=1e-3)  # the ring has 16-bit numbers


@pytest.mark.parametrize(
    ("labels", "level"), [(23, Level.N_SIGMA), (24, Level.LARGER), (47, Level.LARGER), (48, Level.CALIBRATED)]
)
def test_the_level_follows_the_number_of_labels(labels, level):
    node = Node(REQUESTS, capacity=32.0)
    for number in range(labels):
        node.calibration.scores.add(1.0, 3600.0 * number)
    assert node.calibration.level is level


def test_an_hour_under_throttling_gives_no_label():
    node = grown(1)
    seen = node.calibration.scores.labels
    for number in range(36):
        node.step(days_and_nights(1)[:, -1], is_capped=number % 12 == 0)
    assert node.calibration.scores.labels == seen


def test_an_hour_that_was_not_watched_whole_gives_no_label():
    node = grown(1)
    seen = node.calibration.scores.labels
    node.seconds += 600
    for _ in range(6):
        node.step(days_and_nights(1)[:, -1])
    assert node.calibration.scores.labels == seen


def test_mostly_cold_pods_give_no_label():
    node = Node(REQUESTS, capacity=32.0)
    for step, usage in enumerate(days_and_nights(2).T):
        if step % 12 == 0:
            node.replace([0, 1, 2, 3, 4])
        node.step(usage)
    assert node.calibration.scores.labels == 0


def test_a_pod_that_leaves_counts_nothing_in_the_forecast_under_observation():
    node = grown(2)
    seen = node.calibration.scores.labels
    node.calibration.watch(node.load())
    node.replace(range(6))
    for _ in range(12):
        node.step(np.ones(6))
    assert node.calibration.scores.labels == seen + 1
    assert node.calibration.scores.export().weights[0] == 1.0  # the lowest score, though six new pods use 6 cores


def test_memory_is_at_least_what_the_largest_rise_would_take_it_to():
    node = grown(4, Resource.MEMORY)
    usage = days_and_nights(1)[:, -1]
    jump = usage.copy()
    jump[3] += 4.0
    for number in range(24):
        node.step(jump if number % 12 >= 6 else usage)
    for _ in range(24):
        node.step(usage)
    assert node.peak(0.005) >= min(usage.sum() + 3.9, REQUESTS.sum())


def test_a_rise_of_eight_days_ago_is_forgotten():
    node = grown(2, Resource.MEMORY)
    usage = np.full(6, 0.2)
    for number in range(12):
        node.step(usage + (number > 5) * np.eye(6)[3] * 6)
    for _ in range(STEPS_A_DAY * 8):
        node.step(usage)
    assert node.peak(0.005) < usage.sum() + 6


@pytest.mark.parametrize("resource", [None, Resource.MEMORY])
def test_a_higher_target_never_raises_the_peak(resource):
    node = grown(4, resource)
    peaks = [node.peak(target) for target in (0.005, 0.01, 0.02, 0.05)]
    assert peaks == sorted(peaks, reverse=True)


@given(
    usage=st.lists(st.floats(0, 40), min_size=6, max_size=6),
    replaced=st.sets(st.integers(0, 5)),
    is_memory=st.booleans(),
)
@settings(max_examples=15)
def test_a_peak_is_never_below_the_usage_now(usage, replaced, is_memory):
    node = grown(3, Resource.MEMORY if is_memory else None)
    node.replace(sorted(replaced))
    node.step(usage)
    assert node.peak() >= sum(usage) - 1e-9


@pytest.mark.parametrize("resource", [None, Resource.MEMORY])
def test_a_larger_request_of_a_cold_pod_never_lowers_the_peak(resource):
    node = grown(3, resource)
    node.replace([1])
    node.step(days_and_nights(1)[:, -1])
    peaks = []
    for request in np.linspace(0, 8, 9):
        node.requests[1] = request / 32
        peaks.append(node.peak())
    assert peaks == sorted(peaks)


def test_the_ring_of_256_pods_is_147456_bytes():
    node = Node(np.ones(256), capacity=256.0)
    for _ in range(3):
        node.step(np.ones(256))
    assert node.calibration.ring.values.nbytes == 256 * 288 * 2
