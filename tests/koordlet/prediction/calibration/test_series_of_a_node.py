"""Series of a node's calibration: their rows, units and last day, and what each tick does to both resources."""

import dataclasses

import msgspec
import numpy as np
import pytest

from koordlet.prediction.calibration import state_format
from koordlet.prediction.calibration.day_ring import DayRing
from koordlet.prediction.calibration.node_calibration import NodeCalibration, WarmSeries
from koordlet.samples import RESOURCES, UNRESERVED_SYSTEM, Resource, pod_key

BEGIN = 1.7e9
STEP = 300.0
CPU, MEMORY = Resource.CPU, Resource.MEMORY
CAPACITY = {CPU: 16.0, MEMORY: 1024.0}
FIRST, SECOND, OTHER = pod_key("first"), pod_key("second"), pod_key("other")
KEYS = (UNRESERVED_SYSTEM, FIRST)
BOTH = pytest.mark.parametrize("resource", RESOURCES)


def tick(calibration, number, usage, keys=KEYS, capacity=CAPACITY, horizon_seconds=900.0, capped=()):
    """Record one usage of each series, as a share of the capacity that is given first."""
    calibration.tick(
        BEGIN + number * STEP,
        keys,
        {each: np.array(usage) * CAPACITY[each] for each in RESOURCES},
        capacity=capacity,
        horizon_seconds=horizon_seconds,
        target_percent=1.0,
        capped=capped,
    )


def ticked(*usage, **options):
    calibration = NodeCalibration(**options)
    tick(calibration, 0, usage)
    return calibration


def warm_of(*keys):
    return WarmSeries(keys, np.full(len(keys), 4.0), np.full(len(keys), 2.0), BEGIN)


def watched(calibration):
    for each in RESOURCES:
        calibration.resources[each].watch(calibration.calibrated(each, warm_of(UNRESERVED_SYSTEM), 0.0, 8.0).load)


def newest(calibration, resource, *keys, count=3):
    """Return the newest slots of each series, None where it has no sample."""
    found = calibration.last_day(resource, keys)
    assert found.shape == (len(keys), 288)
    return [[None if np.isnan(value) else value for value in row[:count]] for row in found]


def test_memory_is_recorded_where_the_system_has_no_sample_of_cpu():
    calibration = ticked(0.25, 0.5)
    usage = {CPU: np.array([np.nan, 8.0]), MEMORY: np.array([512.0, np.nan])}
    calibration.tick(BEGIN + STEP, KEYS, usage, capacity=CAPACITY, horizon_seconds=900.0, target_percent=1.0)
    assert newest(calibration, CPU, *KEYS, count=2) == [[4.0, None], [8.0, None]]
    assert newest(calibration, MEMORY, *KEYS, count=2) == [[512.0, 256.0], [None, 512.0]]


@BOTH
def test_series_that_begin_again_have_no_usage_until_the_next_tick(resource):
    calibration = ticked(0.25, 0.5)
    watched(calibration)
    calibration.begin_again([FIRST, OTHER])
    amount = CAPACITY[resource]
    assert newest(calibration, resource, *KEYS, count=1) == [[0.25 * amount], [None]]
    tick(calibration, 1, (0.25, 0.125))
    assert newest(calibration, resource, *KEYS) == [[0.25 * amount, 0.25 * amount, None], [0.125 * amount, None, None]]
    assert calibration.resources[resource].is_watching


@BOTH
def test_the_next_pod_of_a_row_has_no_usage_of_the_one_before(resource):
    calibration = ticked(0.25, 0.5)
    tick(calibration, 1, (0.25, 0.125), keys=(UNRESERVED_SYSTEM, SECOND))
    assert len(calibration.export().keys) == 2
    amount = CAPACITY[resource]
    assert newest(calibration, resource, FIRST, SECOND) == [[None] * 3, [0.125 * amount, None, None]]


@BOTH
def test_a_capacity_that_changes_changes_no_recorded_amount(resource):
    calibration = ticked(0.25, 0.5)
    tick(calibration, 1, (0.25, 0.125), capacity={CPU: 1.0, MEMORY: 1.0})
    amount = CAPACITY[resource]
    assert newest(calibration, resource, FIRST, count=2) == [[0.125 * amount, 0.5 * amount]]


@BOTH
def test_before_the_first_tick_and_for_unknown_series_there_is_no_peak(resource):
    assert NodeCalibration().calibrated(resource, warm_of(), 0.0, 8.0) is None
    assert NodeCalibration().calibrated(resource, warm_of(FIRST), 0.0, 8.0) is None
    assert np.isnan(NodeCalibration().last_day(resource, KEYS)).all()
    calibration = ticked(0.25, 0.5)
    assert calibration.calibrated(resource, warm_of(*KEYS, OTHER), 0.0, 8.0) is None
    assert calibration.calibrated(resource, warm_of(*KEYS), 0.0, 8.0) is not None


