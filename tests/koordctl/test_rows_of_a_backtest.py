"""Rows of `koordctl backtest`: what is counted of the forecasts of one node, by hand."""

import dataclasses

import numpy as np
import pytest

from koordctl.backtest import results
from koordctl.backtest.candidates import all_candidates
from koordctl.backtest.node_history import GIB, BoundPod, NodeHistory
from koordctl.backtest.placement import Pod
from koordctl.backtest.replay import Forecasts
from koordlet.prediction.allocation import WholeAmounts
from koordlet.samples import Resource

ALLOCATABLE, CAPACITY = WholeAmounts(10_000, 10 * GIB), WholeAmounts(12_000, 12 * GIB)
TIMES = 11
PEAKS = [1.0 + number / 10 for number in range(TIMES)]


def rows(resource, *, allocatable=ALLOCATABLE, interval_hours=168 / TIMES, **changes):
    """Return the rows of a candidate and of the oracle; amounts in cores or GiB, one for all times or one for each."""
    unit = 1.0 if resource is Resource.CPU else float(GIB)
    given = {"peaks": PEAKS, "oracle": 1.5, "requests": 4.0, "usage": 1.0, "other_usage": 0.5, "mid_requests": 3.0}
    arrays = {name: unit * np.broadcast_to(np.array(each, float), TIMES) for name, each in (given | changes).items()}
    forecasts = Forecasts(arrays.pop("peaks")[np.newaxis], **arrays)
    usage = dict.fromkeys(Resource, np.ones((1, 1)))
    node = NodeHistory("n1", 300, [BoundPod("u")], [Pod(0, 0, 1)], usage, None, CAPACITY, allocatable)
    candidate = dataclasses.replace(
        all_candidates(3_600)[0],
        threshold_percent=dict.fromkeys(Resource, 30),
        reclaim_ratio_percent=90,
        unallocated_percent=10,
    )
    return results._rows_of_resource(node, resource, forecasts, [candidate], interval_hours)


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


@pytest.mark.parametrize("resource", Resource)
def test_on_a_node_of_unknown_size_the_requests_are_the_allocatable(resource):
    found = rows(resource, allocatable=None)
    assert found[0].mid == pytest.approx(1.2, abs=1e-3)  # 30 % of 4; nothing is left without a request
    assert found[1].mid == pytest.approx(4 - 1.5)


def test_a_peak_above_the_requests_is_as_large_as_these():
    (row, _) = rows(Resource.CPU, peaks=[*[2.0] * (TIMES - 1), 9.0])
    assert row.peak == pytest.approx((2.0 * (TIMES - 1) + 4.0) / TIMES)


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
