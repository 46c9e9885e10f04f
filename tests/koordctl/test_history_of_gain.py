"""History of `koordctl gain`, from a scripted Prometheus: sums over steps and nodes, and what is missing."""

import argparse
import datetime as dt
import json
import re

import pytest

from component_base import clock
from koordctl import __main__ as koordctl
from koordctl.backtest.time_range import TimeRange
from koordctl.gain import command, history
from koordctl.gain.gains import Amounts, Day, Exceeded, Forecasts, OfNamespace

HOUR, DAY = 3_600, 86_400
START = 20_000 * DAY - 2 * HOUR
ASKED = TimeRange(START, HOUR, 4)
"""Two hours of 2024-10-03 and two of the next day."""
OFFERED, ALLOCATABLE = "koord_manager_node_mid_cpu_cores", "koordlet_allocatable_cpu_cores"
REQUESTED, USED = "koordlet_namespace_mid_requested_cpu_cores", "koordlet_namespace_mid_used_cpu_cores"
EVICTED = "koord_manager_namespace_mid_evicted_pods_total"
VIOLATIONS, SAVINGS = "koord_manager_evaluation_violations_ratio", "koord_manager_evaluation_savings_ratio"
ABOVE, COMPARED = "koordlet_prod_peak_exceeded_seconds_total", "koordlet_prod_peak_compared_seconds_total"
ALL = [
    OFFERED, "koord_manager_node_mid_memory_bytes", ALLOCATABLE, "koordlet_allocatable_memory_bytes", REQUESTED,
    "koordlet_namespace_mid_requested_memory_bytes", USED, "koordlet_namespace_mid_used_memory_bytes",
    "koordlet_namespace_mid_suppressed_cpu_cores", EVICTED, VIOLATIONS, COMPARED,
]  # fmt: skip
"""Metrics that are named where they have no series."""


def series(values, **labels):
    return labels, values if isinstance(values, list) else [values] * ASKED.steps


def scripted(found, warnings=()):
    """Return the answers of a Prometheus with series by metric, or by metric and resource; None is no sample."""

    def change(path, parameters, *_):
        query = parameters["query"]
        (metric,) = set(re.findall(r"koord[a-z_]+", query))
        resource = re.search(r'resource="(\w+)"', query)
        result = []
        for labels, values in found.get((metric, resource[1]) if resource else metric, []):
            if path == "query":
                result.append({"metric": labels, "value": [float(parameters["time"]), str(values)]})
            else:
                points = [(START + step * HOUR, str(each)) for step, each in enumerate(values) if each is not None]
                result.append({"metric": labels, "values": points})
        answer = {"status": "success", "data": {"resultType": "", "result": result}, "warnings": list(warnings)}
        return 200, json.dumps(answer).encode()

    return change


@pytest.fixture
def gain(proxy, client):
    """Return a function that reads what a Prometheus with these series has recorded."""

    def read(found):
        proxy.change = scripted(found)
        return history.read(client, ASKED, "x")

    return read


def missing(found, *but):
    """Return the metrics that are named as missing, of all but some."""
    return {text.partition(":")[0] for text in found.missing} & set(ALL) - set(but)


@pytest.mark.parametrize(
    ("end", "since", "expected"),
    [
        (1_000_030, 30, (1_000_020, 60, 1)),
        (1_000_030, 600, (1_000_020 - 9 * 60, 60, 10)),
        (1_200_070, 2_000 * 120, (1_200_000 - 1_999 * 120, 120, 2_000)),
    ],
)
def test_steps_are_whole_minutes_that_end_at_a_multiple_of_one(end, since, expected):
    assert tuple(history.time_range(end, since)) == expected


def test_amounts_are_integrals_over_the_steps_with_samples(gain):
    found = gain({OFFERED: [series([1, 2, None, 4])], ALLOCATABLE: [series(16)]})
    assert (found.seconds, found.manager_seconds, found.agent_seconds) == (4 * HOUR, 3 * HOUR, 4 * HOUR)
    assert (found.offered, found.allocatable) == (Amounts(7 * HOUR, None), Amounts(64 * HOUR, None))
    assert "1 of 4 hours, without samples of the manager; means are over the others" in found.missing
    assert not [text for text in found.missing if "samples of agents" in text]


def test_a_single_step_with_samples_is_a_gap_of_all_others(gain):
    found = gain({OFFERED: [series([None, None, 2, None])], ALLOCATABLE: [series([None, 1, 1, 1])]})
    assert (found.manager_seconds, found.agent_seconds) == (HOUR, 3 * HOUR)
    gaps = [text for text in found.missing if "without samples" in text]
    assert [text.partition(";")[0] for text in gaps] == [
        "3 of 4 hours, without samples of the manager", "1 of 4 hours, without samples of agents",
    ]  # fmt: skip


def test_each_metric_without_a_series_is_named_and_no_other(gain):
    nothing = gain({})
    assert missing(nothing) == set(ALL)
    assert (nothing.offered, nothing.manager_seconds, nothing.agent_seconds) == (Amounts(), 0, 0)
    assert (nothing.namespaces, nothing.forecasts, nothing.exceeded, nothing.withdrawn) == ({}, [], [], {})
    assert not [text for text in nothing.missing if "without samples" in text]
    for metric in ALL:
        is_instant = metric in {EVICTED, VIOLATIONS, COMPARED}
        given = [series(1)] if not is_instant else [({"node": "n1", "namespace": "a"}, 1)]
        shown = gain({metric: given, (metric, "cpu"): given})
        assert missing(shown) == set(ALL) - {metric}


