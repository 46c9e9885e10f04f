"""Choice of the double faults of a soak, and their bookkeeping."""

import random

from hypothesis import given
from hypothesis import strategies as st

from e2e.soak import faults, pairs
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


@given(st.integers(0, 1000))
def test_a_short_run_tries_every_kind(seed):
    chance, results = random.Random(seed), []
    for _ in range(3):
        results.append(Result(pairs.names(pairs.choose(KINDS, results, chance)), 1.0))
    assert {name for each in results for name in each.names} == {kind.name for kind in KINDS}


def test_the_seed_decides():
    assert pairs.choose(KINDS, [], random.Random(5)) == pairs.choose(KINDS, [], random.Random(5))
    assert len({pairs.choose(KINDS, [], random.Random(seed)) for seed in range(100)}) == 9


def test_a_spec_that_follows_lacks_nothing():
    assert pairs.unmet(DOCUMENT, SPEC) == []


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


def test_the_table_has_the_slowest_recovery_of_each_pair():
    both, other = frozenset({"kill", "restart"}), frozenset({"kill", "silence"})
    results = [Result(both, 12.4), Result(other, None, problems=2), Result(both, 40.6, withdrawn=True)]
    assert pairs.table(results)[2:] == [
        "| kill + restart | 2 | 1 | 41 s | 0 |",
        "| kill + silence | 1 | 0 | not in time | 2 |",
    ]
    assert pairs.summary(KINDS, results) == "3 double faults, 2 of 9 pairs"


def test_one_recovery_that_was_too_late_is_not_hidden_by_another():
    both = frozenset({"kill", "restart"})
    assert pairs.table([Result(both, 12.0), Result(both, None)])[2] == "| kill + restart | 2 | 0 | not in time | 0 |"


def test_the_soak_has_a_fault_of_every_layer_and_no_name_twice():
    kinds = faults.KINDS
    assert {kind.layer for kind in kinds} == set(Layer)
    assert len({kind.name for kind in kinds}) == len(kinds)
