"""The product's `calibrated` and the second implementation agree on ordinary and on hostile traces."""

import random

import numpy as np
import pytest

from benchmarks.backtest import reference
from benchmarks.backtest.reference import Reference
from koordctl.backtest import node_history, replay
from koordctl.backtest.node_history import GIB, BoundPod, NodeHistory, SeriesStay
from koordlet.prediction.parameters import PredictParameters
from koordlet.samples import RESOURCES, Resource
from tests.benchmarks.backtest.hostile_traces import SETS, ordinary

pytestmark = pytest.mark.slow

SLOTS, LIFE_DAYS = 3, 2
HALF_PRECISION = 5e-4
"""The ring has 16-bit numbers of 11 bits."""
CELL = {Resource.CPU: 0.016, Resource.MEMORY: 0.0026}
"""A score next to the edge of a cell of the grid may fall into its neighbour."""
SHARES = {Resource.CPU: 0.01, Resource.MEMORY: 0.005}
UNITS = {Resource.CPU: 1.0, Resource.MEMORY: float(GIB)}


def differences(cpu, memory, step_seconds=300, horizon_seconds=3600):
    """Return resource -> how far product and reference are apart at each hour, as a share of the requests."""
    series, steps = cpu.shape
    rng = random.Random("placement")
    life_steps = LIFE_DAYS * 86_400 / step_seconds
    pods = node_history.place(np.isfinite(cpu), min(SLOTS, series - 1), life_steps, rng)
    requested = node_history.draw_requests(series, 1)
    used = {
        resource: shares * np.array(requested)[:, np.newaxis]
        for resource, shares in zip(RESOURCES, (cpu, memory), strict=True)
    }
    bound = [
        BoundPod(f"pod-{number}", cpu_request_millis=1000 * cores, memory_request_bytes=cores * GIB)
        for number, cores in enumerate(requested[pod.series] for pod in pods)
    ]
    node = NodeHistory(
        "node", step_seconds, bound, pods, {resource: each * UNITS[resource] for resource, each in used.items()}
    )
    an_hour = 3600 // step_seconds
    hours = range(an_hour, steps - an_hour, an_hour)
    policy = PredictParameters(predictor="calibrated", horizon_seconds=horizon_seconds)
    forecasts = replay.replay(node, [policy], hours, an_hour)
    found = {}
    for resource in RESOURCES:
        unit, requests = UNITS[resource], forecasts[resource].requests
        others = reference.peaks(
            pods, used[resource], requested, hours, step_seconds, horizon_seconds, resource, [SHARES[resource]]
        )
        apart = np.abs(np.minimum(forecasts[resource].peaks[0], requests) / unit - others[0])
        found[resource] = apart / np.maximum(requests / unit, 1e-9)
    return found


@pytest.mark.parametrize("name", SETS)
def test_they_agree(name):
    for resource, apart in differences(*SETS[name]).items():
        # Every score of a constant usage is on an edge.
        assert np.median(apart) < (HALF_PRECISION if name != "constant" else CELL[resource])
        assert apart.max() < CELL[resource]


@pytest.mark.parametrize(("horizon_seconds", "days"), [(900, 1), (10_800, 4)])
def test_they_agree_at_other_horizons(horizon_seconds, days):
    usage = ordinary(days=days)
    for apart in differences(usage, usage, horizon_seconds=horizon_seconds).values():
        assert apart.max() < HALF_PRECISION


@pytest.mark.parametrize("step_seconds", [120, 600, 3600])
def test_they_agree_where_a_value_is_not_of_five_minutes(step_seconds):
    usage = ordinary(days=2.2 * 300 / step_seconds)
    for apart in differences(usage, usage, step_seconds).values():
        assert apart.max() < HALF_PRECISION


def test_lambda_of_the_reference_by_hand():
    """Two pods of 1 core use 0.1 each, so that every hour's score is (0.2 - C) / B = 1: 0.25 * 1.015 ** 94 is next."""
    machine = Reference(
        [SeriesStay(0, 0, 1000), SeriesStay(1, 0, 1000)], np.full((2, 1000), 0.1), [1, 1], 300, 3600, Resource.CPU
    )
    for _ in range(1000):
        machine.advance()
    assert machine.labels == 81  # 83 hours, of which 2 cold
    assert machine.factor(0.01) == pytest.approx(0.25 * 1.015**94 * (1 + 4 / 81))
    assert machine.peak(0.01) == pytest.approx(0.2 * 0.25 * 1.015**94 * (1 + 4 / 81))
