"""Stays of pods on a node in `koordctl backtest`: when one ends, and which share a row of usage."""

import numpy as np
import pytest

from koordctl.backtest.time_range import TimeRange
from koordlet.samples import Resource
from tests.koordctl.backtest.test_node_day import DAY, START, STEP, STEPS, day, history, labels, usage_of

HOUR = 3600 // STEP


def stays(found):
    return {pod.uid: (stay.series, stay.start, stay.end) for pod, stay in zip(found.bound, found.stays, strict=True)}


def test_a_pod_ends_where_the_next_of_its_name_begins_on_whatever_step_they_begin():
    pods = {labels("a"): range(50, 101), labels("b"): range(90, 150), labels("c"): range(140, 200)}
    found = history(day(pods, {"web": {step: 1.0 + step for step in range(STEPS)}}))
    assert stays(found) == {"a": (0, 50, 90), "b": (0, 90, 140), "c": (0, 140, 200)}
    for uid, steps in (("a", range(50, 90)), ("b", range(90, 140)), ("c", range(140, 200))):
        assert usage_of(found, uid) == {step: 1.0 + step for step in steps}


def test_pods_share_a_row_where_one_begins_at_or_after_the_end_of_another():
    steps = {"a": (0, 20), "b": (0, 10), "c": (10, 30), "d": (19, 40), "e": (20, 40), "f": (35, 40)}
    pods = {labels(name, name): range(*of_name) for name, of_name in steps.items()}
    usage = {name: dict.fromkeys(range(STEPS), float(number)) for number, name in enumerate("abcdef", 1)}
    found = history(day(pods, usage))
    rows = stays(found)
    assert rows["c"][0] == rows["b"][0]
    assert rows["e"][0] == rows["a"][0]
    assert rows["f"][0] == rows["c"][0]
    assert len({rows[uid][0] for uid in "abd"}) == 3
    assert found.usage[Resource.CPU].shape == (3, STEPS)
    for number, uid in enumerate("abcdef", 1):
        assert set(usage_of(found, uid).values()) == {float(number)}
    on_no_row = found.usage[Resource.MEMORY][:, 40:]
    assert np.isnan(on_no_row).all()


@pytest.mark.parametrize(("steps", "is_filled"), [(HOUR - 1, True), (HOUR, True), (HOUR + 1, False)])
def test_a_gap_of_an_hour_has_the_value_before_it_and_a_longer_one_none(steps, is_filled):
    measured = {step: 2.0 for step in range(STEPS) if not 100 <= step < 100 + steps} | {99: 5.0}
    found = history(day({labels("a"): range(STEPS)}, {"web": measured}))
    inside = [value for step, value in usage_of(found, "a").items() if 100 <= step < 100 + steps]
    assert (inside == [5.0] * steps) is is_filled
    assert np.isnan(inside).all() or is_filled
    assert usage_of(found, "a")[100 + steps] == 2.0


def test_requests_are_the_largest_of_the_days_and_amounts_of_a_node_the_last_ones():
    days = [TimeRange(START + number * DAY, STEP, STEPS) for number in range(2)]
    pods, usage = {labels("a"): range(STEPS), labels("b", "other"): range(STEPS)}, dict.fromkeys(range(STEPS), 2.0)
    used = {"web": usage, "other": usage}
    first = day(pods, used, days[0], requests={"a": {"cpu": 1.5, "memory": 4096.0}, "default/other": {"cpu": 0.25}},
                capacity={"cpu": 8.0, "memory": 1000.0}, allocatable={"cpu": 7.0, "memory": 900.0})  # fmt: skip
    second = day(pods, used, days[1], requests={"a": {"cpu": 0.5, "memory": 8192.0, "kubernetes_io_mid_cpu": 700.0}},
                 capacity={"cpu": 16.0}, allocatable={"memory": 950.0})  # fmt: skip
    found = history(first, second, over=TimeRange(START, STEP, 2 * STEPS))
    of = {pod.uid: pod for pod in found.bound}
    assert (of["a"].cpu_request_millis, of["a"].memory_request_bytes) == (1500, 8192)
    assert (of["a"].mid_cpu_request_millis, of["a"].mid_memory_request_bytes) == (700, 0)
    assert (of["b"].cpu_request_millis, of["b"].memory_request_bytes, of["b"].mid_cpu_request_millis) == (250, 0, 0)
    assert found.capacity == (16_000, 1000)
    assert found.allocatable == (7_000, 950)


@pytest.mark.parametrize(
    ("capacity", "allocatable", "expected"),
    [
        ({"cpu": 8.0, "memory": 1000.0}, {"cpu": 7.0}, ((8_000, 1000), (8_000, 1000))),
        ({"cpu": 8.0}, {"cpu": 7.0, "memory": 900.0}, (None, (7_000, 900))),
        ({"memory": 1000.0}, {}, (None, None)),
    ],
)
def test_the_capacity_is_the_allocatable_of_a_node_whose_own_is_not_complete(capacity, allocatable, expected):
    pods, usage = {labels("a"): range(STEPS)}, {"web": dict.fromkeys(range(STEPS), 2.0)}
    found = history(day(pods, usage, capacity=capacity, allocatable=allocatable))
    assert (found.capacity, found.allocatable) == expected
