"""Summaries of `koordctl backtest` over the nodes, and the Mid resources of the oracle."""

import numpy as np
import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordctl.backtest import results
from koordctl.backtest.candidates import all_candidates
from koordctl.backtest.node_history import GIB, BoundPod, NodeHistory
from koordctl.backtest.placement import Pod
from koordctl.backtest.results import Row, Span
from koordlet.prediction.allocation import WholeAmounts
from koordlet.samples import Resource

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
    stays = [Pod(0, 0, 8), Pod(1, 0, 8)]
    node = NodeHistory("n", 3_600, bound, stays, usage, whole, size, size, (Resource.CPU,))
    rows = results.rows_of(node, all_candidates(3_600)[:1], Span(3_600, 3_600, 3_600))
    (found,) = [each for each in rows if each.candidate == results.ORACLE]
    return found


@pytest.mark.parametrize(("allocatable", "mid"), [(10, 1), (2, 1), (1.5, 0.5)])
def test_the_mid_resources_of_the_oracle_are_what_prod_requests_and_does_not_use(allocatable, mid):
    found = oracle_of(allocatable)
    assert (found.mid, found.mid_p10) == (pytest.approx(mid), pytest.approx(mid))
    assert found.peak == pytest.approx(1)


@pytest.mark.parametrize(("node_uses", "mid"), [(1.5, 0.5), (1.0, 1), (2.5, 0)])
def test_there_are_no_more_mid_resources_than_nothing_uses(node_uses, mid):
    assert oracle_of(2, node_uses).mid == pytest.approx(mid)


def test_the_requests_of_mid_pods_are_no_floor_in_a_backtest():
    assert oracle_of(2, mid_millis=1_500).mid == pytest.approx(1)
