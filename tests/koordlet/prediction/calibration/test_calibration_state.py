"""Tests of what a calibration keeps over a restart and over a step of the wall clock."""

import dataclasses
import io

import numpy as np
import pytest

from koordlet.prediction.calibration.resource_calibration import Load, ResourceCalibration
from koordlet.prediction.calibration.scores import CPU_SCALE, MEMORY_SCALE

PODS = 6
STEP_SECONDS = 300.0
BEGIN_SECONDS = 1.7e9
RESTART = 400
USAGE = np.random.default_rng(3).uniform(0.005, 0.03, (2000, PODS))
SCALES = pytest.mark.parametrize("scale", [CPU_SCALE, MEMORY_SCALE], ids=["cpu", "memory"])


def load_of(rows, offset=0.0):
    count = len(rows)
    return Load(rows, np.full(count, 0.015), np.full(count, 0.006), BEGIN_SECONDS + offset, cold=0.01, requests=0.4)


def run(calibration, steps, rows, offset=0.0):
    """Return the peak after each step."""
    peaks = []
    for step in steps:
        now_seconds = BEGIN_SECONDS + offset + STEP_SECONDS * step
        calibration.ensure_rows(int(rows.max()) + 1)
        calibration.tick(now_seconds, rows, USAGE[step], target_share=0.01)
        if not calibration.is_watching:
            calibration.watch(load_of(rows, offset))
        peaks.append(calibration.peak(load_of(rows, offset), 0.2, 0.01))
    return peaks


def fields_of(state):
    """Return all values of a state by name, those of its parts included."""
    parts = ("ring", "scores")
    found = {name: value for name, value in vars(state).items() if name not in parts}
    return found | {name: vars(getattr(state, name)) for name in parts}


def size_of(state):
    """Return the bytes of all arrays of a state, written as they are."""
    file = io.BytesIO()
    arrays = [getattr(state, name) for name in ("rises", "now", "here", "mask", "begin", "most")]
    for array in (*arrays, state.ring.values, state.scores.weights):
        file.write(array.tobytes())
    return len(file.getvalue())


@SCALES
@pytest.mark.parametrize("restart", [5, RESTART, 900])
def test_a_restart_changes_no_peak_though_rows_are_given_anew(scale, restart):
    before, after = np.arange(PODS), np.array([7, 0, 3, 9, 1, 4])
    whole, first, second = (ResourceCalibration(scale, 3600.0) for _ in range(3))
    expected = run(whole, range(1500), before)
    run(first, range(restart), before)
    assert second.restore(first.export(before), after)
    assert second.is_watching == first.is_watching
    assert run(second, range(restart, 1500), after) == pytest.approx(expected[restart:], rel=1e-12)
    assert second.scores.labels == whole.scores.labels > 48


@SCALES
def test_every_value_survives_a_round_trip(scale):
    before, after = np.arange(PODS), np.array([7, 0, 3, 9, 1, 4])
    first, second = ResourceCalibration(scale, 3600.0), ResourceCalibration(scale, 3600.0)
    run(first, range(RESTART), before)
    stored = first.export(before)
    assert stored.rises.any()
    assert second.restore(stored, after)
    np.testing.assert_equal(fields_of(second.export(after)), fields_of(stored))


@SCALES
def test_what_is_exported_does_not_change_afterwards(scale):
    calibration, rows = ResourceCalibration(scale, 3600.0), np.arange(PODS)
    run(calibration, range(100), rows)
    state = calibration.export(rows)
    values, now, labels = state.ring.values.copy(), state.now.copy(), state.scores.labels
    run(calibration, range(100, 200), rows)
    np.testing.assert_array_equal(state.ring.values, values)
    np.testing.assert_array_equal(state.now, now)
    assert state.scores.labels == labels


@SCALES
@pytest.mark.parametrize("step_seconds", [-86_400.0 * 40, -90.0, 7200.0, 86_400.0 * 40])
def test_a_step_of_the_clock_ages_nothing(scale, step_seconds):
    rows = np.arange(PODS)
    still, stepped = ResourceCalibration(scale, 3600.0), ResourceCalibration(scale, 3600.0)
    for calibration in (still, stepped):
        run(calibration, range(RESTART), rows)
    stepped.shift_clock(step_seconds)
    one, other = still.export(rows), stepped.export(rows)
    assert other.watched.begin_seconds == one.watched.begin_seconds + step_seconds
    run(still, range(RESTART, 800), rows)
    run(stepped, range(RESTART, 800), rows, step_seconds)
    one, other = still.export(rows), stepped.export(rows)
    assert other.scores.labels == one.scores.labels
    np.testing.assert_allclose(other.scores.weights, one.scores.weights)
    np.testing.assert_array_equal(other.rises, one.rises)
    np.testing.assert_array_equal(other.ring.values, one.ring.values)


@pytest.mark.parametrize(
    "changes",
    [
        {"now": np.zeros(PODS + 1)},
        {"begin": np.full(PODS, np.nan)},
        {"rises": np.zeros((PODS, 3), np.float16)},
        {"rises": np.full((PODS, 7), np.inf, np.float16)},
        {"largest": np.inf},
        {"seconds": np.nan},
        {"day_seconds": -np.inf},
    ],
    ids=",".join,
)
def test_an_impossible_state_loads_nothing(changes):
    rows = np.arange(PODS)
    calibration, new = ResourceCalibration(CPU_SCALE, 3600.0), ResourceCalibration(CPU_SCALE, 3600.0)
    run(calibration, range(100), rows)
    assert not new.restore(dataclasses.replace(calibration.export(rows), **changes), rows)
    assert new.scores.labels == 0
    assert not new.is_watching


@pytest.mark.parametrize("head", [-1, 288])
def test_a_ring_whose_head_lies_outside_loads_nothing(head):
    rows = np.arange(PODS)
    state = ResourceCalibration(CPU_SCALE, 3600.0).export(rows)
    state = dataclasses.replace(state, ring=dataclasses.replace(state.ring, head=head))
    assert not ResourceCalibration(CPU_SCALE, 3600.0).restore(state, rows)


def test_scores_of_another_horizon_load_nothing():
    rows = np.arange(PODS)
    state = ResourceCalibration(CPU_SCALE, 3600.0).export(rows)
    assert not ResourceCalibration(CPU_SCALE, 7200.0).restore(state, rows)


@SCALES
def test_the_state_of_250_pods_is_small(scale):
    rows = np.arange(251)  # unreserved system usage is one more series
    assert size_of(ResourceCalibration(scale, 3600.0).export(rows)) <= 160 * 1024
