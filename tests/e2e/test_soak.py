"""Choice of the double faults of a soak, and their bookkeeping."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.soak import memory, pairs
from e2e.soak.memory import Sample
from e2e.soak.pairs import Kind, Layer, Result

KINDS = (
    Kind("kill", Layer.PARTS),
    Kind("partition", Layer.LINK),
    Kind("silence", Layer.LINK),
    Kind("restart", Layer.CONTROL_PLANE),
    Kind("CRD gone", Layer.OBJECTS),
)


DOCUMENT = {
    "enable": True,
    "midReclaimRatioPercent": 70,
    "metricReportIntervalSeconds": 31,
    "nodePredictPolicy": {"n": 3},
}


SPEC = {
    "metricCollectPolicy": {"reportIntervalSeconds": 31},
    "midColocationPolicy": {"enable": True, "midReclaimRatioPercent": 70},
    "predictPolicy": {"n": 3},
}


def test_a_pair_has_two_kinds_lower_layer_first_and_one_fault_of_the_link_at_most():
    found = pairs.possible(KINDS)
    assert len(found) == len(set(map(pairs.names, found))) == 9
    assert all(one.layer <= other.layer for one, other in found)
    assert frozenset({"partition", "silence"}) not in map(pairs.names, found)


@given(st.integers(0, 1000))
def test_every_pair_comes_once_before_any_comes_twice(seed):
    chance, results = random.Random(seed), []
    for _ in range(2 * len(pairs.possible(KINDS))):
        results.append(Result(pairs.names(pairs.choose(KINDS, results, chance)), 1.0))
    once = results[: len(results) // 2]
    assert {each.names for each in once} == set(map(pairs.names, pairs.possible(KINDS)))
    assert sorted(map(sorted, (each.names for each in results[len(once) :]))) == sorted(
        map(sorted, (each.names for each in once))
    )


def test_each_key_of_an_edit_that_is_lost_is_named():
    older = {
        "metricCollectPolicy": {"reportIntervalSeconds": 30},
        "midColocationPolicy": {"enable": True, "midUnallocatedPercent": 20},
        "predictPolicy": {"n": 2},
    }
    assert pairs.unmet(DOCUMENT, older) == [
        "midReclaimRatioPercent: seen 100, want 70",
        "midUnallocatedPercent: seen 20, want 0",
        "metricReportIntervalSeconds: seen 30, want 31",
        "n: seen 2, want 3",
    ]


def test_of_a_switch_only_the_switch_counts():
    assert pairs.unmet({"enable": False}, SPEC) == ["enable: seen True, want False"]
    assert pairs.unmet({"enable": False}, {}) == []
    assert pairs.unmet(DOCUMENT, {**SPEC, "midColocationPolicy": {"midReclaimRatioPercent": 70}}) == [
        "enable: seen False, want True"
    ]


def life(mebibytes, *, pid=1, since=0.0, seconds=1000.0, name="manager", leads=False):
    count = int(seconds // 10)
    return [Sample(name, pid, since + 10.0 * index, mebibytes(index / count), leads) for index in range(count + 1)]


def test_growth_is_counted_from_the_end_of_the_warm_up():
    (row,) = memory.rows(life(lambda share: 50.0 if share < 0.1 else 80.0))
    assert (row.first_mebibytes, row.last_mebibytes, row.growth) == (80.0, 80.0, 0.0)


def test_steady_growth_is_more_than_allowed():
    (row,) = memory.rows(life(lambda share: 60.0 + 30.0 * share))
    assert row.growth == pytest.approx(0.125, abs=0.02)
    assert row.growth > memory.MOST_GROWTH


def test_the_longest_of_several_lives_counts():
    (row,) = memory.rows(
        life(lambda _: 70.0, seconds=400.0)
        + life(lambda share: 70.0 + 70.0 * share, pid=2, since=400.0, seconds=1200.0)
    )
    assert (row.processes, row.longest_life_seconds) == (2, 1200.0)
    assert row.growth > memory.MOST_GROWTH


def test_a_life_that_nobody_ended_is_a_restart():
    samples = [
        *life(lambda _: 70.0),
        *life(lambda _: 70.0, pid=2, since=1000.0),
        *life(lambda _: 70.0, pid=3, since=2000.0),
        *life(lambda _: 60.0, pid=9, name="koordlet"),
    ]
    assert memory.restarts(samples, {"manager": 1}) == {"manager": 1}
    assert memory.restarts(samples, {"manager": 2}) == {}


def test_memory_that_a_new_leader_takes_is_no_growth_and_no_restart():
    samples = [*life(lambda _: 70.0), *life(lambda _: 90.0, since=1000.0, leads=True)]
    (row,) = memory.rows(samples)
    assert (row.processes, row.growth) == (1, 0.0)
    assert memory.restarts(samples, {}) == {}


def test_growth_of_a_leader_is_growth():
    (row,) = memory.rows(
        [*life(lambda _: 70.0), *life(lambda share: 80.0 + 30.0 * share, since=1000.0, seconds=1200.0, leads=True)]
    )
    assert row.growth > memory.MOST_GROWTH
