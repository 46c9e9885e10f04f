"""Results of `koordctl backtest`: what is replayed of a node, its rows and scores, and summaries over the nodes."""

import dataclasses

import numpy as np
import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordctl.backtest import command, replay, results, scores
from koordctl.backtest.node_history import GIB, BoundPod, NodeHistory, SeriesStay, nodes_of_one_resource
from koordctl.backtest.replay import ReplayedForecasts
from koordctl.backtest.results import Row, Span, all_candidates
from koordctl.backtest.scores import Stays
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.samples import Resource

STEP = 300


def of_one_resource(resource, used, requested=(2.0, 3.0)):
    used = np.array(used, float)
    stays = [SeriesStay(number, 0, used.shape[1]) for number in range(len(used))]
    return nodes_of_one_resource("n1", stays, used, requested, STEP, resource)


def test_a_pod_is_charged_its_request_while_it_is_cold_and_its_usage_then():
    history = of_one_resource(Resource.CPU, [[0.5] * 31, [1.0] * 31])
    policy = PredictParameters(predictor="percentile", cold_start_period_seconds=2 * 3600, safety_margin_percent=0)
    found = replay.replay(history, [policy], [0, 30], 1)[Resource.CPU]
    assert found.requests.tolist() == [5.0, 5.0]
    assert found.peaks[0, 0] == 5.0
    assert 1.5 <= found.peaks[0, 1] < 1.5 * 1.05 + 0.002  # the upper end of a bucket of each pod


class Recorded:
    """A source of one history."""

    def __init__(self, history):
        self.history = history

    def load(self, _node):
        return self.history


@pytest.mark.parametrize(("gaps", "seen"), [(1, 18), (2, 16)])
def test_a_node_whose_samples_are_missing_for_more_than_a_tenth_of_its_forecasts_is_named(gaps, seen):
    used = np.full((1, 31), 0.5)
    used[0, [15, 20][:gaps]] = np.nan  # each spoils its own forecast, and the horizon of the one before
    source = Recorded(of_one_resource(Resource.CPU, used, (2.0,)))
    candidates = [each for each in all_candidates(STEP) if each.name == "n-sigma-v2"]
    rows, problems = command._replay_node(source, candidates, Span(STEP, STEP, 10 * STEP), ("n1", None))
    assert {row.forecasts for row in rows} == {seen}
    named = [f"partial data: node n1: {seen} of 20 forecasts have complete series; check the scrapes"]
    assert problems == (named if gaps > 1 else [])


ALLOCATABLE, CAPACITY = WholeAmounts(10_000, 10 * GIB), WholeAmounts(12_000, 12 * GIB)
TIMES = 11
PEAKS = [1.0 + number / 10 for number in range(TIMES)]


def rows(resource, *, allocatable=ALLOCATABLE, interval_hours=168 / TIMES, **changes):
    """Return the rows of a candidate and of the oracle; amounts in cores or GiB, one for all times or one for each."""
    unit = 1.0 if resource is Resource.CPU else float(GIB)
    given = {"peaks": PEAKS, "oracle": 1.5, "requests": 4.0, "usage": 1.0, "other_usage": 0.5, "mid_requests": 3.0}
    arrays = {name: unit * np.broadcast_to(np.array(each, float), TIMES) for name, each in (given | changes).items()}
    forecasts = ReplayedForecasts(arrays.pop("peaks")[np.newaxis], **arrays)
    usage = dict.fromkeys(Resource, np.ones((1, 1)))
    node = NodeHistory("n1", 300, [BoundPod("u")], [SeriesStay(0, 0, 1)], usage, None, CAPACITY, allocatable)
    candidate = dataclasses.replace(
        all_candidates(3_600)[0],
        threshold_percent=dict.fromkeys(Resource, 30),
        reclaim_ratio_percent=90,
        unallocated_percent=10,
    )
    return [row for row, _ in results._resource_rows(node, resource, forecasts, [candidate], interval_hours)]


