"""The checks of the Mid soak find what they are made for."""

import math

from e2e.mid_soak import checks
from e2e.mid_soak.checks import Closed, Pair


def test_counts_the_busiest_window_wherever_it_begins():
    assert checks.most_within([]) == 0
    assert checks.most_within([0, 59.9, 60.0, 61.0]) == 3
    assert checks.most_within([61.0, 0, 60.0]) == 2


def test_finds_one_patch_too_many():
    assert list(checks.patch_problems([float(second) for second in range(20)])) == []
    assert list(checks.patch_problems([float(second) for second in range(21)]))


def test_finds_evictions_that_are_too_close():
    assert list(checks.rate_problems([0, 120, 240], 120)) == []
    assert list(checks.rate_problems([0, 119], 120))


def test_finds_a_pod_that_returns_to_a_closed_node():
    closed = [Closed(100, 500)]
    assert list(checks.loop_problems([100], closed, {"before": 90, "in flight": 101, "after": 501}, 300)) == []
    assert list(checks.loop_problems([100], closed, {"returns": 300}, 300))


def test_finds_a_node_that_opens_too_early_counted_from_its_last_eviction():
    assert list(checks.loop_problems([100, 220], [Closed(100, 520)], {}, 300)) == []
    assert list(checks.loop_problems([100, 221], [Closed(100, 520)], {}, 300))


def test_finds_an_eviction_that_closes_nothing():
    assert list(checks.loop_problems([100], [], {}, 300))
    assert list(checks.loop_problems([100], [Closed(100, math.inf)], {}, 300)) == []


def test_compares_latency_by_medians_of_valid_pairs_only():
    fine, void = Pair(1000, 5000), Pair(1000, 1200)
    assert list(checks.latency_problems([fine] * 3 + [void] * 9, 2000)) == []
    assert list(checks.latency_problems([void] * 9, 2000)) == []
    assert list(checks.latency_problems([Pair(4000, 5000)] * 3, 2000))


def test_the_ratio_is_that_of_the_pairs_and_not_of_unrelated_medians():
    pairs = [Pair(900, 3000), Pair(4000, 5000), Pair(8000, 9000)]
    assert checks.ratio(pairs, 2000) == 0.8
    assert checks.ratio([], 2000) is None


def test_finds_a_run_that_shows_nothing():
    assert list(checks.void_problems({"evictions": 1}, {"evictions": 1})) == []
    assert list(checks.void_problems({"evictions": 0}, {"evictions": 1}))
