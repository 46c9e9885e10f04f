"""The Mid of a node under another configuration: what is taken, what is short, and what is not known."""

import dataclasses

import msgspec
import pytest

from api_types.colocation import controller_config as slo
from api_types.colocation.controller_config import ColocationStrategy, MidEviction, PredictPolicy
from api_types.kubernetes import times
from fleet import what_if, wire
from fleet.node_state import UNKNOWN, Amounts
from fleet.what_if import NodeChange, WhatIfOutcome
from manager.cache import store
from manager.mid_resource.reasons import Reason
from manager.slo_config.strategy import NodeStrategy
from tests.fleet import cluster

NOW, GIB = times.parse_rfc3339(cluster.NOW), 2**30

BEFORE, NOTHING = Amounts(1_000, 100), Amounts(0, 0)


def change(after, mid_requests=NOTHING, before=BEFORE):
    return NodeChange(
        "a", WhatIfOutcome(before, "Calculated"), WhatIfOutcome(after, "Calculated"), before, mid_requests,
        predicts_otherwise=False, predicted_pods=0, cold_pods=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("after", "difference", "takes"),
    [
        (Amounts(1_000, 100), Amounts(0, 0), False),
        (Amounts(1_001, 101), Amounts(1, 1), False),
        (Amounts(999, 100), Amounts(-1, 0), True),
        (Amounts(2_000, 99), Amounts(1_000, -1), True),
        (Amounts(None, 100), Amounts(None, 0), False),
        (Amounts(0, None), Amounts(-1_000, None), True),
        (UNKNOWN, UNKNOWN, False),
    ],
)
def test_a_node_loses_where_it_has_less_of_one_resource(after, difference, takes):
    found = change(after)
    assert (found.change, found.takes) == (difference, takes)
    assert found.is_known is (after != UNKNOWN)


@pytest.mark.parametrize(
    ("after", "requested", "is_short"),
    [
        (Amounts(900, 100), Amounts(900, 100), False),
        (Amounts(900, 100), Amounts(901, 0), True),
        (Amounts(900, 100), Amounts(0, 101), True),
        (Amounts(1_000, 100), Amounts(2_000, 200), False),
        (Amounts(900, 100), UNKNOWN, False),
        (Amounts(900, None), Amounts(900, 500), False),
    ],
)
def test_a_node_is_short_where_it_loses_and_has_less_than_its_mid_pods_request(after, requested, is_short):
    assert change(after, requested).is_short is is_short
    assert not dataclasses.replace(change(after, requested), before=WhatIfOutcome(after, "")).is_short


def strategy(enabled=True, **keys):
    return NodeStrategy(slo.merge(slo.DEFAULTS, ColocationStrategy(enable=enabled, **keys)), enabled, ())


def compared(after, before=None, report=None, annotations=None):
    """Compare a node of 16 cores and 64 GiB under two strategies."""
    node = msgspec.convert(cluster.node(annotations=annotations), type=store.StoredNode)
    metric = msgspec.convert(report, type=wire.WireNodeMetric) if report else None
    return what_if.compare("worker-1", store.with_mid_status(node), metric, (before or strategy(), after), NOW)


def test_a_disabled_node_keeps_what_its_mid_pods_request_unless_there_is_no_floor():
    # 14.75 cores and 40 GiB are requested by Prod, whose peak is 5.55 cores and 30 GiB; Mid pods request 7.2 and 8
    for floor, left in (("allocated", Amounts(7_200, 8 * GIB)), ("none", Amounts(0, 0))):
        found = compared(strategy(enabled=False, mid_floor=floor), report=cluster.metric())
        assert found.before.mid == Amounts(9_200, 10 * GIB)
        assert (found.after.mid, found.after.reason) == (left, Reason.COLOCATION_DISABLED.value)
        assert (found.takes, found.is_short) == (True, floor == "none")
        assert (found.predicted_pods, found.cold_pods, found.predicts_otherwise) == (29, 2, False)
        assert (found.published, found.mid_requests) == (Amounts(9_423, 10 * GIB), Amounts(7_200, 8 * GIB))


def test_mid_is_not_less_than_what_mid_pods_request():
    low = strategy(mid_cpu_threshold_percent=0, mid_memory_threshold_percent=0)
    assert compared(low, report=cluster.metric()).after.mid == Amounts(7_200, 8 * GIB)
    nothing = {"kubernetes.io/mid-cpu": "0", "kubernetes.io/mid-memory": "0"}
    report = cluster.metric(allocated={"prod": {"cpu": "14750m", "memory": "40Gi"}, "mid": nothing})
    found = compared(low, report=report)
    assert (found.after.mid, found.is_short) == (Amounts(0, 0), False)


def test_a_report_without_requests_is_not_known():
    found = compared(strategy(), report=cluster.metric(allocated=None))
    assert (found.before.mid, found.after.mid, found.is_known) == (UNKNOWN, UNKNOWN, False)


def test_a_request_that_a_report_leaves_out_is_zero():
    half = strategy(mid_unallocated_percent=50)
    report = cluster.metric(allocated={"prod": {"memory": "40Gi"}, "mid": {"kubernetes.io/mid-memory": "8Gi"}})
    assert compared(half, report=report).after.mid.cpu == 8_000  # half of the 16 cores that no Prod pod requests
    report = cluster.metric(allocated={"prod": {"cpu": "14750m"}, "mid": {"kubernetes.io/mid-cpu": "7200"}})
    assert compared(half, report=report).after.mid.memory == 32 * GIB
    nothing = strategy(mid_cpu_threshold_percent=0, mid_memory_threshold_percent=0)
    for mid in ({"kubernetes.io/mid-cpu": "7200"}, {"kubernetes.io/mid-memory": "8Gi"}):
        report = cluster.metric(allocated={"prod": {"cpu": "14750m", "memory": "40Gi"}, "mid": mid})
        assert 0 in compared(nothing, report=report).after.mid


@pytest.mark.parametrize(
    ("after", "otherwise"),
    [
        (strategy(), False),
        (strategy(mid_cpu_threshold_percent=1), False),
        (strategy(node_predict_policy=PredictPolicy(predictor="calibrated")), True),
        (strategy(enabled=False, node_predict_policy=PredictPolicy(predictor="calibrated")), False),
    ],
)
def test_a_node_whose_agent_would_use_another_policy_is_marked(after, otherwise):
    assert compared(after, report=cluster.metric()).predicts_otherwise is otherwise


def test_a_node_whose_peak_is_no_longer_gated_predicts_otherwise():
    calibrated = PredictPolicy(predictor="calibrated")
    gated, evicting = (
        strategy(node_predict_policy=calibrated, mid_eviction=MidEviction(mode=mode)) for mode in ("advise", "evict")
    )
    assert compared(evicting, gated, cluster.metric()).predicts_otherwise
    assert not compared(evicting, evicting, cluster.metric()).predicts_otherwise


@pytest.mark.parametrize(
    ("enabled", "predictor", "mode", "gated", "evicts"),
    [
        (True, "calibrated", None, True, False),
        (True, "calibrated", "advise", True, False),
        (True, "calibrated", "evict", True, True),
        (False, "calibrated", "evict", False, True),
        (True, "n-sigma-v2", None, False, False),
    ],
)
def test_a_peak_that_holds_for_an_hour_is_gated_where_the_node_takes_part(enabled, predictor, mode, gated, evicts):
    eviction = {"mid_eviction": MidEviction(mode=mode)} if mode else {}
    found = strategy(enabled, node_predict_policy=PredictPolicy(predictor=predictor), **eviction)
    assert (what_if.is_gated(found), what_if.evicts(found)) == (gated, evicts)
