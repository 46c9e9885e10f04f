"""Amounts of `koordctl gain`: the document, means, shares, risks and the promise of a predictor."""

import re

import pytest

from koordctl.gain import gains
from koordctl.gain.gains import GIB, DayGain, Gain, GainSums, NamespaceMidUse, PeakExceeded, predictor_gain

DAY = 86_400


def test_a_predictor_keeps_its_promise_up_to_the_limit_itself():
    ratios = (0.01, 0.0101)
    assert [predictor_gain("calibrated", "cpu", ratio, 0.3).is_too_low for ratio in ratios] == [False, True]


def test_the_document_has_the_amounts_of_the_table_and_of_each_day():
    given = NamespaceMidUse(GainSums(7_200.0, 3_600.0 * GIB), GainSums(1_800.0), 900.0, 4.0)
    days = [DayGain("2026-11-21", 10.0, 5.0, 2.5)]
    found = gains.document(
        Gain("x", seconds=7_200, namespaces={"etl": given}, days=days, withdrawn={"SampleTooOld": 5_400.0})
    )
    (of_etl,) = found.namespaces
    assert (of_etl.requested.cpu, of_etl.requested.memory_gib, of_etl.used.cpu) == (2.0, 1.0, 0.5)
    assert (of_etl.used.memory_gib, of_etl.suppressed_cpu, of_etl.evicted_pods) == (None, 0.25, 4.0)
    (day,) = found.days
    assert (day.offered, day.requested, day.used) == (10.0, 5.0, 2.5)
    assert found.withdrawn == {"SampleTooOld": 1.5}
    assert found.unit == "hours"


def test_the_summary_has_means_shares_and_risks():
    given = NamespaceMidUse(GainSums(2 * 7_200.0, 4 * 7_200.0 * GIB), GainSums(7_200.0), None, 3.0)
    gain = Gain(
        "x",
        seconds=7_200,
        manager_seconds=3_600,
        agent_seconds=7_200,
        offered=GainSums(4 * 3_600.0, 8 * 3_600.0 * GIB),
        allocatable=GainSums(16 * 7_200.0, 32 * 7_200.0 * GIB),
        namespaces={"etl": given},
        exceeded=[PeakExceeded("cpu", 0.021, "n1", 0.5), PeakExceeded("memory", 0.0, "", 0.0)],
        withdrawn={"SampleTooOld": 5_400.0},
    )
    assert [re.sub(" +", " ", line) for line in gains.summary(gain)] == [
        "Mid on offer, mean 4.0 cores (25 %), 8.0 GiB (25 %)",
        "Mid requested, mean 2.0 cores (12 %), 4.0 GiB (12 %)",
        "Mid used, mean 1.0 cores (6 %), - GiB",
        "Prod above its predicted peak of cpu: 2.1 % of the time; worst node n1, 50 %",
        "Prod above its predicted peak of memory: 0 % of the time",
        "Mid taken away or kept, node-hours: SampleTooOld 1.5",
        "Mid pods evicted: 3",
    ]


def test_the_namespace_that_used_most_is_first_and_equal_ones_are_by_name():
    used = {"a": 1.0, "b": None, "c": 3.0, "d": 1.0, "e": 0.0}
    gain = Gain("x", namespaces={name: NamespaceMidUse(used=GainSums(cpu)) for name, cpu in used.items()})
    assert gains.ordered(gain) == ["c", "a", "d", "b", "e"]


ETL = {"etl": NamespaceMidUse()}


@pytest.mark.parametrize(
    ("seconds", "given", "code"),
    [
        (DAY, {}, 1),
        (DAY, {"offered": GainSums(0.0, 0.0)}, 1),
        (DAY, {"offered": GainSums(1.0, None)}, 0),
        (DAY, {"offered": GainSums(None, 1.0)}, 0),
        (DAY, {"namespaces": ETL}, 0),
        (0, {}, 0),
    ],
)
def test_a_time_without_mid_resources_is_no_answer(seconds, given, code):
    assert gains.answer(Gain("x", seconds=seconds, **given)).exit_code == code


def test_what_the_source_does_not_have_is_named():
    made = gains.answer(Gain("x", missing=["usage: no agent"]))
    assert made.notes == ["not shown: usage: no agent"]
    assert made.data.missing == ["usage: no agent"]


def test_the_forecasts_of_every_predictor_are_shown_beside_what_it_promises():
    given = [predictor_gain("calibrated", "cpu", 0.0123, 0.4), predictor_gain("percentile", "memory", 0.5, 0.25)]
    gain = Gain("x", forecasts=given, exceeded=[PeakExceeded("cpu", 0.02, "n1", 0.5)])
    made = gains.answer(gain)
    assert len(made.tables) == 2
    assert made.tables[1].rows == [
        ("calibrated", "cpu", "1.23%", "1%", "40%"), ("percentile", "memory", "50.00%", "-", "25%"),
    ]  # fmt: skip
    assert [column.right for column in made.tables[1].columns] == [False, False, True, True, True]
    assert [(each.predictor, each.promised) for each in made.data.forecasts] == [
        ("calibrated", 0.01), ("percentile", None),
    ]  # fmt: skip
    (peak,) = made.data.prod_above_peak
    assert (peak.ratio, peak.worst_ratio) == (0.02, 0.5)
    assert len(gains.answer(Gain("x")).tables) == 1
