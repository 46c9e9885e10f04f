"""The answer and the recommendation of `koordctl backtest`."""

import json

import msgspec
import pytest

from koordctl.backtest import report
from koordctl.backtest.report import Backtest, BacktestSettings
from koordctl.backtest.results import CandidateSummary, Row, all_candidates

CANDIDATES = all_candidates(3600)


def text_of(recommendation):
    """Return what is printed below the table."""
    document = Backtest(BacktestSettings(1, 1, 1, {}), [], [])
    document.recommended, document.reason = recommendation
    return "\n".join(report.answer(document, CANDIDATES).tail)


def summary(candidate, resource="cpu", violations=0.0, mid=1.0):
    return CandidateSummary(resource, candidate, 4, 1000, violations, 0.0, 0.0, 0.0, 0.0, 50.0, mid, mid)


def recommend(*violations_and_mid, days=12.0, target=1.0):
    """Recommend by {candidate: (violations %, Mid cores)}; memory keeps the target."""
    given = dict(*violations_and_mid)
    cpu = [summary(name, violations=percent, mid=mid) for name, (percent, mid) in given.items()]
    return report.recommend([*cpu, *(summary(name, "memory") for name in given)], CANDIDATES, target, days)


def test_the_most_mid_of_those_that_keep_the_target():
    found = recommend({"n-sigma-v2": (0.1, 4.0), "resource-central": (1.2, 9.0), "n-sigma-v1": (1.0, 5.0)})
    assert found.name == "n-sigma-v1"
    assert found.reason.startswith("use n-sigma-v1: it offers the most Mid of those with violations of at most 1 %")


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
    assert '"predictor": "percentile", "coldStartPeriodSeconds": 86400' in text_of(found)


def test_what_the_agent_does_not_put_in_force_is_not_recommended():
    assert recommend({"calibrated, 1 %": (0.0, 9.0), "percentile": (0.0, 9.0)}).name is None


def test_a_document_is_read_back_and_has_a_line_for_each_row():
    row = Row("n", "cpu", "n-sigma-v2", 3, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0)
    for rows in ([], [row, row]):
        document = Backtest(BacktestSettings(3600, 60, 2, {"seed": 1}), ["x\ny"], rows, 1, [summary("oracle")])
        text = report.as_json(document)
        assert msgspec.json.decode(text.encode(), type=Backtest) == document
        assert (
            text.count('"node": "n"') == len([line for line in text.splitlines() if '"node": "n"' in line]) == len(rows)
        )
        assert json.loads(text)["apiVersion"] == "koordctl/v1"


COLD = "percentile, cold 24 h"


def recommended_of(of_cpu, of_memory=None, target=1.0):
    """Recommend by {candidate: (violations %, Mid cores)} of CPU; memory has its violations, or none."""
    cpu = [summary(name, violations=percent, mid=mid) for name, (percent, mid) in of_cpu.items()]
    memory = [summary(name, "memory", (of_memory or {}).get(name, 0.0), 1_000.0) for name in of_cpu]
    return report.recommend([*cpu, *memory], CANDIDATES, target, 30.0)


@pytest.mark.parametrize(("mid", "is_named"), [(3.9, False), (4.0, False), (4.1, True)])
def test_a_doubtful_candidate_is_named_where_it_offers_more_than_the_recommended_one(mid, is_named):
    found = recommended_of(
        {"n-sigma-v2": (0.5, 4.0), "n-sigma-v1": (0.5, 3.0), "percentile": (8.0, 9.0), COLD: (0.5, mid)}
    )
    assert found.name == "n-sigma-v2"
    assert (f"{COLD} offers more" in found.reason) is is_named


@pytest.mark.parametrize(("of_cpu", "of_memory", "is_kept"), [(1.0, 0.5, True), (1.01, 0.0, False), (0.0, 0.51, False)])
def test_the_target_is_kept_up_to_itself_and_by_memory_up_to_half_of_it(of_cpu, of_memory, is_kept):
    found = recommended_of({"n-sigma-v2": (of_cpu, 4.0)}, {"n-sigma-v2": of_memory})
    assert (found.name == "n-sigma-v2") is is_kept
    assert "violations of at most 1 % (memory: 0.5 %) on this history" in found.reason


def test_the_text_of_a_recommendation_has_the_configmap_and_without_one_a_sentence_only():
    none = text_of(report.Recommendation(None, "none keeps it"))
    assert none.endswith("\n\nRecommendation: none keeps it.")
    lines = text_of(report.Recommendation("n-sigma-v2", "use it")).splitlines()
    assert lines[3:7] == ["Recommendation: use it.", "", "apiVersion: v1", "kind: ConfigMap"]
    assert lines[-1] == '    {"enable": true, "nodePredictPolicy": {"predictor": "n-sigma-v2"}}'
