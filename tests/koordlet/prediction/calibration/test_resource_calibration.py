"""Tests of the calibrated peak of one resource."""

import copy
import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordlet.prediction.calibration.resource_calibration import Level
from koordlet.samples import Resource
from tests.koordlet.prediction.calibration.nodes import STEPS_A_DAY, Node, daily_demand

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
    assert node.calibration.level() is level


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


def test_a_pod_that_leaves_counts_nothing_in_the_forecast_under_observation():
    node = grown(2)
    seen = node.calibration.scores.labels
    node.calibration.watch(node.load())
    node.replace(range(6))
    for _ in range(12):
        node.step(np.ones(6))
    assert node.calibration.scores.labels == seen + 1
    assert node.calibration.scores.weights[0] == 1.0  # the lowest score, though six new pods use 6 cores


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


# Usage that CPU limits hold down: peaks that it reaches are learned, and it confirms no forecast.


NODES, PODS, DAYS = 4, 8, 9
LIMITED_REQUESTS = np.tile([2.0, 4.0, 1.0, 8.0], PODS // 4)
TARGET = 0.01
SCALES = pytest.mark.parametrize("resource", [Resource.CPU, Resource.MEMORY], ids=["cpu", "memory"])


@functools.cache
def demand_of(seed):
    return daily_demand(LIMITED_REQUESTS, DAYS, seed)


def at_its_own_peaks(demand, seed):
    """Limits a little above the mean: a third of the time something is throttled."""
    del demand, seed
    return LIMITED_REQUESTS * 0.2


def one_hour_a_day(demand, seed):
    for day in range(DAYS):
        begin = day * STEPS_A_DAY + 168 + seed
        demand[begin : begin + 12] *= 6
    return LIMITED_REQUESTS * 0.4


def every_third_day(demand, seed):
    for day in range(0, DAYS, 3):
        begin = day * STEPS_A_DAY + 168 + 7 * seed
        demand[begin : begin + 12] *= 6
    return LIMITED_REQUESTS * 0.4


def a_small_pod_first(demand, seed):
    """Let all pods rise for an hour and a half each day; one of them is at its limit long before the others peak."""
    rng = np.random.default_rng(200 + seed)
    for day in range(DAYS):
        begin = day * STEPS_A_DAY + int(rng.normal(168, 20))
        demand[begin : begin + 18] *= np.linspace(1, 6, 18)[:, np.newaxis]
    return np.where(np.arange(PODS) == 1, 0.2, 0.7) * LIMITED_REQUESTS


class Throttled(Node):
    """A node that takes its usage and whether it is throttled as one value."""

    def step(self, usage):
        super().step(usage[:-1], is_capped=bool(usage[-1]))


def throttled_usage(limits_of, seed):
    """Return usage of the pods and, in the last column, whether throttled pods have a tenth of it."""
    demand = demand_of(seed).copy()
    limits = np.minimum(limits_of(demand, seed), LIMITED_REQUESTS)
    usage = np.minimum(demand, limits)
    held = (usage * (demand > 1.05 * limits)).sum(axis=1)
    return np.column_stack([usage, (held > 0) & (held >= 0.1 * usage.sum(axis=1))])


@pytest.mark.parametrize("limits_of", [at_its_own_peaks, one_hour_a_day, every_third_day, a_small_pod_first])
def test_the_target_is_kept_on_throttled_nodes(limits_of):
    short = []
    for seed in range(NODES):
        usage = throttled_usage(limits_of, seed)
        assert usage[:, -1].any()
        found = []
        node = Throttled(LIMITED_REQUESTS, capacity=64.0)
        for step, values in enumerate(usage):
            node.step(values)
            if step >= 3 * STEPS_A_DAY and step % 12 == 0 and step + 12 < len(usage):
                highest = usage[step + 1 : step + 13, :-1].sum(axis=1).max()
                found.append(highest > node.peak() + 1e-9)
        short += found
    assert np.mean(short) <= most(TARGET, len(short))


def steady(hours=100, resource=Resource.CPU, use=0.1):
    node = Node(np.full(4, 0.2), resource=resource)
    rng = np.random.default_rng(2)
    for _ in range(12 * hours):
        node.step(use * rng.uniform(0.9, 1.0, 4))
    return node


@SCALES
@pytest.mark.parametrize("throttled_step", [0, 6, 11])
def test_a_violation_counts_whenever_in_its_horizon_usage_is_held_down(resource, throttled_step):
    node = steady(resource=resource)
    seen, peak = node.calibration.scores.labels, node.peak()
    node.calibration.watch(node.load())
    for step in range(12):
        node.step(np.full(4, 0.19 if 4 <= step < 8 else 0.09), is_capped=step == throttled_step)
    assert node.calibration.scores.labels == seen + 1
    for _ in range(STEPS_A_DAY):
        node.step(np.full(4, 0.095))
    assert node.peak() > peak


@SCALES
def test_a_forecast_that_held_while_usage_was_held_down_gives_no_label(resource):
    node = steady(resource=resource)
    labels = node.calibration.scores.labels
    node.calibration.watch(node.load())
    for step in range(12):
        node.step(np.full(4, 0.08), is_capped=step == 3)
    assert node.calibration.scores.labels == labels
    for _ in range(12):
        node.step(np.full(4, 0.08))
    assert node.calibration.scores.labels == labels + 1


def test_a_peak_that_is_throttled_each_day_is_not_forgotten():
    node = Node(np.full(2, 0.4))
    short = []
    for step in range(20 * STEPS_A_DAY):
        at_peak = step % STEPS_A_DAY // 12 == 14
        if step > 3 * STEPS_A_DAY and step % 12 == 0 and at_peak:
            short.append(node.peak() < 0.6)
        node.step([0.3, 0.3] if at_peak else [0.08, 0.07], is_capped=at_peak)
    assert sum(short) <= 2


# Usage that changes in a way that no forecast has seen: how soon the target is kept again.


NEW_NODES, NEW_PODS, NEW_DAYS, CHANGE_DAY = 12, 12, 7, 4
HOURS_A_DAY, STEPS_AN_HOUR = 24, 12
CHANGE = CHANGE_DAY * STEPS_A_DAY
NEW_REQUESTS = np.tile([2.0, 4.0, 1.0, 8.0], NEW_PODS // 4)


@functools.cache
def usage_of(seed):
    return np.minimum(daily_demand(NEW_REQUESTS, NEW_DAYS, seed), NEW_REQUESTS)


def unchanged(usage, seed):
    del usage, seed


def doubled(usage, seed):
    del seed
    usage[CHANGE:] *= 2


def daily_spikes(usage, seed, first_step=CHANGE, end_step=NEW_DAYS * STEPS_A_DAY):
    """Let every pod use 90 % of its request for 10 minutes once a day, each at its own time."""
    for pod, first in enumerate(np.random.default_rng(100 + seed).integers(0, STEPS_A_DAY, NEW_PODS)):
        for begin in range(first_step + first, end_step, STEPS_A_DAY):
            usage[begin : begin + 2, pod] = 0.9 * NEW_REQUESTS[pod]


def spikes_that_end(usage, seed):
    daily_spikes(usage, seed, 0, CHANGE)


def forecasts(node, usage, first_step):
    """Return whether each hourly forecast from a step on fell short, and its savings, (2, hours)."""
    found = []
    for step in range(first_step, len(usage)):
        node.step(usage[step])
        if step % STEPS_AN_HOUR == 0:
            peak = node.peak()
            ahead = usage[step + 1 : step + 1 + STEPS_AN_HOUR].sum(axis=1)
            found.append((ahead.max() > peak + 1e-9, 1 - peak / NEW_REQUESTS.sum()))
    return np.array(found, float).T


@functools.cache
def before_the_change(seed):
    """Return a node that has seen everything up to the change, and its forecasts."""
    node = Node(NEW_REQUESTS, capacity=64.0)
    return node, forecasts(node, usage_of(seed)[:CHANGE], 0)


def after_the_change(change, *, is_replaced=False):
    """Return violations and savings of every hour after the change, (2, nodes, hours)."""
    found = []
    for seed in range(NEW_NODES):
        node, usage = copy.deepcopy(before_the_change(seed)[0]), usage_of(seed).copy()
        change(usage, seed)
        if is_replaced:
            node.replace(range(NEW_PODS))
        found.append(forecasts(node, np.minimum(usage, NEW_REQUESTS), CHANGE))
    return np.stack(found, axis=1)


def most(bound, count):
    return bound + 2 * math.sqrt(bound * (1 - bound) / count) + 1 / count


@pytest.mark.parametrize(
    ("change", "is_replaced", "first_6_hours", "rest_of_the_day"),
    [
        (unchanged, False, TARGET, TARGET),
        (doubled, False, 0.104, 0.0),
        (daily_spikes, False, 0.125, 0.021),
        (unchanged, True, 0.0, 0.014),
    ],
    ids=["unchanged", "usage doubled", "new daily spikes", "all pods replaced"],
)
def test_a_new_regime_is_short_for_hours_and_not_for_days(change, is_replaced, first_6_hours, rest_of_the_day):
    short = after_the_change(change, is_replaced=is_replaced)[0]
    for first, last, bound in ((0, 6, first_6_hours), (6, 24, rest_of_the_day), (24, -1, TARGET)):
        hours = short[:, first:last]
        assert hours.mean() <= most(bound, hours.size), (first, last)


def test_spikes_that_end_are_forgotten_in_a_day():
    """The study: savings of 67 % with the spikes, 78 % a day after the last one, 82 % after three days."""
    short, savings = [], []
    for seed in range(NEW_NODES):
        usage = usage_of(seed).copy()
        spikes_that_end(usage, seed)
        found = forecasts(Node(NEW_REQUESTS, capacity=64.0), usage, 0)[:, (CHANGE_DAY - 1) * HOURS_A_DAY :]
        short.append(found[0, HOURS_A_DAY:-1])
        savings.append(found[1])
    assert np.mean(short) <= most(TARGET, np.size(short))
    days = np.mean(savings, axis=0).reshape(-1, HOURS_A_DAY).mean(axis=1)  # that before the change, and three
    assert days[2] >= days[0] + 0.11
    assert days[3] >= days[2]


@pytest.mark.parametrize("resource", Resource)
def test_cold_series_neither_lower_the_scores_nor_count_as_a_rise(resource):
    """A job that is charged its request, uses nothing at first, and ends within the horizon."""
    alone, beside = (Node([12.0, 4.0], capacity=16.0, resource=resource) for _ in range(2))
    for step in range(12 * 30):
        usage = 2.0 + 0.5 * (step % 5 == 0)
        alone.step([usage, 0.0])
        if step % 12 == 0:
            beside.replace([1])
        beside.step([usage, 3.0 if step % 12 in (5, 6) else 0.0])
    rises = (node.calibration.rises[1].max() for node in (alone, beside))
    assert list(rises) == [0.0, 0.0]
    multipliers = [node.calibration.scores.multiplier(0.01) for node in (alone, beside)]
    assert multipliers[1] >= multipliers[0] - 0.05
