"""Usage that CPU limits hold down: peaks that it reaches are learned, and it confirms no forecast."""

import functools

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.prediction.calibration import state_format
from koordlet.prediction.calibration.node_calibration import NodeCalibration, WarmSeries
from koordlet.prediction.calibration.resource_calibration import ResourceCalibration
from koordlet.prediction.calibration.scores import CPU_SCALE, MEMORY_SCALE, ScoreHistogram
from koordlet.samples import RESOURCES, UNRESERVED_SYSTEM, Resource
from tests.koordlet.prediction.calibration.nodes import STEPS_A_DAY, Node, daily_demand
from tests.koordlet.prediction.calibration.test_new_regimes import most

NODES, PODS, DAYS = 4, 8, 9
REQUESTS = np.tile([2.0, 4.0, 1.0, 8.0], PODS // 4)
TARGET = 0.01
SCALES = pytest.mark.parametrize("scale", [CPU_SCALE, MEMORY_SCALE], ids=["cpu", "memory"])


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


def grown(hours=100, scale=CPU_SCALE, use=0.1):
    node = Node(np.full(4, 0.2), scale=scale)
    rng = np.random.default_rng(2)
    for _ in range(12 * hours):
        node.step(use * rng.uniform(0.9, 1.0, 4))
    return node


@SCALES
@pytest.mark.parametrize("throttled_step", [0, 6, 11])
def test_a_violation_counts_whenever_in_its_horizon_usage_is_held_down(scale, throttled_step):
    node = grown(scale=scale)
    seen, peak = node.calibration.scores.labels, node.peak()
    node.calibration.watch(node.load())
    for step in range(12):
        node.step(np.full(4, 0.19 if 4 <= step < 8 else 0.09), is_capped=step == throttled_step)
    assert node.calibration.scores.labels == seen + 1
    for _ in range(STEPS_A_DAY):
        node.step(np.full(4, 0.095))
    assert node.peak() > peak


@SCALES
def test_a_forecast_that_held_while_usage_was_held_down_gives_no_label(scale):
    node = grown(scale=scale)
    seen = node.calibration.scores.export()
    node.calibration.watch(node.load())
    for step in range(12):
        node.step(np.full(4, 0.08), is_capped=step == 3)
    assert node.calibration.scores.export() is seen
    for _ in range(12):
        node.step(np.full(4, 0.08))
    assert node.calibration.scores.labels == seen.labels + 1


def test_a_peak_that_is_throttled_each_day_is_not_forgotten():
    node = Node(np.full(2, 0.4))
    short = []
    for step in range(20 * STEPS_A_DAY):
        at_peak = step % STEPS_A_DAY // 12 == 14
        if step > 3 * STEPS_A_DAY and step % 12 == 0 and at_peak:
            short.append(node.peak() < 0.6)
        node.step([0.3, 0.3] if at_peak else [0.08, 0.07], is_capped=at_peak)
    assert sum(short) <= 2


@given(
    st.lists(st.floats(0.2, 3.0), min_size=1, max_size=60),
    st.floats(0.2, 3.0),
    st.floats(0.001, 0.2),
)
def test_a_score_that_reaches_the_quantile_never_lowers_it(scores, score, target):
    histogram = ScoreHistogram(CPU_SCALE, 3600.0)
    for number, each in enumerate(scores):
        histogram.add(each, 3600.0 * number)
    before = histogram._quantile(1 - 0.8 * target)
    is_reached = histogram.is_reached_by(score, target)
    histogram.add(score, 3600.0 * len(scores))
    assert not is_reached or histogram._quantile(1 - 0.8 * target) >= before


def test_without_a_score_usage_that_is_held_down_gives_none():
    assert not ScoreHistogram(CPU_SCALE, 3600.0).is_reached_by(9.0, 0.01)


def test_a_gap_ends_a_forecast_and_keeps_the_rise_that_was_seen():
    node = grown(scale=MEMORY_SCALE)
    node.calibration.watch(node.load())
    node.step([0.19, 0.09, 0.09, 0.09])
    node.seconds += 600
    node.step(np.full(4, 0.09))
    for _ in range(12):
        node.step(np.full(4, 0.09))
    assert node.peak(0.005) >= 4 * 0.09 + 0.09


@SCALES
def test_a_restart_within_the_horizon_keeps_that_usage_was_held_down(scale):
    node = grown(scale=scale)
    seen, rows = node.calibration.scores.labels, np.arange(4)
    node.calibration.watch(node.load())
    node.step(np.full(4, 0.08), is_capped=True)
    restored = ResourceCalibration(scale, 3600.0)
    assert restored.restore(node.calibration.export(rows), rows)
    node.calibration = restored
    for _ in range(11):
        node.step(np.full(4, 0.08))
    assert node.calibration.scores.labels == seen


def test_checkpoints_of_agents_that_dropped_throttled_forecasts_can_be_read_and_read_by_them():
    calibration = NodeCalibration()
    usage, capacity = ({each: np.array([1.0]) for each in RESOURCES}, dict.fromkeys(RESOURCES, 16.0))
    for number in range(2):
        calibration.tick(
            1.7e9 + 300 * number,
            [UNRESERVED_SYSTEM],
            usage,
            capacity=capacity,
            horizon_seconds=3600.0,
            target_percent=1.0,
            capped=[Resource.CPU],
        )
        warm = WarmSeries([UNRESERVED_SYSTEM], np.ones(1), np.ones(1), 1.7e9)
        if number == 0:
            calibration.resources[Resource.CPU].watch(calibration.calibrated(Resource.CPU, warm, 0.0, 4.0).load)
    data = state_format.encode(calibration.export())
    assert state_format.decode(data).resources[Resource.CPU].is_capped
    keys, resources = msgspec.msgpack.decode(data)
    older = msgspec.msgpack.encode([keys, {name: fields[:-1] for name, fields in resources.items()}])
    assert not state_format.decode(older).resources[Resource.CPU].is_capped

    known = msgspec.structs.fields(state_format._Calibration)
    before = msgspec.defstruct("Before", [(each.name, each.type) for each in known[:-1]], array_like=True)
    for each in resources.values():
        assert msgspec.convert(each, before).largest == each[11]
