"""Amounts of `koordctl gain`: units, titles, the bars of a day, and the promise of a predictor at its limit."""

import re

import pytest

from koordctl import commands
from koordctl.gain import gains, page
from koordctl.gain.gains import GIB, Amounts, Day, Forecasts, Gain, OfNamespace

DAY = 86_400


def test_a_predictor_keeps_its_promise_up_to_the_limit_itself():
    ratios = (0.01, 0.0101)
    assert [Forecasts("calibrated", "cpu", ratio, 0.3).is_too_low for ratio in ratios] == [False, True]


@pytest.mark.parametrize(("seconds", "units"), [(0.0, ("CORES", "GIB")), (7_200.0, ("CORE-HOURS", "GIB-HOURS"))])
def test_the_table_has_cores_now_and_core_hours_over_a_time(seconds, units):
    per = 3_600 if seconds else 1
    given = OfNamespace(Amounts(20_000.0 * per, 6.0 * per * GIB), Amounts(1.5 * per, 3.0 * per * GIB), 0.5 * per, 4.0)
    table = gains.answer(Gain("x", seconds=seconds, namespaces={"etl": given})).tables[0]
    titles = ["NAMESPACE", *(f"{what} {unit}" for what in ("REQUESTED", "USED") for unit in units)]
    assert [column.title for column in table.columns] == [*titles, f"SUPPRESSED {units[0]}", "EVICTED"]
    assert [column.right for column in table.columns] == [False, *[True] * 6]
    assert table.rows == [("etl", "20000.0", "6.0", "1.5", "3.0", "0.5", "4")]


def test_the_document_has_the_amounts_of_the_table_and_of_each_day():
    given = OfNamespace(Amounts(7_200.0, 3_600.0 * GIB), Amounts(1_800.0), 900.0, 4.0)
    days = [Day("2026-11-21", 36_000.0, 18_000.0, 9_000.0)]
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


@pytest.mark.parametrize(
    ("seconds", "length"),
    [(43_200, "12 hours"), (DAY - 1_800, "23.5 hours"), (DAY, "1 day"), (1.5 * DAY, "1.5 days"), (7 * DAY, "7 days")],
)
def test_the_title_has_the_time_in_its_largest_unit(seconds, length):
    assert gains.title(Gain("x", seconds=seconds)) == f"What Mid resources gave in {length}, from x"


def test_the_summary_has_means_shares_and_risks():
    given = OfNamespace(Amounts(2 * 7_200.0, 4 * 7_200.0 * GIB), Amounts(7_200.0), None, 3.0)
    gain = Gain(
        "x",
        seconds=7_200,
        manager_seconds=3_600,
        agent_seconds=7_200,
        offered=Amounts(4 * 3_600.0, 8 * 3_600.0 * GIB),
        allocatable=Amounts(16 * 7_200.0, 32 * 7_200.0 * GIB),
        namespaces={"etl": given},
        exceeded=[gains.Exceeded("cpu", 0.021, "n1", 0.5), gains.Exceeded("memory", 0.0, "", 0.0)],
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


def test_now_the_summary_has_amounts_and_nodes():
    given = OfNamespace(Amounts(2.0, 3.0 * GIB), Amounts(1.0, 1.5 * GIB))
    of_all = Amounts(8.0, 16.0 * GIB)
    gain = Gain(
        "x",
        offered=Amounts(4.0, 8.0 * GIB),
        allocatable=of_all,
        namespaces={"etl": given},
        withdrawn={"SampleTooOld": 2.0},
    )
    lines = [re.sub(" +", " ", line) for line in gains.summary(gain)]
    assert lines == [
        "Mid on offer 4.0 cores (50 %), 8.0 GiB (50 %)",
        "Mid requested 2.0 cores (25 %), 3.0 GiB (19 %)",
        "Mid used 1.0 cores (12 %), 1.5 GiB (9 %)",
        "Mid taken away or kept, nodes: SampleTooOld 2",
    ]


def test_the_namespace_that_used_most_is_first_and_equal_ones_are_by_name():
    used = {"a": 1.0, "b": None, "c": 3.0, "d": 1.0, "e": 0.0}
    gain = Gain("x", namespaces={name: OfNamespace(used=Amounts(cpu)) for name, cpu in used.items()})
    assert gains.ordered(gain) == ["c", "a", "d", "b", "e"]


def test_the_bars_of_a_day_are_inside_one_another_and_inside_the_row_of_the_day():
    days = [Day("2026-11-20", 36_000.0, 18_000.0, 9_000.0), Day("2026-11-21", 72_000.0, 7_200.0, 0.0)]
    text = page.text(Gain("x", seconds=2 * DAY, days=days), "today")
    bars = [
        (kind, *map(float, numbers))
        for kind, *numbers in re.findall(r'<rect class="(.)" x="(\d+)" y="(.*?)" width="(.*?)" height="(\d+)"/>', text)
    ]
    assert [kind for kind, *_ in bars] == ["o", "r", "u"] * 2
    _, _, width, height = map(int, re.search(r'viewBox="(\d+) (\d+) (\d+) (\d+)"', text).groups())
    for number in range(2):
        low, high = number * height / 2, (number + 1) * height / 2
        of_day = bars[3 * number : 3 * number + 3]
        tops, ends = [y for _, _, y, _, _ in of_day], [y + tall for _, _, y, _, tall in of_day]
        assert low <= tops[0] < tops[1] < tops[2] < ends[2] < ends[1] < ends[0] <= high
        (middle,) = {(top + end) / 2 for top, end in zip(tops, ends, strict=True)}
        baseline = float(re.search(rf'y="(\d+)" font-size="12">{days[number].name}', text)[1])
        assert low < middle < baseline < high
    widths = [wide for _, _, _, wide, _ in bars]
    assert [wide / widths[3] for wide in widths] == pytest.approx([0.5, 0.25, 0.125, 1.0, 0.1, 0.0])
    assert max(x + wide for _, x, _, wide, _ in bars) < width


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5_400), ("1h", 3_600), ("1d", DAY), ("52w", 364 * DAY), ("366d", 366 * DAY)]
)
def test_a_time_has_one_of_four_units(text, seconds):
    assert commands.parser().parse_args(["gain", "--since", text]).since == seconds


