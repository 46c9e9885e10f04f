"""A value a minute for two hours, one in five minutes for a day, and a bounded memory."""

import dataclasses
import itertools

import numpy as np
import pytest

from console.history.memory import MOST_NODES, History
from console.pages import shown
from fleet.node_state import Amounts, NodeState

pytestmark = pytest.mark.slow

DAY = 24 * 60


def node(name="a", cpu=1500):
    return NodeState(name, used=Amounts(cpu, 2**30))


def test_a_value_a_minute_then_one_in_five():
    history = History()
    for minute in range(2 * DAY):
        history.record(minute * 60 + 7, [node(cpu=minute)])
    points = history.node_points("a", "cpu")
    assert points[-1].time_seconds == (2 * DAY - 1) * 60
    steps = np.diff([point.time_seconds for point in points])
    assert set(steps[-119:]) == {60}
    assert set(steps[:-120]) == {300}
    covered = points[-1].time_seconds - points[0].time_seconds
    assert 24 * 3600 - 600 <= covered <= 24 * 3600


def test_values_are_in_cores_and_gib_and_unknown_is_not_zero():
    history = History()
    history.record(60, [node()])
    (cpu,), (memory,) = history.node_points("a", "cpu"), history.node_points("a", "memory")
    assert cpu.values == (1.5, None, None, None, None)
    assert memory.values[0] == pytest.approx(1.0)


def test_the_fleet_is_the_sum():
    history = History()
    history.record(60, [node("a"), node("b"), NodeState("unknown")])
    assert history.fleet_points("cpu")[0].values[0] == 3.0


def test_a_node_that_is_gone_is_forgotten_and_its_place_used_again():
    history = History(most_nodes=2)
    history.record(60, [node("a", 1000), node("b")])
    history.record(120, [node("b")])
    assert history.node_points("a", "cpu") == []
    history.record(180, [node("b"), node("c", 9000)])
    assert [point.values[0] for point in history.node_points("c", "cpu")] == [9.0]


def test_a_gap_stays_a_gap():
    history = History()
    history.record(0, [node("a"), node("b")])
    history.record(60 * 121, [node("a"), node("b")])  # the slot of minute 1 in the ring
    history.record(60 * 122, [node("a"), dataclasses.replace(node("b"), used=Amounts())])
    assert [point.time_seconds for point in history.node_points("b", "cpu")] == [0, 60 * 121]


def test_more_nodes_than_the_bound_leave_the_fleet_only():
    history = History(most_nodes=3)
    history.record(60, [node(str(number)) for number in range(5)])
    assert [bool(history.node_points(str(number), "cpu")) for number in range(5)] == [True] * 3 + [False] * 2
    assert history.fleet_points("cpu")[0].values[0] == 7.5


def test_a_day_of_the_most_nodes_takes_less_than_45_mib():
    history = History()
    history.record(60, [node(str(number)) for number in range(MOST_NODES)])
    held = sum(ring._values.nbytes for ring in history._of_nodes)
    assert held <= 45 * 2**20


def test_the_history_of_a_late_date_is_the_same():
    history = History()
    late = 253_402_300_740  # the last minute of the year 9999: a loop over all minutes before does not end
    for time in (late - 60, late):
        history.record(time, [node()])
    assert [point.time_seconds for point in history.fleet_points("cpu")] == [late - 60, late]
    assert [point.time_seconds for point in history.node_points("a", "cpu")] == [late - 60, late]


def test_a_time_without_samples_is_a_gap_and_no_line():
    history = History()
    for minute in (*range(600, 605), *range(630, 635)):
        history.record(60 * minute, [node()])
    points = shown.thinned(history.fleet_points("cpu"), 120)
    gap = [point for point in points if point.values[0] is None]
    assert [60 * 604 < point.time_seconds < 60 * 630 for point in gap] == [True]
    assert all(value is None for value in gap[0].values)


def test_old_points_that_are_further_apart_are_no_gap():
    history = History()
    for minute in range(600, 900):
        history.record(60 * minute, [node()])
    points = history.fleet_points("cpu")
    assert len({after.time_seconds - before.time_seconds for before, after in itertools.pairwise(points)}) > 1
    assert all(point.values[0] is not None for point in shown.thinned(points, 120))
