"""Evaluations of many nodes become shares weighted by forecasts; what a hostile node reports has a bounded effect."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.colocation import controller_config
from api_types.colocation.controller_config import LONGEST_PREDICTOR_NAME
from api_types.node_metric import evaluation_report, types
from api_types.node_metric.evaluation_report import Fleet, WireEvaluation, WireScores


def entry(predictor="max", forecasts=10.0, violation=0.0, savings=50.0):
    return WireEvaluation(predictor, cpu=WireScores(forecasts, violation, savings))


def combined(reports):
    return evaluation_report.combined(map(evaluation_report.pack, reports))


def test_shares_are_weighted_by_forecasts():
    found = combined([[entry(forecasts=30.0, violation=4.0, savings=40.0)], [entry(forecasts=10.0, savings=80.0)]])
    assert found == {("max", "cpu"): Fleet(2, 40.0, 0.03, pytest.approx(0.5))}


def test_predictors_and_resources_are_apart():
    scores = WireScores(1.0, 0.0, 10.0)
    reports = [[WireEvaluation("max", scores, scores), WireEvaluation("percentile", None, scores)]]
    assert combined(reports).keys() == {("max", "cpu"), ("max", "memory"), ("percentile", "memory")}


@pytest.mark.parametrize(
    "scores",
    [
        {"forecasts": 0.0},
        {"forecasts": -1.0},
        {"forecasts": 1e-50},
        {"forecasts": 1e300},
        {"forecasts": math.nan},
        {"violation": -0.1},
        {"violation": 100.1},
        {"violation": math.nan},
        {"savings": 101.0},
        {"savings": -1e7},
        {"savings": math.inf},
        {"predictor": ""},
        {"predictor": "x" * 129},
    ],
)
def test_an_impossible_value_does_not_count(scores):
    assert combined([[entry(**scores)]]) == {}
    assert combined([[entry(**scores)], [entry()]]) == combined([[entry()]])


def test_a_predictor_counts_once_a_node():
    assert combined([[entry(forecasts=900.0)] * 5, [entry()]])["max", "cpu"].forecasts == 910


def test_a_node_with_many_predictors_adds_few_series_and_displaces_none():
    hostile = [entry(f"made-up-{number}") for number in range(10_000)]
    honest = [[entry(name) for name in controller_config.PREDICTOR_NAMES[:3]]] * 3
    found = combined([hostile, *honest])
    assert len(found) == evaluation_report.MOST_ENTRIES + 3
    fleet = [[entry(f"{node}-{number}") for number in range(7)] for node in range(100)]
    found = combined([*fleet, *honest])
    assert len(found) == evaluation_report.MOST_PREDICTORS
    assert {(name, "cpu") for name in controller_config.PREDICTOR_NAMES[:3]} <= found.keys()


@given(st.lists(st.tuples(st.floats(0.1, 971), st.floats(0, 100), st.floats(-1000, 100)), min_size=1, max_size=20))
def test_whatever_agents_report_the_fleet_is_between_its_nodes(nodes):
    wires = []
    for forecasts, violations, savings in nodes:
        scores = types.ResourceEvaluation(forecasts=forecasts, violation_percent=violations, savings_percent=savings)
        wires.append(types.PredictorEvaluation(predictor="max", horizon_seconds=3600, memory=scores).to_wire())
    fleet = combined([msgspec.convert([wire], list[WireEvaluation]) for wire in wires])["max", "memory"]
    assert fleet.nodes == len(nodes)
    for ratio, column in ((fleet.violation_ratio, 1), (fleet.savings_ratio, 2)):
        shares = [each[column] / 100 for each in nodes]
        assert min(shares) - 1e-6 <= ratio <= max(shares) + 1e-6


def test_an_absent_score_is_zero_and_without_forecasts_there_is_no_score():
    wires = [{"predictor": "max", "cpu": {"forecasts": 10.0}, "memory": {"violationPercent": 1.0}}]
    assert combined([msgspec.convert(wires, list[WireEvaluation])]) == {("max", "cpu"): Fleet(1, 10.0, 0.0, 0.0)}


SCORES = WireScores(10.0, 0.0, 50.0)


def counted(*predictors):
    report = [WireEvaluation(name, cpu=SCORES) for name in predictors]
    return [name for name, _ in evaluation_report.combined([evaluation_report.pack(report)])]


@pytest.mark.parametrize(
    ("length", "is_counted"),
    [(0, False), (1, True), (LONGEST_PREDICTOR_NAME, True), (LONGEST_PREDICTOR_NAME + 1, False)],
)
def test_a_predictor_has_a_name_of_limited_length(length, is_counted):
    assert bool(counted("p" * length)) is is_counted
