"""Series of one instant, computed by hand from small snapshots."""

import math

import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.metric_cache import series as class_series
from koordlet.metric_cache.series import Reserved
from koordlet.samples import (
    NODE,
    PROD_AND_UNRESERVED_SYSTEM,
    SYSTEM,
    UNRESERVED_SYSTEM,
    SeriesKey,
    SeriesKind,
    Snapshot,
    UsageSample,
)

PODS = {"p1": UsageSample(1.0, 100.0), "p2": UsageSample(0.5, 50.0), "m": UsageSample(0.25, 25.0)}
CLASS_OF = {"p1": PriorityClass.PROD, "p2": PriorityClass.PROD, "m": PriorityClass.MID}
RESERVED = Reserved(0.5, 60.0)


def snapshot(**overrides):
    given = {
        "at_seconds": 0.0,
        "node": UsageSample(2.5, 215.0),
        "system": UsageSample(0.75, 40.0),
        "pods": PODS,
    }
    return Snapshot(**(given | overrides))


def class_key(priority_class):
    return SeriesKey(SeriesKind.CLASS, priority_class)


def classes_in(series):
    return {key.identity for key in series if key.kind is SeriesKind.CLASS}


def test_every_series_comes_from_one_snapshot():
    assert class_series.snapshot_series(snapshot(), CLASS_OF, RESERVED) == {
        NODE: (2.5, 215.0),
        SYSTEM: (0.75, 40.0),
        UNRESERVED_SYSTEM: (0.25, 0.0),  # memory: less used than reserved
        PROD_AND_UNRESERVED_SYSTEM: (1.75, 150.0),
        class_key("koord-prod"): (1.5, 150.0),
        class_key("koord-mid"): (0.25, 25.0),
        class_key("koord-batch"): (0.0, 0.0),
        class_key("koord-free"): (0.0, 0.0),
        SeriesKey(SeriesKind.POD, "p1"): (1.0, 100.0),
        SeriesKey(SeriesKind.POD, "p2"): (0.5, 50.0),
        SeriesKey(SeriesKind.POD, "m"): (0.25, 25.0),
    }


@pytest.mark.parametrize("class_of", [{}, {"p1": PriorityClass.NONE}], ids=["not heard of yet", "no class"])
def test_a_pod_of_unknown_class_counts_as_prod(class_of):
    series = class_series.snapshot_series(snapshot(pods={"p1": PODS["p1"]}), class_of, RESERVED)
    assert series[class_key("koord-prod")] == (1.0, 100.0)


def test_a_node_without_pods_has_classes_with_zero_usage():
    series = class_series.snapshot_series(snapshot(pods={}), {}, RESERVED)
    assert series[class_key("koord-prod")] == (0.0, 0.0)
    assert series[PROD_AND_UNRESERVED_SYSTEM] == series[UNRESERVED_SYSTEM]


def test_without_measured_pods_no_class_has_usage():
    series = class_series.snapshot_series(snapshot(pods={}, system=None), {}, RESERVED)
    assert set(series) == {NODE}


def test_an_unmeasured_pod_leaves_out_its_class_and_the_system_and_nothing_else():
    unmeasured = snapshot(system=None, unmeasured_pods=frozenset({"new"}))
    series = class_series.snapshot_series(unmeasured, CLASS_OF | {"new": PriorityClass.BATCH}, RESERVED)
    assert classes_in(series) == {"koord-prod", "koord-mid", "koord-free"}
    assert SYSTEM not in series
    assert PROD_AND_UNRESERVED_SYSTEM not in series
    assert series[SeriesKey(SeriesKind.POD, "p1")] == PODS["p1"]


def test_an_unmeasured_node_removes_only_node_and_system():
    series = class_series.snapshot_series(snapshot(node=None, system=None), CLASS_OF, RESERVED)
    assert classes_in(series) == {"koord-prod", "koord-mid", "koord-batch", "koord-free"}
    assert NODE not in series
    assert SYSTEM not in series


def test_without_the_nodes_capacity_the_unreserved_system_is_unknown_but_the_system_is_not():
    series = class_series.snapshot_series(snapshot(), CLASS_OF, None)
    assert series[SYSTEM] == (0.75, 40.0)
    assert UNRESERVED_SYSTEM not in series
    assert PROD_AND_UNRESERVED_SYSTEM not in series


def test_before_the_first_list_of_pods_no_class_is_known():
    series = class_series.snapshot_series(snapshot(), None, RESERVED)
    assert {key.kind for key in series} == {SeriesKind.NODE, SeriesKind.SYSTEM, SeriesKind.POD}
    assert series[SeriesKey(SeriesKind.POD, "p1")] == PODS["p1"]


NO_USAGES = [math.nan, math.inf, -math.inf, -1.0]


@pytest.mark.parametrize("value", NO_USAGES)
@pytest.mark.parametrize("resource", ["cpu_cores", "memory_bytes"])
def test_a_pod_whose_value_is_no_usage_is_as_good_as_unmeasured(resource, value):
    spoilt = PODS | {"p2": PODS["p2"]._replace(**{resource: value})}
    rest = {uid: usage for uid, usage in PODS.items() if uid != "p2"}
    unmeasured = snapshot(system=None, pods=rest, unmeasured_pods=frozenset({"p2"}))
    series = class_series.snapshot_series(snapshot(pods=spoilt), CLASS_OF, RESERVED)
    assert series == class_series.snapshot_series(unmeasured, CLASS_OF, RESERVED)
    assert PROD_AND_UNRESERVED_SYSTEM not in series
    assert series[class_key("koord-mid")] == (0.25, 25.0)


@pytest.mark.parametrize("value", NO_USAGES)
def test_a_node_or_system_whose_value_is_no_usage_is_left_out(value):
    impossible = UsageSample(value, 1.0)
    of_node = class_series.snapshot_series(snapshot(node=impossible), CLASS_OF, RESERVED)
    assert {NODE, SYSTEM, UNRESERVED_SYSTEM}.isdisjoint(of_node)
    of_system = class_series.snapshot_series(snapshot(system=impossible), CLASS_OF, RESERVED)
    assert of_system[NODE] == (2.5, 215.0)
    assert {SYSTEM, UNRESERVED_SYSTEM, PROD_AND_UNRESERVED_SYSTEM}.isdisjoint(of_system)
