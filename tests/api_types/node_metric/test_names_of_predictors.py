"""Which predictors of an evaluation count, by their names and their number."""

import pytest

from api_types.colocation.controller_config import LONGEST_PREDICTOR_NAME
from api_types.node_metric import evaluation_report
from api_types.node_metric.evaluation_report import MOST_ENTRIES, WireEvaluation, WireScores

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


def test_predictors_beyond_the_number_that_an_agent_evaluates_do_not_count():
    every = [f"p{index}" for index in range(MOST_ENTRIES + 1)]
    assert counted(*every) == every[:MOST_ENTRIES]
