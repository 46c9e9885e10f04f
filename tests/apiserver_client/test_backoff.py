import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_client import backoff

draws = st.floats(min_value=0.0, max_value=1.0, exclude_max=True)


@pytest.mark.parametrize(
    ("attempt", "drawn", "seconds"),
    [(0, 0.0, 0.4), (0, 0.5, 0.6), (3, 0.0, 3.2), (5, 0.0, 12.8), (6, 0.0, 15.0), (6, 0.5, 22.5), (10**9, 0.0, 15.0)],
)
def test_waits_double_from_the_first_to_the_longest_as_in_the_reflector_of_client_go(attempt, drawn, seconds):
    assert backoff.DEFAULT.seconds(attempt, lambda: drawn) == pytest.approx(seconds)


@given(attempt=st.integers(min_value=0, max_value=10**9), drawn=draws)
def test_a_wait_is_at_least_half_of_the_step_which_is_bounded(attempt, drawn):
    step = backoff.DEFAULT.step_seconds(attempt)
    assert 0.8 <= step <= 30.0
    assert step / 2 <= backoff.DEFAULT.seconds(attempt, lambda: drawn) <= step
