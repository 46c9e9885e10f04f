"""A calibration survives its encoding, and damaged bytes are refused."""

import dataclasses

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from koordlet.prediction.calibration import state_format
from koordlet.prediction.calibration.node_calibration import NodeCalibration, WarmSeries
from koordlet.samples import RESOURCES, UNRESERVED_SYSTEM, Resource, pod_key

KEYS = [UNRESERVED_SYSTEM, *(pod_key(f"pod-{number}") for number in range(4))]
CAPACITY = {Resource.CPU: 16.0, Resource.MEMORY: 64.0 * 2**30}
USAGE = np.random.default_rng(5).uniform(0.01, 0.05, (400, len(KEYS)))


def warm(resource, keys=KEYS):
    mean = np.full(len(keys), 0.03) * CAPACITY[resource]
    return WarmSeries(keys, mean, mean / 5, 1.7e9)


def run(calibration, steps, keys=KEYS):
    """Return the CPU and memory peaks after each step."""
    peaks = []
    for step in steps:
        usage = {resource: USAGE[step][: len(keys)] * CAPACITY[resource] for resource in RESOURCES}
        calibration.tick(1.7e9 + 300 * step, keys, usage, capacity=CAPACITY, horizon_seconds=3600.0, target_percent=1.0)
        for resource, each in calibration.resources.items():
            found = calibration.calibrated(resource, warm(resource, keys), 0.0, 0.5 * CAPACITY[resource])
            if not each.is_watching:
                each.watch(found.load)
            peaks.append(found.peak(0.2 * CAPACITY[resource], 1.0, 1.0))
    return peaks


def stored(steps=300):
    calibration = NodeCalibration()
    run(calibration, range(steps))
    return state_format.encode(calibration.export())


STORED = stored()


def test_a_decoded_calibration_predicts_the_same():
    calibration, restored = NodeCalibration(), NodeCalibration()
    run(calibration, range(300))
    assert restored.restore(state_format.decode(STORED))
    assert run(restored, range(300, 400)) == run(calibration, range(300, 400))
    assert restored.labels() == calibration.labels() == {Resource.CPU: 33, Resource.MEMORY: 33}


def test_nothing_is_stored_before_the_first_tick():
    assert NodeCalibration().export() is None


def test_250_pods_take_less_than_400_kibibytes():
    keys = [UNRESERVED_SYSTEM, *(pod_key(f"{number:08d}-0000-4000-8000-000000000000") for number in range(250))]
    calibration = NodeCalibration()
    usage = {resource: np.full(len(keys), 0.001) * CAPACITY[resource] for resource in RESOURCES}
    calibration.tick(1.7e9, keys, usage, capacity=CAPACITY, horizon_seconds=3600.0, target_percent=1.0)
    assert len(state_format.encode(calibration.export())) < 400 * 1024


@example(position=73, change=64)  # the unit: shares of it exceed what a rise can store
@given(st.integers(0, len(STORED) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_changes_no_more_than_a_number(position, change):
    damaged = bytearray(STORED)
    damaged[position] ^= change
    restored = NodeCalibration()
    try:
        is_restored = restored.restore(state_format.decode(bytes(damaged)))
    except ValueError:
        return
    if is_restored:
        assert np.isfinite(run(restored, range(300, 303), restored_keys(restored))).all()


def test_usage_that_is_huge_in_a_damaged_unit_is_stored_as_the_largest_number():
    """One bit of the exponent makes the stored unit tiny, and every share huge."""
    state = state_format.decode(STORED)
    damaged = dataclasses.replace(state, units={each: unit * 2.0**-60 for each, unit in state.units.items()})
    restored = NodeCalibration()
    assert restored.restore(damaged)
    assert np.isfinite(run(restored, range(300, 330), restored_keys(restored))).all()


def restored_keys(calibration):
    return list(calibration.export().keys)[: len(KEYS)]


@pytest.mark.parametrize(
    "data",
    [b"", STORED[:-1], STORED + b"x", b"\xff" * 40, msgspec.msgpack.encode([]), msgspec.msgpack.encode([[], {}])],
)
def test_other_bytes_are_refused(data):
    with pytest.raises(ValueError, match="calibration"):
        state_format.decode(data)


@pytest.mark.parametrize("unit", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_unit_is_refused(unit):
    calibration = NodeCalibration()
    run(calibration, range(3))
    state = dataclasses.replace(calibration.export(), units={Resource.CPU: unit, Resource.MEMORY: 1.0})
    with pytest.raises(ValueError, match="units"):
        state_format.decode(state_format.encode(state))


def test_two_rows_of_one_series_are_refused():
    calibration = NodeCalibration()
    run(calibration, range(3))
    state = calibration.export()
    twice = dataclasses.replace(state, keys=(KEYS[0], *state.keys[:-1]))
    with pytest.raises(ValueError, match="5 series, 4 of them different"):
        state_format.decode(state_format.encode(twice))
