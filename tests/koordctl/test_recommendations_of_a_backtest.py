"""When `koordctl backtest` names a candidate beside the one that it recommends."""

import pytest

from koordctl.backtest import report
from koordctl.backtest.candidates import all_candidates
from koordctl.backtest.results import Summary

CANDIDATES = all_candidates(3600)
COLD = "percentile, cold 24 h"


def summary(candidate, resource="cpu", violations=0.0, mid=1.0):
    return Summary(resource, candidate, 4, 1000, violations, 0.0, 0.0, 0.0, 0.0, 50.0, mid, mid)


def recommended(of_cpu, of_memory=None, target=1.0):
    """Recommend by {candidate: (violations %, Mid cores)} of CPU; memory has its violations, or none."""
    cpu = [summary(name, violations=percent, mid=mid) for name, (percent, mid) in of_cpu.items()]
    memory = [summary(name, "memory", (of_memory or {}).get(name, 0.0), 1_000.0) for name in of_cpu]
    return report.recommend([*cpu, *memory], CANDIDATES, target, 30.0)


@pytest.mark.parametrize(("mid", "is_named"), [(3.9, False), (4.0, False), (4.1, True)])
def test_a_doubtful_candidate_is_named_where_it_offers_more_than_the_recommended_one(mid, is_named):
    found = recommended(
        {"n-sigma-v2": (0.5, 4.0), "n-sigma-v1": (0.5, 3.0), "percentile": (8.0, 9.0), COLD: (0.5, mid)}
    )
    assert found.name == "n-sigma-v2"
    assert (f"{COLD} offers more" in found.reason) is is_named


@pytest.mark.parametrize(("mid", "is_named"), [(0.0, False), (0.5, True), (1.0, True)])
def test_where_none_is_recommended_a_doubtful_candidate_is_named_if_it_offers_anything(mid, is_named):
    found = recommended({"n-sigma-v2": (2.0, 4.0), "percentile": (8.0, 9.0), COLD: (0.5, mid)})
    assert found.name is None
    assert (f"{COLD} offers more" in found.reason) is is_named
    assert "keep the defaults, or raise --target" in found.reason


def test_the_violations_without_the_cold_start_are_those_of_the_worse_resource():
    found = recommended({"percentile": (2.0, 9.0), COLD: (0.5, 4.0)}, {"percentile": 7.25})
    assert found.reason.endswith("only by charging young pods their requests: without that they are 7.2 %")


@pytest.mark.parametrize(("of_cpu", "of_memory", "is_kept"), [(1.0, 0.5, True), (1.01, 0.0, False), (0.0, 0.51, False)])
def test_the_target_is_kept_up_to_itself_and_by_memory_up_to_half_of_it(of_cpu, of_memory, is_kept):
    found = recommended({"n-sigma-v2": (of_cpu, 4.0)}, {"n-sigma-v2": of_memory})
    assert (found.name == "n-sigma-v2") is is_kept
    assert "violations of at most 1 % (memory: 0.5 %) on this history" in found.reason


def test_the_text_of_a_recommendation_has_the_configmap_and_without_one_a_sentence_only():
    none = report.recommendation(report.Recommendation(None, "none keeps it"), CANDIDATES)
    assert none == "Recommendation: none keeps it.\n"
    lines = report.recommendation(report.Recommendation("n-sigma-v2", "use it"), CANDIDATES).splitlines()
    assert lines[:4] == ["Recommendation: use it.", "", "apiVersion: v1", "kind: ConfigMap"]
    assert lines[-1] == '    {"enable": true, "nodePredictPolicy": {"predictor": "n-sigma-v2"}}'


def settings(**changes):
    given = {"horizon_seconds": 3600, "interval_seconds": 600, "shards": 2, "source": {"seed": 1, "step": 300}}
    return report.Settings(**(given | changes))


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"shards": 3}, ["shards"]),
        ({"source": {"seed": 2, "step": 300}}, ["seed"]),
        ({"source": {"seed": 1}}, ["step"]),
        ({"source": {"seed": 1, "step": 300, "rate": 60}}, ["rate"]),
        ({"interval_seconds": 60, "source": {}}, ["intervalSeconds", "seed", "step"]),
    ],
)  # fmt: skip
def test_what_differs_between_shards_is_named_by_its_own_key(changes, names):
    assert settings().differences(settings(**changes)) == names
    assert settings(**changes).differences(settings()) == names