@pytest.mark.parametrize("resource", Resource)
def test_a_row_has_percent_and_the_unit_of_the_resource(resource):
    row, oracle = rows(resource)
    assert (row.node, row.resource, row.forecasts) == ("n1", str(resource), TIMES)
    assert row.violations_percent == pytest.approx(100 * 5 / TIMES)  # 1.0 to 1.4
    assert row.severity_percent == pytest.approx(100 * (0.5 + 0.4 + 0.3 + 0.2 + 0.1) / 1.5 / TIMES)
    assert row.episodes_a_week == pytest.approx(1)
    assert (row.requests, row.peak) == (pytest.approx(4), pytest.approx(1.5))
    # 0.9 * 4 - peak, and a tenth of the 6 that are not requested
    assert row.mid == pytest.approx(3.6 - 1.5 + 0.6, abs=1e-3)
    assert row.mid_p10 == pytest.approx(3.6 - 1.9 + 0.6, abs=1e-3)
    assert (oracle.candidate, oracle.violations_percent, oracle.peak) == ("oracle", 0, pytest.approx(1.5))
    assert (oracle.mid, oracle.mid_p10) == (pytest.approx(4 - 1.5), pytest.approx(4 - 1.5))


@pytest.mark.parametrize("resource", Resource)
def test_mid_resources_are_limited_by_the_threshold_and_by_what_nothing_uses(resource):
    assert rows(resource, requests=8.0)[0].mid == pytest.approx(3 + 0.2, abs=1e-3)  # 30 % of 10, a tenth of 2
    assert rows(resource, usage=8.0)[0].mid == pytest.approx(10 - 8 - 0.5, abs=1e-3)
    assert [each.mid for each in rows(resource, usage=9.0, other_usage=2.0)] == [0, 0]


@pytest.mark.parametrize("name", ["peaks", "oracle", "usage", "other_usage"])
@pytest.mark.parametrize("unknown", [np.nan, np.inf])
def test_a_forecast_of_which_an_amount_is_unknown_is_not_counted(name, unknown):
    known = {"peaks": 1.0, "oracle": 1.5, "usage": 1.0, "other_usage": 0.5}[name]
    found = rows(Resource.CPU, **({"peaks": 1.0} | {name: [*[known] * (TIMES - 1), unknown]}))
    assert [each.forecasts for each in found] == [TIMES - 1] * 2
    assert (found[0].violations_percent, found[0].peak) == (100, pytest.approx(1.0))


def test_a_forecast_without_a_request_is_not_counted_and_without_any_there_is_no_row():
    found = rows(Resource.CPU, requests=[0.0, *[4.0] * (TIMES - 1)])
    assert [(each.forecasts, each.requests) for each in found] == [(TIMES - 1, pytest.approx(4.0))] * 2
    assert rows(Resource.CPU, requests=0.0) == []
    assert rows(Resource.CPU, oracle=np.nan) == []


DAY = 86_400


def row(number, **changes):
    """Return a row of a node, of which each amount differs from those of the other nodes."""
    amounts = {
        "forecasts": 10 + number, "violations_percent": float(number), "severity_percent": 2.0 * number,
        "episodes_a_week": 3.0 * number, "requests": 8.0, "peak": 4.0 + 0.01 * number, "mid": 4.0 * number,
        "mid_p10": 5.0 * number,
    }  # fmt: skip
    return Row(**({"node": f"n{number}", "resource": "cpu", "candidate": "a"} | amounts | changes))


def test_a_summary_has_sums_means_and_percentiles_over_the_nodes():
    (found,) = results.summarize([row(number) for number in range(101)])
    assert (found.resource, found.candidate, found.nodes, found.forecasts) == ("cpu", "a", 101, 1_010 + 5_050)
    assert found.violations_percent == pytest.approx(50)
    assert found.violations_percent_p90 == pytest.approx(90)
    assert found.violations_percent_p99 == pytest.approx(99)
    assert found.severity_percent == pytest.approx(100)
    assert found.episodes_a_week == pytest.approx(150)
    assert found.savings_percent == pytest.approx(100 * (8 - 4.5) / 8)
    assert (found.mid, found.mid_p10) == (pytest.approx(200), pytest.approx(250))


