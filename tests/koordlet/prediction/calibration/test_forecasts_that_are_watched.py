"""Forecasts under observation: when they end, which score and which rises they leave, and the peak of these."""

import pickle

import numpy as np
import pytest

from koordlet.prediction.calibration.resource_calibration import Load, ResourceCalibration
from koordlet.prediction.calibration.scores import CPU_SCALE, MEMORY_SCALE

STEP = 300.0
HORIZON = 900.0
DAY = 86_400.0
MIDNIGHT = 19_676 * DAY
NOON = MIDNIGHT + DAY / 2
SCALES = pytest.mark.parametrize("scale", [CPU_SCALE, MEMORY_SCALE], ids=["cpu", "memory"])


def load_of(cold=0.0625, requests=0.5625, mean=0.125):
    """Return a load of which row 0 is the warm series; with usage at its mean its base is the mean."""
    return Load(np.array([0]), np.array([mean]), np.zeros(1), NOON - 10 * DAY, cold, requests)


def tick(calibration, seconds, *shares, **options):
    calibration.ensure_rows(len(shares))
    calibration.tick(seconds, np.arange(len(shares)), np.array(shares), target_share=0.01, **options)


def watching(scale, seconds=NOON, load=None, shares=(0.125,), **options):
    """Return a calibration that begins a forecast of some series."""
    calibration = ResourceCalibration(scale, HORIZON, **options)
    tick(calibration, seconds, *shares)
    calibration.watch(load or load_of())
    return calibration


def watch_usage(calibration, seconds, usage):
    """Watch a forecast of one series with a usage in each step; return when it ended."""
    for share in usage:
        tick(calibration, seconds, share)
        if not calibration.is_watching:
            calibration.watch(load_of())
        seconds += STEP
    return seconds


def rises_of(calibration, *rows):
    return calibration.export(np.array(rows)).rises.tolist()


def cells_of(calibration):
    return np.flatnonzero(calibration.scores.export().weights).tolist()


def scored(scale, score, count=48):
    """Return a calibration whose forecasts had this score; one series uses 0.125."""
    calibration = ResourceCalibration(scale, HORIZON)
    for _ in range(count):
        calibration.scores.add(score, NOON)
    tick(calibration, NOON, 0.125)
    return calibration


def test_a_new_calibration_has_seen_nothing():
    state = ResourceCalibration(CPU_SCALE, HORIZON).export(np.arange(2))
    assert (state.seconds, state.watched, state.largest, state.is_capped) == (None, None, 0.0, False)


@pytest.mark.parametrize(
    ("longest_gap", "gap", "goes_on"),
    [(300.0, 0, True), (300.0, 300, True), (300.0, 301, False), (300.0, -1, False), (600.0, 600, True)],
)
def test_a_forecast_goes_on_over_each_gap_up_to_the_longest(longest_gap, gap, goes_on):
    calibration = watching(MEMORY_SCALE, longest_gap_seconds=longest_gap)
    tick(calibration, NOON + gap, 0.125)
    assert calibration.is_watching is goes_on


def test_a_forecast_ends_with_its_horizon_and_gives_one_score():
    calibration = watching(CPU_SCALE)
    for number in (1, 2):
        tick(calibration, NOON + number * STEP, 0.125)
        assert calibration.is_watching
    tick(calibration, NOON + HORIZON, 0.125)
    assert not calibration.is_watching
    assert calibration.scores.labels == 1


def test_a_score_of_cpu_is_the_largest_usage_above_the_cold_pods_by_the_base():
    """(0.25 - 0.0625) / 0.125 = 1.5"""
    calibration = watching(CPU_SCALE)
    for number, share in enumerate((0.0625, 0.25, 0.125), start=1):
        tick(calibration, NOON + number * STEP, share)
    assert cells_of(calibration) == [np.argmax(CPU_SCALE.grid >= 1.5)]


def test_a_score_of_memory_is_what_was_used_above_the_base_by_the_requests_of_warm_pods():
    """(0.25 - 0.0625 - 0.125) / (0.5625 - 0.0625) = 0.125, and the grid begins at -1 with steps of 0.0025."""
    calibration = watching(MEMORY_SCALE)
    for number, share in enumerate((0.0625, 0.25, 0.125), start=1):
        tick(calibration, NOON + number * STEP, share)
    assert cells_of(calibration) == [450]


def test_a_low_score_of_cpu_stays_low_and_a_negative_one_is_the_lowest():
    """(0.109375 - 0.0625) / 0.125 = 0.375, and without usage -0.5"""
    for share, expected in ((0.109375, np.argmax(CPU_SCALE.grid >= 0.375)), (0.0, 0)):
        calibration = watching(CPU_SCALE)
        for number in (1, 2, 3):
            tick(calibration, NOON + number * STEP, share)
        assert cells_of(calibration) == [expected]


