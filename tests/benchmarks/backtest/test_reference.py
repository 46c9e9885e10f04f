"""The product's `calibrated` and the second implementation agree on ordinary and on hostile traces."""

import dataclasses

import numpy as np
import pytest

from benchmarks.backtest.cell import Setting, refer_cell, replay_cell
from benchmarks.backtest.reference import Reference
from koordctl.backtest.placement import Pod
from koordctl.backtest.traces import Traces
from koordlet.prediction.parameters import PredictParameters
from koordlet.samples import Resource
from tests.benchmarks.backtest.hostile_traces import SETS, ordinary

SETTING = Setting(machines=1, slots=3, mean_life_days=2, first_prediction_day=0.1, horizon_hours=1)
HALF_PRECISION = 5e-4
"""The ring has 16-bit numbers of 11 bits."""
CELL = {Resource.CPU: 0.016, Resource.MEMORY: 0.0026}
"""A score next to the edge of a cell of the grid may fall into its neighbour."""
OF_MEMORY = ("ordinary", "constant", "nothing", "leaks", "steps", "above the request", "half of them late")


def traces_of(shares, step_seconds=300):
    return Traces(tuple(map(str, range(len(shares)))), step_seconds, shares)


def both(traces, setting, percent=1.0):
    """Return the requests, and the peaks of the product and of the reference, (times,)."""
    policy = PredictParameters(predictor="calibrated", violation_target_percent=percent)
    slots = min(setting.slots, len(traces.names) - 1)
    setting = dataclasses.replace(setting, slots=slots)
    replayed = replay_cell(traces, setting, [policy], processes=1)
    share = percent / 100 / (2 if setting.resource is Resource.MEMORY else 1)
    return (
        replayed.requests[0],
        np.minimum(replayed.peaks[0, 0], replayed.requests[0]),
        refer_cell(traces, setting, [share], processes=1)[0, 0],
    )


@pytest.mark.parametrize(
    ("name", "resource"),
    [*((name, Resource.CPU) for name in SETS), *((name, Resource.MEMORY) for name in OF_MEMORY)],
)
def test_they_agree(name, resource):
    requests, product, others = both(traces_of(SETS[name]), dataclasses.replace(SETTING, resource=resource))
    away = np.abs(product - others) / np.maximum(requests, 1e-9)
    assert np.median(away) < (HALF_PRECISION if name != "constant" else CELL[resource])  # every score is on an edge
    assert away.max() < CELL[resource]


@pytest.mark.parametrize(("horizon_hours", "resource"), [(0.25, Resource.CPU), (3, Resource.CPU), (3, Resource.MEMORY)])
def test_they_agree_at_other_horizons(horizon_hours, resource):
    setting = dataclasses.replace(SETTING, horizon_hours=horizon_hours, resource=resource)
    requests, product, others = both(traces_of(ordinary(days=4)), setting)
    assert np.abs(product - others).max() < HALF_PRECISION * requests.min()


@pytest.mark.parametrize("step_seconds", [60, 600, 3600])
def test_they_agree_where_a_value_is_not_of_five_minutes(step_seconds):
    requests, product, others = both(traces_of(ordinary(days=2.2 * 300 / step_seconds), step_seconds), SETTING)
    assert np.abs(product - others).max() < HALF_PRECISION * requests.min()


def test_lambda_of_the_reference_by_hand():
    """Two pods of 1 core use 0.1 each, so that every hour's score is (0.2 - C) / B = 1: 0.25 * 1.015 ** 94 is next."""
    machine = Reference([Pod(0, 0, 1000), Pod(1, 0, 1000)], np.full((2, 1000), 0.1), [1, 1], 300, 3600, Resource.CPU)
    for _ in range(1000):
        machine.advance()
    assert machine.labels == 81  # 83 hours, of which 2 cold
    assert machine.factor(0.01) == pytest.approx(0.25 * 1.015**94 * (1 + 4 / 81))
    assert machine.peak(0.01) == pytest.approx(0.2 * 0.25 * 1.015**94 * (1 + 4 / 81))
