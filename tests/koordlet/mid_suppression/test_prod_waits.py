from koordlet.mid_suppression.prod_waits import CpuWaits


def read_each_minute(waits, *counters, begin=0):
    """Return which pods wait, seen each 5 s, at the end of each minute."""
    seen = []
    for minute, waited in enumerate(counters):
        for second in range(5, 65, 5):
            found = waits.waiting(begin + 60 * minute + second, {"a": waited})
        seen.append(sorted(found))
    return seen


def test_a_pod_that_waits_a_quarter_of_the_time_is_named_and_one_that_waits_less_is_not():
    assert read_each_minute(CpuWaits(), 100.0, 115.0, 129.0, 189.0) == [[], ["a"], [], ["a"]]


def test_a_pod_that_waits_no_more_is_forgotten():
    assert read_each_minute(CpuWaits(), 0.0, 60.0, 60.0, 60.0, 60.0)[-1] == []


def test_one_reading_says_nothing_about_the_time_before_it():
    assert read_each_minute(CpuWaits(), 5000.0, 5000.0) == [[], []]


def test_the_counter_of_another_group_is_no_waiting():
    assert read_each_minute(CpuWaits(), 500.0, 560.0, 30.0) == [[], ["a"], []]


def test_nothing_is_kept_of_a_pod_that_is_gone():
    waits = CpuWaits()
    read_each_minute(waits, 0.0, 60.0)
    assert waits.waiting(300.0, {}) == frozenset()
    assert waits.waiting(360.0, {"a": 60.0}) == frozenset()


def test_a_pod_that_waits_is_found_behind_one_whose_counter_stays():
    waits = CpuWaits()
    for second in (0, 60, 120):
        found = waits.waiting(float(second), {"quiet": 5.0, "web": second / 2, "small": second / 5})
    assert found == {"web"}