def test_a_series_without_a_sample_when_the_forecast_begins_is_not_part_of_it():
    """(0.125 - 0.0625) / 0.125 = 0.5, though the other series uses 0.5 from the next sample on."""
    calibration = ResourceCalibration(CPU_SCALE, HORIZON)
    tick(calibration, NOON, 0.125, 0.5)
    tick(calibration, NOON + STEP, 0.125)
    calibration.watch(load_of())
    for number in (2, 3, 4):
        tick(calibration, NOON + number * STEP, 0.125, 0.5)
    assert cells_of(calibration) == [np.argmax(CPU_SCALE.grid >= 0.5)]
    assert rises_of(calibration, 0, 1) == [[0] * 7, [0] * 7]


@pytest.mark.parametrize(("cold", "labels"), [(0.2, 1), (0.24, 1), (0.25, 0), (0.4, 0)])
def test_a_forecast_whose_half_is_cold_gives_no_score(cold, labels):
    calibration = watching(CPU_SCALE, load=load_of(cold=cold, requests=0.5))
    for number in (1, 2, 3):
        tick(calibration, NOON + number * STEP, 0.125)
    assert calibration.scores.labels == labels


def test_the_largest_rise_of_a_day_is_kept():
    calibration = ResourceCalibration(MEMORY_SCALE, HORIZON)
    watch_usage(calibration, NOON, [0.125, 0.375, 0.25, 0.125, 0.125, 0.25, 0.125])
    assert rises_of(calibration, 0) == [[0.25, 0, 0, 0, 0, 0, 0]]


def test_a_forecast_that_a_gap_ends_keeps_its_rise_and_gives_no_score():
    calibration = watching(MEMORY_SCALE)
    tick(calibration, NOON + STEP, 0.375)
    tick(calibration, NOON + 4 * STEP, 0.125)
    assert rises_of(calibration, 0) == [[0.25, 0, 0, 0, 0, 0, 0]]
    assert calibration.scores.labels == 0


def with_a_rise():
    """Return a calibration with a rise of 0.25 in the last quarter of an hour before a midnight."""
    calibration = ResourceCalibration(MEMORY_SCALE, HORIZON)
    watch_usage(calibration, MIDNIGHT - 5 * STEP, [0.125, 0.375, 0.125, 0.125])
    return calibration


def test_a_rise_is_of_yesterday_from_midnight_on_and_gone_after_seven_days():
    calibration = with_a_rise()
    tick(calibration, MIDNIGHT - 1, 0.125)
    assert rises_of(calibration, 0) == [[0.25, 0, 0, 0, 0, 0, 0]]
    for days, expected in (
        (0, [0, 0.25, 0, 0, 0, 0, 0]),
        (0.9, [0, 0.25, 0, 0, 0, 0, 0]),
        (3, [0, 0, 0, 0, 0.25, 0, 0]),
        (5.5, [0, 0, 0, 0, 0, 0, 0.25]),
        (6, [0] * 7),
    ):
        tick(calibration, MIDNIGHT + days * DAY, 0.125)
        assert rises_of(calibration, 0) == [expected]


def test_after_a_pause_of_weeks_no_rise_is_left():
    calibration = with_a_rise()
    tick(calibration, MIDNIGHT + 30 * DAY, 0.125)
    assert rises_of(calibration, 0) == [[0] * 7]


def test_a_clock_that_goes_back_moves_no_rise():
    calibration = with_a_rise()
    for days in (2, 1):
        tick(calibration, MIDNIGHT - days * DAY, 0.125)
    assert rises_of(calibration, 0) == [[0.25, 0, 0, 0, 0, 0, 0]]
    tick(calibration, MIDNIGHT, 0.125)
    assert rises_of(calibration, 0) == [[0, 0.25, 0, 0, 0, 0, 0]]


def test_a_series_that_leaves_takes_its_usage_and_its_rises_with_it():
    calibration = watching(MEMORY_SCALE, shares=(0.125, 0.0625))
    for number, share in enumerate((0.375, 0.125, 0.125), start=1):
        tick(calibration, NOON + number * STEP, share, 0.0625)
    assert calibration.peak(load_of(), 0.0, 0.01) == 0.1875
    calibration.clear(np.array([0]))
    assert calibration.peak(load_of(), 0.0, 0.01) == 0.0625
    assert rises_of(calibration, 0, 1) == [[0] * 7, [0] * 7]


def test_the_next_series_of_a_row_has_no_rise_in_a_forecast_of_the_one_before():
    calibration = watching(MEMORY_SCALE, shares=(0.125, 0.0625))
    calibration.clear(np.array([0]))
    for number in (1, 2, 3):
        tick(calibration, NOON + number * STEP, 0.5, 0.125)
    assert rises_of(calibration, 0, 1) == [[0] * 7, [0.0625, 0, 0, 0, 0, 0, 0]]


