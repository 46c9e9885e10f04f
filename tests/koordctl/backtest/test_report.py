"""The recommendation: at least a week of forecasts, and no candidate that passes on a technicality."""

import json

import msgspec
import pytest

from koordctl.backtest import report, results
from koordctl.backtest.candidates import all_candidates
from koordctl.backtest.report import Backtest, Settings
from koordctl.backtest.results import Row, Summary

CANDIDATES = all_candidates(3600)


def summary(candidate, resource="cpu", violations=0.0, mid=1.0):
    return Summary(resource, candidate, 4, 1000, violations, 0.0, 0.0, 0.0, 0.0, 50.0, mid, mid)


def recommend(*violations_and_mid, days=12.0, target=1.0):
    """Recommend by {candidate: (violations %, Mid cores)}; memory keeps the target."""
    given = dict(*violations_and_mid)
    cpu = [summary(name, violations=percent, mid=mid) for name, (percent, mid) in given.items()]
    return report.recommend([*cpu, *(summary(name, "memory") for name in given)], CANDIDATES, target, days)


def test_the_most_mid_of_those_that_keep_the_target():
    found = recommend({"n-sigma-v2": (0.1, 4.0), "resource-central": (1.2, 9.0), "n-sigma-v1": (1.0, 5.0)})
    assert found.name == "n-sigma-v1"
    assert found.reason.startswith("use n-sigma-v1: it offers the most Mid of those with violations of at most 1 %")


def test_memory_has_half_of_the_target():
    of_memory = [summary("n-sigma-v1", "memory", 0.6), summary("n-sigma-v2", "memory", 0.5)]
    of_cpu = [summary("n-sigma-v1", mid=9.0), summary("n-sigma-v2")]
    assert report.recommend([*of_cpu, *of_memory], CANDIDATES, 1.0, 12.0).name == "n-sigma-v2"


@pytest.mark.parametrize(("days", "is_enough"), [(0.0, False), (6.96, False), (7.0, True), (12.0, True)])
def test_less_than_a_week_of_forecasts_recommends_nothing_and_says_why(days, is_enough):
    found = recommend({"n-sigma-v2": (0.1, 4.0)}, days=days)
    assert (found.name is not None) == is_enough
    if not is_enough:
        assert f"cover {days:.1f} days (median), want at least 7" in found.reason
        assert "begin earlier (--from)" in found.reason


def test_percentile_is_not_recommended_for_charging_young_pods_their_requests():
    rest = {"n-sigma-v2": (0.0, 4.0), "calibrated, 1 %": (0.5, 20.0)}
    found = recommend(rest | {"percentile": (9.85, 10.0), "percentile, cold 24 h": (0.66, 8.0)})
    assert found.name == "n-sigma-v2"
    assert "percentile, cold 24 h offers more, but keeps them only by charging young pods" in found.reason
    assert "without that they are 9.8 %" in found.reason
    alone = recommend({"percentile": (9.85, 10.0), "percentile, cold 24 h": (0.66, 8.0)})
    assert alone.name is None
    assert "none keeps violations of at most 1 %" in alone.reason
    assert "percentile, cold 24 h offers more" in alone.reason


def test_percentile_that_keeps_the_target_by_itself_is_recommended_with_its_cold_start_period():
    found = recommend({"n-sigma-v2": (0.0, 4.0), "percentile": (0.9, 10.0), "percentile, cold 24 h": (0.6, 8.0)})
    assert found.name == "percentile, cold 24 h"
    assert '"predictor": "percentile", "coldStartPeriodSeconds": 86400' in report.recommendation(found, CANDIDATES)


def test_what_the_agent_does_not_put_in_force_is_not_recommended():
    assert recommend({"calibrated, 1 %": (0.0, 9.0), "percentile": (0.0, 9.0)}).name is None


def test_days_are_the_median_over_the_nodes():
    def row(node, forecasts):
        return Row(node, "cpu", "n-sigma-v2", forecasts, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0)

    rows = [row("a", 24), row("b", 10 * 24), row("c", 12 * 24)]
    assert results.forecast_days(rows, 3600) == 10.0
    assert results.forecast_days([], 3600) == 0.0


def test_a_document_is_read_back_and_has_a_line_for_each_row():
    row = Row("n", "cpu", "n-sigma-v2", 3, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0)
    for rows in ([], [row, row]):
        document = Backtest(Settings(3600, 60, 2, {"seed": 1}), ["x\ny"], rows, 1, [summary("oracle")])
        text = report.as_json(document)
        assert msgspec.json.decode(text.encode(), type=Backtest) == document
        assert (
            text.count('"node": "n"') == len([line for line in text.splitlines() if '"node": "n"' in line]) == len(rows)
        )
        assert json.loads(text)["apiVersion"] == "koordctl/v1"
