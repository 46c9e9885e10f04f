"""Placement: repeatable, all slots taken, no series twice at a time, the requested mean lifetime."""

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.backtest import placement


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 60), st.floats(0.5, 100), st.integers())
def test_every_slot_is_taken_at_every_step_by_another_series(slots, spare, steps, mean_life, seed):
    pods = placement.place(slots + spare, steps, slots, mean_life, random.Random(seed))
    for step in range(steps):
        running = [pod.series for pod in pods if pod.start <= step < pod.end]
        assert len(running) == len(set(running)) == slots
    assert all(0 <= pod.start < pod.end <= steps and 0 <= pod.series < slots + spare for pod in pods)


def test_the_same_seed_places_the_same_pods_and_another_does_not():
    one, same, other = (placement.place(20, 500, 4, 50.0, random.Random(seed)) for seed in (7, 7, 8))
    assert one == same != other
    assert placement.draw_requests(50, 7) == placement.draw_requests(50, 7) != placement.draw_requests(50, 8)


def test_pods_have_the_requested_mean_lifetime():
    steps = 200_000
    pods = placement.place(30, steps, 10, 100.0, random.Random(1))
    assert statistics.mean(pod.end - pod.start for pod in pods) == pytest.approx(100, rel=0.03)


def test_requests_are_one_two_four_or_eight_cores_about_equally_often():
    drawn = placement.draw_requests(8000, 3)
    assert {cores: pytest.approx(drawn.count(cores), rel=0.1) for cores in (1, 2, 4, 8)} == dict.fromkeys(
        (1, 2, 4, 8), 2000
    )


def test_rejects_a_machine_without_another_series():
    with pytest.raises(ValueError, match="4 slots and 4 series: want more series"):
        placement.place(4, 10, 4, 5.0, random.Random(1))
