from component_base.rate_limits import SlidingWindow, TokenBucket


def test_a_burst_is_bounded_and_refilled_with_time():
    bucket = TokenBucket(burst=300, per_second=10.0)
    assert sum(bucket.take(0.0) for _ in range(600)) == 300
    assert sum(bucket.take(2.0) for _ in range(600)) == 20
    assert sum(bucket.take(3600.0) for _ in range(600)) == 300


def test_a_clock_that_is_set_back_refills_nothing():
    bucket = TokenBucket(burst=3, per_second=10.0)
    while bucket.take(100.0):
        pass
    assert not bucket.take(40.0)
    assert bucket.take(41.0), "the time since then counts"


def test_a_window_counts_what_happened_within_its_seconds_and_forgets_what_is_taken_back():
    window = SlidingWindow(60.0, [1.0, 0.0])
    window.add(2.0)
    assert [window.count(now) for now in (2.0, 59.9, 60.0)] == [3, 3, 2]
    window.remove(1.0)
    window.remove(1.0)
    assert window.count(60.0) == 1


def test_a_window_whose_clock_is_set_back_counts_what_came_later_as_of_now():
    window = SlidingWindow(60.0, [100.0])
    window.clock_set_back(10.0)
    assert [window.count(now) for now in (69.9, 70.0)] == [1, 0]