@BOTH
def test_a_load_is_in_shares_of_the_capacity_and_its_peak_in_amounts(resource):
    calibration, unit = ticked(0.25, 0.25), CAPACITY[resource]
    found = calibration.calibrated(resource, warm_of(*KEYS), 1.0, 8.0)
    load = found.load
    assert load.warm_mean.tolist() == [4.0 / unit] * 2
    assert load.warm_stdev.tolist() == [2.0 / unit] * 2
    assert (load.oldest_seconds, load.cold, load.requests) == (BEGIN, 1.0 / unit, 8.0 / unit)
    assert found.peak(0.75 * unit, 1.0, 1.0) == 0.75 * unit
    assert found.peak(0.25 * unit, 1.0, 1.0) == 0.5 * unit


@pytest.mark.parametrize(
    ("resource", "target_percent", "expected"), [(CPU, 12.5, 1), (CPU, 12.0, 2), (MEMORY, 25.0, 1), (MEMORY, 24.0, 2)]
)
def test_memory_is_held_to_half_of_the_target(resource, target_percent, expected):
    """One score of ten is higher: four fifths of 12.5 % may be above the peak."""
    calibration = ticked(0.0, 0.0)
    histogram = calibration.resources[resource].scores
    lower, higher = histogram.scale.grid[[-300, -100]] if resource is MEMORY else histogram.scale.grid[[20, 100]]
    for score in [lower] * 90 + [higher] * 10:
        histogram.add(score, BEGIN)
    found = calibration.calibrated(resource, WarmSeries((FIRST,), np.zeros(1), np.zeros(1), BEGIN), 0.0, 1e6)
    peaks = [found.peak(0.0, percent, 1.0) for percent in (90.0, target_percent)]
    assert (peaks[0] == peaks[1]) == (expected == 1)


def test_another_horizon_begins_without_scores():
    calibration = ticked(0.25, 0.25)
    watched(calibration)
    for number in (1, 2, 3):
        tick(calibration, number, (0.25, 0.25))
    assert calibration.labels() == {CPU: 1, MEMORY: 1}
    tick(calibration, 4, (0.25, 0.25), horizon_seconds=3600.0)
    assert calibration.labels() == {CPU: 0, MEMORY: 0}


@pytest.mark.parametrize(("interval_seconds", "goes_on"), [(0.0, False), (600.0, True)])
def test_a_longer_interval_of_ticks_is_no_gap(interval_seconds, goes_on):
    calibration = ticked(0.25, 0.25, interval_seconds=interval_seconds)
    watched(calibration)
    tick(calibration, 2, (0.25, 0.25))
    assert [each.is_watching for each in calibration.resources.values()] == [goes_on] * 2


@pytest.mark.parametrize("interval_seconds", [0.0, 60.0])
def test_a_shorter_interval_allows_gaps_of_five_minutes(interval_seconds):
    calibration = ticked(0.25, 0.25, interval_seconds=interval_seconds)
    watched(calibration)
    tick(calibration, 1, (0.25, 0.25))
    assert [each.is_watching for each in calibration.resources.values()] == [True] * 2


def test_a_step_of_the_clock_ends_no_forecast():
    calibration = ticked(0.25, 0.25)
    watched(calibration)
    calibration.shift_clock(48 * STEP)
    tick(calibration, 49, (0.25, 0.25))
    assert [each.is_watching for each in calibration.resources.values()] == [True] * 2
    assert newest(calibration, CPU, FIRST) == [[4.0, 4.0, None]]


def test_usage_that_is_held_down_concerns_its_resource_only():
    calibration = ticked(0.25, 0.25)
    watched(calibration)
    for number in (1, 2, 3):
        tick(calibration, number, (0.25, 0.25), capped=[CPU])
    assert calibration.labels() == {CPU: 0, MEMORY: 1}


@BOTH
def test_one_impossible_resource_restores_nothing(resource):
    state = ticked(0.25, 0.25).export()
    assert NodeCalibration().restore(state) is True
    damaged = dataclasses.replace(state.resources[resource], largest=np.nan)
    new = NodeCalibration()
    assert new.restore(dataclasses.replace(state, resources={**state.resources, resource: damaged})) is False
    assert new.export() is None


def test_a_calibration_is_stored_as_arrays_whose_fields_have_no_names():
    """Checkpoints of agents of other versions are read by the order of their fields."""
    calibration = ticked(0.25, 0.25)
    watched(calibration)
    keys, resources = msgspec.msgpack.decode(state_format.encode(calibration.export()))
    assert keys == [list(key) for key in KEYS]
    fields = resources["cpu"]
    assert (fields[0], fields[1]) == (16.0, BEGIN)
    assert (len(fields[3]), fields[3][2]) == (3, BEGIN)
    assert (len(fields[12]), fields[12][1:]) == (4, [0, 0.0, 900.0])


@pytest.mark.parametrize("unit", [0.5, 1.0])
def test_a_capacity_of_up_to_one_core_is_read(unit):
    state = dataclasses.replace(ticked(0.25, 0.25).export(), units={CPU: unit, MEMORY: 1024.0})
    assert state_format.decode(state_format.encode(state)).units == state.units


def test_a_ring_grows_only_by_the_blocks_that_it_needs():
    ring = DayRing()
    for count, rows in ((1, 64), (64, 64), (65, 128), (128, 128), (3, 128)):
        ring.ensure_rows(count)
        assert len(ring.values) == rows
        ring.record(BEGIN, np.array([count - 1]), np.array([0.5]))
        assert ring.newest_first(np.array([count - 1]))[0][0] == 0.5
