from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.plugins.trimaran.formulas.recent_pods import shipped_share, unmeasured_share

END = 1000.0


@pytest.mark.parametrize(("placed_at", "share"), [(1200, 1), (1000, 1), (775, 0.75), (100, 0), (-5000, 0)])
def test_share_of_a_window_of_15_minutes(placed_at: float, share: float) -> None:
    assert unmeasured_share(placed_at, END, 900) == share


@pytest.mark.parametrize("window_seconds", [0, 15, 60])
def test_a_current_value_lacks_part_of_a_pod_for_a_minute(window_seconds: float) -> None:
    assert unmeasured_share(985, END, window_seconds) == 0.75
    assert unmeasured_share(940, END, window_seconds) == 0


def test_without_a_window_nothing_of_a_pod_is_measured() -> None:
    assert unmeasured_share(0, -math.inf, 0) == 1


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1e5))
def test_the_measured_and_the_added_share_make_the_whole_pod(placed_at: float, end: float, seconds: float) -> None:
    window = max(seconds, 60.0)
    measured = min(max(0.0, end - placed_at), window) / window
    assert measured + unmeasured_share(placed_at, end, seconds) == pytest.approx(1)


@pytest.mark.parametrize(("placed_at", "share"), [(1200, 1), (941, 1), (940, 0)])
def test_upstream_counts_a_pod_wholly_for_60_seconds(placed_at: float, share: float) -> None:
    assert shipped_share(placed_at, END) == share
