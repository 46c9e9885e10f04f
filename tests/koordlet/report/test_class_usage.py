"""Usage by class, compared with sums over plain lists."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.metric_cache.ring import RingCache
from koordlet.report import class_usage
from koordlet.report.status import usage_by_class
from koordlet.samples import NODE, SYSTEM, SeriesKey, SeriesKind, UsageSample
from tests.koordlet.report.test_status import pod

GIB = float(1 << 30)
PODS = [
    pod("web", PriorityClass.PROD),
    pod("plain", PriorityClass.NONE),
    pod("mid", PriorityClass.MID),
    pod("batch", PriorityClass.BATCH),
    pod("free", PriorityClass.FREE),
]


def cached(ticks, first=1000.0):
    """Return a cache of one append a second; each tick is (node, system, {pod: usage}) in cores, and as many GiB."""
    cache = RingCache(60.0, max_series=20)
    for second, (node, system, pods) in enumerate(ticks):
        values = {NODE: node, SYSTEM: system, **{SeriesKey(SeriesKind.POD, name): used for name, used in pods.items()}}
        cache.append(
            first + second, {key: UsageSample(used, used * GIB) for key, used in values.items() if used is not None}
        )
    return cache


def of_node(ticks, bound=PODS):
    return class_usage.of_node(1000.0 + len(ticks) - 1, cached(ticks), bound)


ALL = {"web": 1.0, "plain": 0.5, "mid": 2.0, "batch": 0.25, "free": 0.25}


def test_every_class_has_its_pods_and_the_rest_is_system():
    found = of_node([(6.0, 2.0, ALL)] * 3)
    assert found.prod == UsageSample(1.5, 1.5 * GIB)
    assert found.mid == UsageSample(2.0, 2.0 * GIB)
    assert found.batch_and_free == UsageSample(0.5, 0.5 * GIB)
    assert found.system == UsageSample(2.0, 2.0 * GIB)


def test_the_report_has_whole_units_of_native_resources():
    usage = class_usage.of_node(1000.0, cached([(6.0005, 2.0, ALL)]), PODS)
    wire = usage_by_class(usage).to_wire()
    assert wire["prod"] == {"cpu": "1500m", "memory": str(3 << 29)}
    assert wire["batchAndFree"]["cpu"] == "500m"
    assert wire.keys() == {"prod", "mid", "batchAndFree", "system"}


def test_a_pod_that_is_not_bound_or_not_measured_is_part_of_the_system():
    found = of_node([(6.0, 3.0, {**ALL, "stranger": 1.0, "mid": None})])
    assert found.mid == UsageSample(0.0, 0.0)
    assert found.system.cpu_cores == 4.0


def test_only_instants_in_which_node_and_system_are_known_count():
    """A tick with a new pod has no system: its usage belongs to nobody yet."""
    found = of_node([(6.0, 2.0, ALL), (50.0, None, {"web": 40.0}), (6.0, 2.0, ALL)])
    assert (found.prod.cpu_cores, found.system.cpu_cores) == (1.5, 2.0)


@pytest.mark.parametrize("ticks", [[(None, 1.0, ALL)], [(6.0, None, ALL)], []], ids=["node", "system", "nothing"])
def test_nothing_is_reported_while_node_or_system_is_unknown(ticks):
    assert of_node(ticks) is None


def test_nothing_is_reported_while_the_pods_are_unknown():
    assert of_node([(6.0, 2.0, ALL)], bound=None) is None


def test_system_is_never_below_zero():
    assert of_node([(1.0, 0.0, ALL)]).system == UsageSample(0.0, 0.0)


def test_only_the_last_30_seconds_count():
    ticks = [(60.0, 56.0, ALL)] * 5 + [(6.0, 2.0, ALL)] * 30
    assert of_node(ticks).system.cpu_cores == 2.0


amounts = st.integers(0, 1000).map(lambda millis: millis / 1000)
ticks = st.lists(
    st.tuples(
        st.one_of(st.none(), amounts),
        st.dictionaries(st.sampled_from([each.name for each in PODS] + ["stranger"]), amounts),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=200)
@given(ticks=ticks)
def test_the_four_parts_add_up_to_the_usage_of_the_node(ticks):
    """Node = system + every pod, where the tick is known."""
    given_ticks = [(None if system is None else system + sum(pods.values()), system, pods) for system, pods in ticks]
    found = of_node(given_ticks)
    known = [each for each in given_ticks[-30:] if each[0] is not None]
    if not known:
        assert found is None
        return
    parts = (found.prod, found.mid, found.batch_and_free, found.system)
    node = sum(each[0] for each in known) / len(known)
    assert sum(part.cpu_cores for part in parts) == pytest.approx(node, abs=1e-5)
    assert sum(part.memory_bytes for part in parts) == pytest.approx(node * GIB, abs=1e-5 * GIB)
    mid = sum(pods.get("mid", 0.0) for _, _, pods in known) / len(known)
    assert found.mid.cpu_cores == pytest.approx(mid, abs=1e-5)
    assert min(min(part) for part in parts) >= 0