@pytest.mark.parametrize("text", ["0m", "367d", "53w", "1y", "d"])
def test_a_time_of_nothing_or_above_a_year_is_wrong_usage(text, capsys):
    with pytest.raises(SystemExit) as raised:
        commands.parser().parse_args(["gain", "--since", text])
    assert raised.value.code == 2
    assert "at most 366d" in capsys.readouterr().err


def test_a_query_has_the_time_that_the_help_names(capsys):
    seconds = commands.parser().parse_args(["gain"]).timeout
    with pytest.raises(SystemExit):
        commands.parser().parse_args(["gain", "--help"])
    assert f"limit of one query (default: {seconds:g})" in " ".join(capsys.readouterr().out.split())


ETL = {"etl": OfNamespace()}


@pytest.mark.parametrize(
    ("seconds", "given", "code"),
    [
        (DAY, {}, 1),
        (DAY, {"offered": Amounts(0.0, 0.0)}, 1),
        (DAY, {"offered": Amounts(1.0, None)}, 0),
        (DAY, {"offered": Amounts(None, 1.0)}, 0),
        (DAY, {"namespaces": ETL}, 0),
        (0, {}, 0),
    ],
)
def test_a_time_without_mid_resources_is_no_answer(seconds, given, code):
    assert gains.answer(Gain("x", seconds=seconds, **given)).exit_code == code


def test_now_there_is_no_time_with_samples():
    found = gains.document(Gain("x", offered=Amounts(4.0, 8.0 * GIB)))
    assert (found.unit, found.seconds, found.manager_seconds, found.agent_seconds) == ("now", 0, 0, 0)
    assert (found.offered.cpu, found.offered.memory_gib) == (4.0, 8.0)
    assert (found.requested.cpu, found.namespaces, found.forecasts) == (None, [], [])


def test_what_the_source_does_not_have_is_named():
    made = gains.answer(Gain("x", missing=["usage: no agent"]))
    assert made.notes == ["not shown: usage: no agent"]
    assert made.data.missing == ["usage: no agent"]


def test_the_forecasts_of_every_predictor_are_shown_beside_what_it_promises():
    given = [Forecasts("calibrated", "cpu", 0.0123, 0.4), Forecasts("percentile", "memory", 0.5, 0.25)]
    gain = Gain("x", forecasts=given, exceeded=[gains.Exceeded("cpu", 0.02, "n1", 0.5)])
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
