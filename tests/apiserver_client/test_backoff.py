"""Delays: bounded on both sides, growing, drawn at random."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_client import backoff

draws = st.floats(min_value=0.0, max_value=1.0, exclude_max=True)


@pytest.mark.parametrize(
    ("attempt", "drawn", "seconds"),
    [(0, 0.0, 0.4), (0, 0.5, 0.6), (1, 0.0, 0.8), (3, 0.0, 3.2), (5, 0.0, 12.8), (6, 0.0, 15.0), (6, 0.5, 22.5)],
)
def test_waits_double_from_the_first_to_the_longest(attempt, drawn, seconds):
    wait = backoff.Backoff(first_seconds=0.8, longest_seconds=30.0)
    assert wait.seconds(attempt, lambda: drawn) == pytest.approx(seconds)


@given(attempt=st.integers(min_value=0, max_value=10**9), drawn=draws)
def test_no_wait_is_shorter_than_half_the_first_or_longer_than_the_longest(attempt, drawn):
    wait = backoff.Backoff(first_seconds=1.0, longest_seconds=30.0)
    assert 0.5 <= wait.seconds(attempt, lambda: drawn) <= 30.0


@given(attempt=st.integers(min_value=0, max_value=60), drawn=draws)
def test_more_failures_never_mean_a_shorter_wait(attempt, drawn):
    assert backoff.DEFAULT.seconds(attempt, lambda: drawn) <= backoff.DEFAULT.seconds(attempt + 1, lambda: drawn)


def test_agents_that_fail_together_retry_at_different_times():
    drawn = iter([0.1, 0.9])
    first, second = (backoff.DEFAULT.seconds(4, lambda: next(drawn)) for _ in range(2))
    assert second - first == pytest.approx(0.8 * 12.8 / 2)


@pytest.mark.parametrize(("attempt", "seconds"), [(0, 0.4), (5, 12.8), (6, 15.0), (1000, 15.0)])
def test_the_default_waits_as_the_reflector_of_client_go(attempt, seconds):
    """It starts with 0.8 s and ends with 30 s; half of each is drawn."""
    assert backoff.DEFAULT.seconds(attempt, lambda: 0.0) == pytest.approx(seconds)
