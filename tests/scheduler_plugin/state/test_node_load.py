"""Sums of one node. The table of six pods has the values of Koordinator's own test."""

from hypothesis import given
from hypothesis import strategies as st

from api_types.node_metric import mid_report
from scheduler_plugin.state import node_report
from scheduler_plugin.state.node_load import NodeLoad
from scheduler_plugin.state.node_report import NodeReport
from scheduler_plugin.state.pod_info import AssignedPod
from tests.scheduler_plugin import factories

GI = 1024**3


NO_MID = mid_report.MidReport()


def assigned(name, estimate=(1000, 100), *, prod=True, at=0.0, forced_until=None, mid=(0, 0)):
    counted = estimate if estimate and any(estimate) else None
    return AssignedPod(f"uid-{name}", f"ns/{name}", prod, counted, *mid, at, forced_until, 0, True)


def report(pod_usage=(), prod=(), *, updated=0.0, usage=(5000, 500), system=(70, 7), predicted=None):
    keyed = {f"ns/{name}": (*vector, int(name in prod)) for name, vector in dict(pod_usage).items()}
    pods_ = node_report.table(keyed, 3)
    return NodeReport(updated, 60, usage, system, predicted, {}, pods_, None, NO_MID)


def load_of(*pods, given_report=None, system_in_prod=False):
    load = NodeLoad(2, system_in_prod=system_in_prod)
    for pod in pods:
        load.assign(pod)
    if given_report is not None:
        load.set_report(given_report)
    return load


def sums(load):
    return load.plain(), load.prod(), tuple(load.node_estimated), tuple(load.node_delta), tuple(load.prod_delta)


def test_the_upstream_table_of_six_pods():
    load = NodeLoad(2, system_in_prod=False)
    for kind, prod in (("prod", True), ("mid", False)):
        for index in range(3):
            load.assign(assigned(f"{kind}-{index}", (2000, 4 * GI), prod=prod))
    items = [
        factories.reported(f"{kind}-{index}", cpu, memory, priority, namespace="ns")
        for kind, priorities in (
            ("prod", ("koord-prod", "koord-prod", "koord-mid")),
            ("mid", ("koord-mid",) * 2 + ("koord-prod",)),
        )
        for index, (priority, (cpu, memory)) in enumerate(
            zip(priorities, (("1", "6Gi"), ("4", "2Gi"), ("3", "6Gi")), strict=True)
        )
    ]
    load.set_report(node_report.read(factories.metric(usage={}, updated=None, pods_metric=items), ("cpu", "memory")))
    assert load.prod_usage == [5000, 8 * GI]
    assert load.node_delta == [2000, 4 * GI]
    assert load.prod_delta == [3000, 6 * GI]
    assert load.node_estimated == [12000, 24 * GI]
    for pod in list(load.pods):
        load.remove(pod)
    assert (load.prod_usage, load.node_delta, load.prod_delta, load.node_estimated) == ([0, 0],) * 4


def test_the_report_time_is_reset_when_the_entry_is_empty():
    load = load_of(assigned("a"), given_report=report())
    load.drop_report()
    assert load.update_time == 0.0
    load.remove("ns/a")
    assert load.update_time is None


names = st.sampled_from("abcde")


vectors = st.tuples(st.integers(-50, 5000), st.integers(0, 5000))


pods_strategy = st.builds(
    assigned,
    names,
    st.none() | vectors,
    prod=st.booleans(),
    at=st.sampled_from([-100.0, -60.0, -59.0, 0.0]),
    forced_until=st.none() | st.sampled_from([-1.0, 0.0, 1.0]),
    mid=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)


reports = st.builds(
    report,
    st.dictionaries(names, st.tuples(st.integers(0, 5000), st.integers(0, 5000))),
    st.sets(names),
    updated=st.none() | st.sampled_from([-30.0, 0.0, 30.0]),
    usage=st.none() | vectors,
)


steps = st.lists(
    st.tuples(st.just("assign"), pods_strategy)
    | st.tuples(st.just("remove"), names)
    | st.tuples(st.just("report"), reports)
    | st.tuples(st.just("drop"), st.none()),
    max_size=20,
)


@given(steps, st.booleans())
def test_incremental_sums_equal_sums_from_scratch(taken, system_in_prod):
    load = NodeLoad(2, system_in_prod=system_in_prod)
    for what, value in taken:
        if what == "assign":
            load.assign(value)
        elif what == "remove":
            load.remove(f"ns/{value}")
        elif what == "report":
            load.set_report(value)
        else:
            load.drop_report()
    fresh = NodeLoad(2, system_in_prod=system_in_prod)
    fresh.update_time = load.update_time
    for pod in load.pods.values():
        fresh.assign(pod)
    if load.report is not None:
        fresh.set_report(load.report)
    assert sums(load) == sums(fresh)
    assert (load.mid_cpu_millis, load.mid_memory_bytes) == (fresh.mid_cpu_millis, fresh.mid_memory_bytes)
