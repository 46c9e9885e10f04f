import pytest

from koordlet.report import schedule

ALLOCATABLE = {"cpu": 10_000, "memory": 10 << 30}


@pytest.mark.parametrize(
    ("old", "new", "due"),
    [
        (1000, 1050, False),  # exactly 5 %
        (1000, 1051, True),
        (1000, 949, True),
        (10, 15, False),  # 5 m of 10 cores: relative to 1 % of allocatable, 100 m, it is exactly 5 %
        (10, 16, True),
        (0, 5, False),
    ],
)
def test_a_change_beyond_the_threshold_has_moved(old, new, due):
    published = {"cpu": old, "memory": 1 << 30}
    assert schedule.moved({"cpu": new, "memory": 1 << 30}, published, ALLOCATABLE, 5) is due


def test_a_prediction_that_appears_or_vanishes_is_news():
    nothing = schedule.Published(None, None)
    something = schedule.Published({"cpu": 1, "memory": 1}, {"cpu": 1, "memory": 1})
    assert schedule.has_moved(something, nothing, ALLOCATABLE, 5)
    assert schedule.has_moved(nothing, something, ALLOCATABLE, 5)
    assert not schedule.has_moved(nothing, nothing, ALLOCATABLE, 5)


def test_a_shortened_interval_applies_from_the_next_check():
    timer = schedule.ReportSchedule()
    timer.written(0.0, 600, uniform=0.0)
    timer.checked(20.0, 20, 600)
    assert not timer.is_due(30.0)
    timer.checked(40.0, 20, 30)
    assert timer.is_due(40.0)


def test_the_first_report_is_due_at_once_and_the_next_after_the_interval():
    timer = schedule.ReportSchedule()
    assert timer.is_check_due(0.0)
    assert timer.is_due(0.0)
    timer.checked(0.0, 20, 60)
    timer.written(0.0, 60, uniform=0.0)
    assert not timer.is_due(59.9)
    assert timer.is_due(60.0)


def test_changes_are_checked_every_check_interval():
    timer = schedule.ReportSchedule()
    timer.checked(0.0, 20, 60)
    timer.written(0.0, 60, uniform=0.0)
    assert [timer.is_check_due(now) for now in (10.0, 19.9, 20.0)] == [False, False, True]
    timer.checked(20.0, 20, 60)
    assert not timer.is_check_due(21.0)
    assert timer.is_check_due(60.0)


def test_after_a_start_and_a_failure_a_report_comes_up_to_a_tenth_early_and_never_late():
    timer = schedule.ReportSchedule()
    timer.written(0.0, 60, uniform=1.0)
    assert not timer.is_due(53.9)
    assert timer.is_due(54.0)
    timer.failed(54.0, pause_seconds=6.0)
    timer.written(60.0, 60, uniform=1.0)
    assert not timer.is_due(113.9)
    assert timer.is_due(114.0)


def test_a_quiet_node_then_writes_no_more_often_than_once_an_interval():
    timer = schedule.ReportSchedule()
    timer.written(0.0, 60, uniform=1.0)
    for at in (54.0, 114.0, 174.0):
        assert timer.is_due(at)
        timer.written(at, 60, uniform=1.0)
        assert not timer.is_due(at + 59.9)


def test_writes_are_five_seconds_apart_whatever_the_check_interval():
    timer = schedule.ReportSchedule()
    timer.checked(0.0, 1, 60)
    timer.written(0.0, 60, uniform=0.0)
    assert [timer.is_check_due(now) for now in (1.0, 4.9, 5.0)] == [False, False, True]


def test_after_a_failure_the_pause_is_kept_though_the_report_is_due():
    timer = schedule.ReportSchedule()
    timer.checked(0.0, 20, 60)
    timer.failed(0.0, pause_seconds=12.0)
    assert timer.is_due(1.0)
    assert [timer.is_check_due(now) for now in (11.9, 12.0)] == [False, True]