def test_rows_that_were_never_used_can_be_cleared():
    calibration = watching(CPU_SCALE)
    calibration.clear(np.array([1, 2]))
    tick(calibration, NOON + STEP, 0.125)
    assert calibration.peak(load_of(), 0.0, 0.01) == 0.125


def test_one_more_series_finds_a_row():
    calibration = watching(CPU_SCALE)
    for count in (2, 3, 64, 65):
        tick(calibration, NOON + STEP, *[0.0078125] * count)
        assert calibration.peak(load_of(), 0.0, 0.01) == 0.0078125 * count


def test_more_ticks_of_the_same_series_take_no_more_memory():
    calibration = ResourceCalibration(CPU_SCALE, HORIZON)
    sizes = []
    for number in range(9):
        tick(calibration, NOON + number * STEP, *[0.0078125] * 64)
        sizes.append(len(pickle.dumps(calibration)))
    assert sizes[-1] - sizes[0] < 64


@SCALES
def test_with_few_scores_the_peak_is_that_of_n_sigma_but_not_below_usage(scale):
    calibration = scored(scale, 0.5, count=23)
    assert calibration.peak(load_of(), 0.25, 0.01) == 0.25
    assert calibration.peak(load_of(), 0.0625, 0.01) == 0.125


@pytest.mark.parametrize(("margin_factor", "expected"), [(1.0, 0.3125), (1.5, 0.4375), (3.0, 0.5625)])
def test_a_peak_of_memory_is_cold_base_and_a_share_of_the_requests_with_the_margin(margin_factor, expected):
    """0.0625 + 0.125 + 0.25 * (0.5625 - 0.0625), where 0.25 above the cold pods is multiplied; at most the requests."""
    calibration = scored(MEMORY_SCALE, 0.25)
    assert calibration.peak(load_of(), 0.5, 0.01, margin_factor) == pytest.approx(expected)


def test_the_safety_factor_of_a_peak_is_one_if_none_is_given():
    assert scored(MEMORY_SCALE, 0.25).peak(load_of(), 0.0, 0.01) == pytest.approx(0.3125)


@pytest.mark.parametrize(("margin_factor", "above"), [(1.0, 0.125), (2.0, 0.25)])
def test_a_peak_of_cpu_is_cold_and_a_multiple_of_the_base(margin_factor, above):
    """Of 50 scores and a quarter of an hour the correction is 4 * 0.25 / 50."""
    calibration, score = scored(CPU_SCALE, CPU_SCALE.grid[90], count=50), CPU_SCALE.grid[90]
    expected = 0.0625 + above * score * 1.02
    assert calibration.peak(load_of(), 0.5, 0.01, margin_factor) == pytest.approx(expected)


def test_usage_above_the_requests_is_the_peak():
    assert scored(CPU_SCALE, 3.0).peak(load_of(cold=0.0, requests=0.0625), 0.0, 0.01) == 0.125


@pytest.mark.parametrize(("count", "expected"), [(24, 0.5), (47, 0.5), (48, 0.3125)])
def test_the_larger_answer_is_taken_until_there_are_enough_scores(count, expected):
    calibration = scored(MEMORY_SCALE, 0.25, count)
    assert calibration.peak(load_of(), 0.5, 0.01) == pytest.approx(expected)
    assert calibration.peak(load_of(), 0.0, 0.01) == pytest.approx(0.3125)


def test_a_peak_of_memory_has_room_for_the_largest_rise_of_a_warm_series():
    """The scores alone give 0.0625 + 0.125 - 0.5: the floor is 0.0625 + 0.125, and the rise of 0.25."""
    calibration = scored(MEMORY_SCALE, -1.0)
    assert calibration.peak(load_of(), 0.0, 0.01) == pytest.approx(0.1875)
    calibration.watch(load_of())
    tick(calibration, NOON + STEP, 0.375)
    tick(calibration, NOON + 4 * STEP, 0.125)
    assert calibration.peak(load_of(), 0.0, 0.01) == pytest.approx(0.4375)


def test_another_horizon_begins_without_scores_rises_and_forecast():
    calibration = with_a_rise()
    calibration.change_horizon(HORIZON)
    assert calibration.scores.labels == 1
    assert calibration.is_watching
    assert rises_of(calibration, 0) == [[0.25, 0, 0, 0, 0, 0, 0]]
    calibration.change_horizon(2 * HORIZON)
    assert calibration.scores.labels == 0
    assert not calibration.is_watching
    assert rises_of(calibration, 0) == [[0] * 7]
