"""Usage that CPU limits hold down: peaks that it reaches are learned, and it confirms no forecast."""

import functools

import numpy as np
import pytest

from koordlet.samples import Resource
from tests.koordlet.prediction.calibration.nodes import STEPS_A_DAY, Node, daily_demand
from tests.koordlet.prediction.calibration.test_new_regimes import most

NODES, PODS, DAYS = 4, 8, 9
REQUESTS = np.tile([2.0, 4.0, 1.0, 8.0], PODS // 4)
TARGET = 0.01
SCALES = pytest.mark.parametrize("resource", [Resource.CPU, Resource.MEMORY], ids=["cpu", "memory"])


@functools.cache
def demand_of(seed):
    return daily_demand(REQUESTS, DAYS, seed)


def at_its_own_peaks(demand, seed):
    """Limits a little above the mean: a third of the time something is throttled."""
    del demand, seed
    return REQUESTS * 0.2


def one_hour_a_day(demand, seed):
    for day in range(DAYS):
        begin = day * STEPS_A_DAY + 168 + seed
        demand[begin : begin + 12] *= 6
    return REQUESTS * 0.4


def every_third_day(demand, seed):
    for day in range(0, DAYS, 3):
        begin = day * STEPS_A_DAY + 168 + 7 * seed
        demand[begin : begin + 12] *= 6
    return REQUESTS * 0.4


def a_small_pod_first(demand, seed):
    """Let all pods rise for an hour and a half each day; one of them is at its limit long before the others peak."""
    rng = np.random.default_rng(200 + seed)
    for day in range(DAYS):
        begin = day * STEPS_A_DAY + int(rng.normal(168, 20))
        demand[begin : begin + 18] *= np.linspace(1, 6, 18)[:, np.newaxis]
    return np.where(np.arange(PODS) == 1, 0.2, 0.7) * REQUESTS


class Throttled(Node):
    """A node that takes its usage and whether it is throttled as one value."""

    def step(self, usage):
        super().step(usage[:-1], is_capped=bool(usage[-1]))


def throttled_usage(limits_of, seed):
    """Return usage of the pods and, in the last column, whether throttled pods have a tenth of it."""
    demand = demand_of(seed).copy()
    limits = np.minimum(limits_of(demand, seed), REQUESTS)
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
        node = Throttled(REQUESTS, capacity=64.0)
        for step, values in enumerate(usage):
            node.step(values)
            if step >= 3 * STEPS_A_DAY and step % 12 == 0 and step + 12 < len(usage):
                highest = usage[step + 1 : step + 13, :-1].sum(axis=1).max()
                found.append(highest > node.peak() + 1e-9)
        short += found
    assert np.mean(short) <= most(TARGET, len(short))


def grown(hours=100, resource=Resource.CPU, use=0.1):
    node = Node(np.full(4, 0.2), resource=resource)
    rng = np.random.default_rng(2)
    for _ in range(12 * hours):
        node.step(use * rng.uniform(0.9, 1.0, 4))
    return node


@SCALES
@pytest.mark.parametrize("throttled_step", [0, 6, 11])
def test_a_violation_counts_whenever_in_its_horizon_usage_is_held_down(resource, throttled_step):
    node = grown(resource=resource)
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
    node = grown(resource=resource)
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