def test_a_namespace_has_its_sums_and_each_day_those_of_all(gain):
    found = gain({
        OFFERED: [series([8, None, 4, 4])],
        REQUESTED: [series(2, namespace="a"), series([None, 3, None, 1], namespace="b")],
        USED: [series(1, namespace="a"), series([0, 2, 0, 0], namespace="b")],
        EVICTED: [({"namespace": "b"}, 1.6), ({"namespace": "c"}, 0.8), ({"namespace": "d"}, 0), ({}, "NaN")],
    })  # fmt: skip
    assert found.namespaces == {
        "a": OfNamespace(Amounts(8 * HOUR), Amounts(4 * HOUR), None, None),
        "b": OfNamespace(Amounts(4 * HOUR), Amounts(2 * HOUR), None, 2),
        "c": OfNamespace(Amounts(), Amounts(), None, 1),
    }
    assert found.days == [
        Day("2024-10-03", 8 * HOUR, (2 + 2 + 3) * HOUR, (1 + 1 + 2) * HOUR),
        Day("2024-10-04", 8 * HOUR, (2 + 2 + 1) * HOUR, (1 + 1) * HOUR),
    ]


def test_a_day_without_any_series_has_zeros(gain):
    assert gain({}).days == [Day("2024-10-03", 0, 0, 0), Day("2024-10-04", 0, 0, 0)]


def test_a_reason_counts_with_the_time_of_its_nodes(gain):
    given = [series([1, 2, 0, None], reason="SampleTooOld"), series(0, reason="NoPrediction")]
    assert gain({"koord_manager_nodes": given}).withdrawn == {"SampleTooOld": 3 * HOUR}


def test_a_predictor_without_savings_saves_nothing(gain):
    labels = {"predictor": "calibrated", "resource": "cpu"}
    other = {"predictor": "n-sigma-v2", "resource": "memory"}
    found = gain({VIOLATIONS: [(other, 0.25), (labels, 0.5)], SAVINGS: [(labels, 0.125)]})
    assert found.forecasts == [Forecasts("calibrated", "cpu", 0.5, 0.125), Forecasts("n-sigma-v2", "memory", 0.25, 0)]


def test_the_worst_node_is_the_one_whose_agents_saw_the_largest_share(gain):
    found = gain({
        (COMPARED, "memory"): [
            ({"node": "n1", "instance": "a"}, 100), ({"node": "n1", "instance": "b"}, 300),
            ({"instance": "c"}, 0.5), ({"node": "n2"}, 99.5), ({"node": "n3"}, 0),
        ],
        (ABOVE, "memory"): [({"node": "n1", "instance": "a"}, 100), ({"instance": "c"}, 0.25)],
    })  # fmt: skip
    assert found.exceeded == [Exceeded("memory", 100.25 / 500, "c", 0.5)]


def test_a_node_that_was_never_above_its_peak_has_no_share(gain):
    found = gain({(COMPARED, "cpu"): [({"node": "n1"}, 100)], (COMPARED, "memory"): [({"node": "n1"}, 100)]})
    assert found.exceeded == [Exceeded("cpu", 0, "n1", 0), Exceeded("memory", 0, "n1", 0)]


def test_a_node_without_a_number_counts_for_nothing(gain):
    assert gain({(COMPARED, "cpu"): [({"node": "n1"}, "NaN")]}).exceeded == []
    both = [({"node": "n1"}, "NaN"), ({"node": "n2"}, 100)]
    assert gain({(COMPARED, "cpu"): both}).exceeded == [Exceeded("cpu", 0, "n2", 0)]


def test_what_prometheus_warns_of_is_on_standard_error_beside_the_answer(proxy, monkeypatch, capsys):
    end = dt.datetime.fromtimestamp(ASKED.end, dt.UTC)
    monkeypatch.setattr(clock, "utc_now", lambda: end)
    proxy.change = scripted({OFFERED: [series(1)]}, ["one store did not answer"])
    assert koordctl.main(["gain", "--since", "4h", f"--prometheus={proxy.url}", "-o", "json"]) == 0
    shown = capsys.readouterr()
    assert f"{proxy.url} warns: one store did not answer\n" in shown.err
    assert json.loads(shown.out)["kind"] == "Gain"


@pytest.mark.parametrize("output", ["table", "html"])
def test_a_page_is_html_and_a_selector_is_in_every_query(proxy, capsys, output):
    proxy.change = scripted({})
    proxy.asked.clear()
    koordctl.main(["gain", "--since", "4h", f"--prometheus={proxy.url}", "--selector={job='x'}", "-o", output])
    assert capsys.readouterr().out.startswith("<!doctype html>") is (output == "html")
    assert proxy.asked
    assert all("job='x'" in parameters["query"] for _, parameters in proxy.asked)


def test_without_a_time_the_history_is_that_of_a_week():
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert parser.parse_args([]).since == 7 * DAY
    assert "(default: 7d)" in parser.format_help()
