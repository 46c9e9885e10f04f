"""The oracle on machines computed by hand, and properties of any machine."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordctl.backtest import scores
from koordctl.backtest.node_history import SeriesStay

pytestmark = pytest.mark.slow

# Series 0 peaks at step 2, series 1 at step 4.
CORES = np.array([[1.0, 1.0, 4.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0, 6.0, 2.0]])
ROOMY = np.array([10.0, 10.0])


def peak(pods, step, horizon_steps, limits=ROOMY, cores=CORES):
    stays = scores.Stays(pods)
    running = stays.running_at(step)
    return scores.oracle_peak(stays.usage_after(cores, running, step, horizon_steps), limits[running])


BOTH = [SeriesStay(0, 0, 6), SeriesStay(1, 0, 6)]


@pytest.mark.parametrize(
    ("step", "horizon", "expected"),
    [(0, 1, 3.0), (0, 2, 6.0), (0, 5, 7.0), (2, 1, 3.0), (2, 9, 7.0), (4, 9, 3.0)],
    ids=["next step", "first peak", "both peaks", "the peak of now is over", "cut at the end", "after both peaks"],
)
def test_the_peak_is_of_the_sum_in_later_steps(step, horizon, expected):
    assert peak(BOTH, step, horizon) == expected


def test_a_pod_counts_until_it_leaves_and_its_successor_does_not():
    pods = [SeriesStay(0, 0, 6), SeriesStay(1, 0, 4), SeriesStay(1, 4, 6)]
    assert peak(pods, 0, 5, np.array([10.0, 10.0, 10.0])) == 6.0  # 4 + 2 at step 2; 1 + 0 at step 4


def test_usage_above_the_limit_counts_as_the_limit():
    assert peak(BOTH, 0, 5, np.array([3.0, 10.0])) == 7.0
    assert peak(BOTH, 0, 5, np.array([10.0, 5.0])) == 6.0


def test_without_a_future_it_is_the_sum_of_the_limits_of_the_pods_that_run():
    pods = [SeriesStay(0, 0, 6), SeriesStay(1, 0, 5)]
    assert peak(pods, 5, 3) == 10.0


def test_a_machine_without_pods_needs_nothing():
    assert peak([SeriesStay(0, 3, 6)], 0, 5, np.array([10.0])) == 0.0


@st.composite
def machines(draw):
    steps = draw(st.integers(2, 12))
    count = draw(st.integers(1, 4))
    cores = [[draw(st.integers(0, 8)) for _ in range(steps)] for _ in range(count)]
    ends = st.integers(0, steps)
    pods = [SeriesStay(series, *sorted((draw(ends), draw(ends)))) for series in range(count)]
    return cores, pods, draw(st.integers(0, steps - 2)), draw(st.integers(1, steps))


@given(machines())
def test_equals_the_definition(machine):
    """Use whole cores, so that sums are exact in any order."""
    cores, pods, step, horizon = machine
    limit, now_running = 5, [pod for pod in pods if pod.start <= step < pod.end]
    expected = 0
    for later in range(step + 1, min(step + horizon, len(cores[0]) - 1) + 1):
        total = sum(min(cores[pod.series][later], limit) for pod in now_running if later < pod.end)
        expected = max(expected, total)
    assert peak(pods, step, horizon, np.full(len(pods), 5.0), np.array(cores, float)) == expected