def test_each_resource_and_candidate_has_a_summary_of_its_own():
    given = [("memory", "b"), ("cpu", "b"), ("memory", "a"), ("cpu", "b"), ("cpu", "a")]
    found = results.summarize([row(1, resource=resource, candidate=name) for resource, name in given])
    assert [(each.resource, each.candidate, each.nodes) for each in found] == [
        ("cpu", "b", 2), ("cpu", "a", 1), ("memory", "b", 1), ("memory", "a", 1),
    ]  # fmt: skip


def test_the_days_of_the_forecasts_are_those_of_the_median_node():
    rows = [row(number, node=node, forecasts=count)
            for number, (node, count) in enumerate([("a", 48), ("a", 24), ("b", 72), ("c", 240)])]  # fmt: skip
    assert results.forecast_days(rows, DAY / 24) == 3
    assert results.forecast_days(rows[:1], DAY / 24) == 2
    assert results.forecast_days([], DAY) == 0


def oracle_of(allocatable, node_uses=None, mid_millis=0):
    """Return the oracle's row of a node whose Prod pod requests 2 cores and uses one, and whose Mid pod uses none."""
    usage = {each: np.array([[used] * 8, [0.0] * 8]) for each, used in zip(Resource, (1.0, float(GIB)), strict=True)}
    whole = None if node_uses is None else {each: np.full(8, node_uses) for each in Resource}
    size = WholeAmounts(round(1_000 * allocatable), 8 * GIB)
    bound = [
        BoundPod("u", cpu_request_millis=2_000),
        BoundPod("m", PriorityClass.MID, 0, 0, mid_cpu_request_millis=mid_millis),
    ]
    stays = [SeriesStay(0, 0, 8), SeriesStay(1, 0, 8)]
    node = NodeHistory("n", 3_600, bound, stays, usage, whole, size, size, (Resource.CPU,))
    rows = results.replay_rows(node, all_candidates(3_600)[:1], Span(3_600, 3_600, 3_600))
    (found,) = [each for each in rows if each.candidate == results.ORACLE]
    return found


@pytest.mark.parametrize(("allocatable", "mid"), [(10, 1), (2, 1), (1.5, 0.5)])
def test_the_mid_resources_of_the_oracle_are_what_prod_requests_and_does_not_use(allocatable, mid):
    found = oracle_of(allocatable)
    assert (found.mid, found.mid_p10) == (pytest.approx(mid), pytest.approx(mid))
    assert found.peak == pytest.approx(1)


def test_a_pod_runs_from_its_start_to_before_its_end():
    stays = Stays([SeriesStay(1, 0, 3), SeriesStay(0, 2, 5), SeriesStay(1, 3, 4)])
    assert [stays.running_at(step).tolist() for step in range(6)] == [[0], [0], [0, 1], [1, 2], [1], []]


def test_usage_after_a_step_is_that_of_the_pods_that_run_then_and_nothing_after_their_end():
    used = np.array([[1.0, 2.0, 3.0, 4.0, 5.0], [10.0, 20.0, 30.0, 40.0, 50.0]])
    stays = Stays([SeriesStay(1, 0, 3), SeriesStay(0, 0, 5)])
    pods = stays.running_at(1)
    assert stays.usage_after(used, pods, 1, 2).tolist() == [[30.0, 0.0], [3.0, 4.0]]
    assert stays.usage_after(used, pods, 1, 9).tolist() == [[30.0, 0.0, 0.0], [3.0, 4.0, 5.0]]
    future = stays.usage_after(used, pods, 1, 2)
    assert scores.oracle_peak(future, np.array([100.0, 100.0])) == 33
    assert scores.oracle_peak(future, np.array([5.0, 100.0])) == 8
    assert scores.oracle_peak(stays.usage_after(used, pods, 4, 2), np.array([5.0, 6.0])) == 11
