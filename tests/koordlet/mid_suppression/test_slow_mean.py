"""Until when usage that was above the threshold counts as above it, and which samples are too old."""

from koordlet.mid_suppression.node_usage import NodeUsage, RecentUsage


def used(cores):
    return NodeUsage(cores, 0.0, 0.0)


def test_after_a_busy_time_the_slow_mean_decides_until_it_falls_below_the_threshold():
    """Its time constant is 20 s: 9 - 2.5 / e = 8.08 cores, then 8.08 * exp(-4 / 20) = 6.6 and exp(-5 / 20): 6.3."""
    recent = RecentUsage()
    recent.add(100.0, 120.0, used(9.0), 6.5)
    for second in range(120, 124):
        recent.add(second, second + 1, used(0.0), 6.5)
        assert recent.is_busy(second + 1)
    recent.add(124, 125, used(0.0), 6.5)
    assert not recent.is_busy(125)


def test_the_slow_mean_begins_at_the_threshold_at_most():
    """From 6.5 cores, after 5 s at 9: 9 - 2.5 * exp(-5 / 20) = 7.05; then 7.05 * exp(-2 / 20) = 6.4."""
    recent = RecentUsage()
    recent.add(100.0, 105.0, used(9.0), 6.5)
    recent.add(105.0, 107.0, used(0.0), 6.5)
    assert not recent.is_busy(107.0)


def test_the_slow_mean_begins_at_usage_below_the_threshold():
    """From 1 core, after 5 s at 9: 9 - 8 * exp(-5 / 20) = 2.77."""
    recent = RecentUsage()
    recent.add(99.0, 100.0, used(1.0), 6.5)
    recent.add(100.0, 105.0, used(9.0), 6.5)
    recent.add(105.0, 105.25, used(0.0), 6.5)
    assert not recent.is_busy(105.25)


def test_half_a_second_less_than_five_is_five_seconds():
    recent = RecentUsage()
    recent.add(100.0, 104.25, used(9.0), 6.5)
    assert (recent.is_busy(104.25), recent.mean(104.25)) == (False, None)
    recent.add(104.25, 104.5, used(9.0), 6.5)
    assert (recent.is_busy(104.5), recent.mean(104.5)) == (True, used(9.0))


def test_a_sample_of_ten_seconds_ago_does_not_count():
    recent = RecentUsage()
    recent.add(100.0, 105.0, used(9.0), 6.5)
    assert recent.mean(114.75) == used(9.0)
    assert recent.is_busy(114.75)
    assert recent.mean(115.0) is None
    assert not recent.is_busy(115.0)


def test_after_a_time_without_samples_the_slow_mean_begins_again():
    recent = RecentUsage()
    recent.add(100.0, 200.0, used(9.0), 6.5)
    assert recent.mean(300.0) is None
    recent.add(300.0, 301.0, used(1.0), 6.5)
    assert not recent.is_busy(400.0)
