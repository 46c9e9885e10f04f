"""Placement: repeatable, all slots taken, no series twice at a time, the requested mean lifetime."""

import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordctl.backtest import node_history

pytestmark = pytest.mark.slow


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 60), st.floats(0.5, 100), st.integers())
def test_every_slot_is_taken_at_every_step_by_another_series(slots, spare, steps, mean_life, seed):
    pods = node_history.place(np.ones((slots + spare, steps), bool), slots, mean_life, random.Random(seed))
    for step in range(steps):
        running = [pod.series for pod in pods if pod.start <= step < pod.end]
        assert len(running) == len(set(running)) == slots
    assert all(0 <= pod.start < pod.end <= steps and 0 <= pod.series < slots + spare for pod in pods)


@given(st.integers(1, 4), st.integers(2, 60), st.integers())
def test_a_pod_runs_only_where_its_series_has_values(slots, steps, seed):
    known = np.random.default_rng(seed % 2**32).uniform(size=(slots + 2, steps)) < 0.7
    pods = node_history.place(known, slots, 10.0, random.Random(seed))
    for pod in pods:
        assert 0 <= pod.start < pod.end <= steps
        assert known[pod.series, pod.start : pod.end].all()
    for step in range(steps):
        running = [pod.series for pod in pods if pod.start <= step < pod.end]
        assert len(running) == len(set(running)) <= slots


def test_the_same_seed_places_the_same_pods_and_another_does_not():
    one, same, other = (
        node_history.place(np.ones((20, 500), bool), 4, 50.0, random.Random(seed)) for seed in (7, 7, 8)
    )
    assert one == same != other
    assert node_history.draw_requests(50, 7) == node_history.draw_requests(50, 7) != node_history.draw_requests(50, 8)


def test_pods_have_the_requested_mean_lifetime():
    steps = 200_000
    pods = node_history.place(np.ones((30, steps), bool), 10, 100.0, random.Random(1))
    assert statistics.mean(pod.end - pod.start for pod in pods) == pytest.approx(100, rel=0.03)


def test_requests_are_one_two_four_or_eight_cores_about_equally_often():
    drawn = node_history.draw_requests(8000, 3)
    assert {cores: pytest.approx(drawn.count(cores), rel=0.1) for cores in (1, 2, 4, 8)} == dict.fromkeys(
        (1, 2, 4, 8), 2000
    )


def test_rejects_a_machine_without_another_series():
    with pytest.raises(ValueError, match="4 slots and 4 series: want more series"):
        node_history.place(np.ones((4, 10), bool), 4, 5.0, random.Random(1))
