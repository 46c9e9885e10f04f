import msgspec
import pytest

from api_types.colocation import controller_config as slo
from api_types.colocation import node_reservation
from api_types.kubernetes import pods
from api_types.node_metric import mid_report
from api_types.node_metric.mid_report import BadReport, MidReport, Requests

ALLOCATABLE = {"cpu": 4_000, "memory": 8_000}
CAPACITY = {"cpu": 5_000, "memory": 9_000}
GIB = 1 << 30
BOUND = Requests({"cpu": 3_000, "memory": 6_000}, {"kubernetes.io/mid-cpu": 500})


def report(**status):
    return msgspec.convert(status, type=MidReport)


def metric(cpu, memory):
    return {"resource": {"resources": {"cpu": cpu, "memory": memory}}}


ALLOCATED = {
    "prod": {"cpu": "3", "memory": "6k"},
    "mid": {"kubernetes.io/mid-cpu": "500", "kubernetes.io/mid-memory": 1},
}


def inputs(given, **keys):
    policy = mid_report.mid_policy(slo.MidColocationPolicy(**keys))
    usable = mid_report.usable_report(given, policy)
    return mid_report.terms(usable, policy, ALLOCATABLE, CAPACITY, usable.requests or BOUND)


def test_inputs_come_from_one_report_and_the_node():
    found = inputs(report(allocated=ALLOCATED, prodPeakMetric=metric("1500m", "2k")), mid_cpu_threshold_percent=80)
    cpu, memory = found["cpu"], found["memory"]
    assert (cpu.allocatable, cpu.capacity, cpu.allocated_prod, cpu.allocated_mid) == (4_000, 5_000, 3_000, 500)
    assert (cpu.peak_prod, cpu.threshold_percent, cpu.floor) == (1_500, 80, 500)
    assert (memory.peak_prod, memory.allocated_prod, memory.allocated_mid, memory.threshold_percent) == (
        2_000, 6_000, 1, 100,
    )  # fmt: skip


def test_upstreams_report_gives_reclaimable_and_its_peak_is_not_set_against_requests_of_another_clock():
    given = report(prodPeakMetric=metric("1", "1"), prodReclaimableMetric=metric("2", "3"))
    found = inputs(given)
    assert (found["cpu"].peak_prod, found["cpu"].source, found["cpu"].reclaimable) == (None, "reported", 2_000)
    assert (found["memory"].reclaimable, found["memory"].allocated_prod) == (3, 6_000)


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"allocated": ALLOCATED},
        {"prodPeakMetric": metric("1", "1")},  # without requests of its own clock
        {"prodReclaimableMetric": {"resource": {}}},  # upstream's way to say that it failed
        {"allocated": ALLOCATED, "prodPeakMetric": {"resource": {"resources": {"cpu": "1"}}}},  # half a prediction
    ],
)
def test_without_a_whole_prediction_there_is_none(status):
    policy = mid_report.mid_policy(slo.MidColocationPolicy())
    assert not mid_report.usable_report(report(**status), policy).has_prediction()
    found = inputs(report(**status))["cpu"]
    assert (found.peak_prod, found.source, found.reclaimable) == (None, "none", 0)


def usage(prod=("1", "1k"), batch_and_free=("2", "2k"), system=("500m", "500"), **more):
    classes = {"prod": prod, "mid": ("100", "100G"), "batchAndFree": batch_and_free, "system": system, **more}
    return {name: dict(zip(("cpu", "memory"), each, strict=True)) for name, each in classes.items() if each}


def unused(**status):
    found = inputs(report(**status))
    return found["cpu"].unused, found["memory"].unused


def test_unused_is_what_nothing_but_mid_uses_and_batch_gives_cpu_back():
    assert unused(usage=usage(system=("1", "1k"))) == (4_000 - 1_000, 8_000 - 3_000)
    assert unused(usage=usage(prod=("4", "8k"))) == (0, 0)


@pytest.mark.parametrize(("system", "beyond"), [(("0", 0), 0), (("1", "1k"), 0), (("1500m", "1500"), 500)])
def test_what_a_reservation_took_out_of_allocatable_is_not_subtracted_again(system, beyond):
    assert unused(usage=usage(system=system)) == (3_000 - beyond, 5_000 - beyond)


def test_upstreams_usage_is_of_the_whole_node():
    node_usage = {"nodeUsage": {"resources": {"cpu": "1500m", "memory": "4k"}}}
    assert unused(nodeMetric=node_usage) == (3_500, 5_000)
    assert unused(nodeMetric=node_usage, usage=usage()) == (3_000, 5_000)


@pytest.mark.parametrize("pools", [{"hugepages-2Mi": "32Gi"}, {"hugepages-1Gi": "30Gi", "hugepages-2Mi": "2Gi"}])
def test_huge_pages_are_neither_usage_nor_capacity(pools):
    status = {"capacity": {"cpu": 8, "memory": "64Gi", **pools}, "allocatable": {"cpu": 8, "memory": "31Gi"}}
    node = msgspec.convert({"status": status}, pods.Node)
    policy = mid_report.mid_policy(slo.MidColocationPolicy())

    def memory(**report_status):
        usable = mid_report.usable_report(report(**report_status), policy)
        return mid_report.terms(usable, policy, pods.allocatable(node), node_reservation.capacity(node), BOUND)[
            "memory"
        ]

    by_class = memory(usage=usage(prod=("1", "5Gi"), batch_and_free=("0", 0), system=("1", "3Gi")))
    assert (by_class.capacity, by_class.unused) == (32 * GIB, (31 - 5 - (3 - 1)) * GIB)
    of_koordinators_agent = {"nodeUsage": {"resources": {"cpu": "1", "memory": "40Gi"}}}  # with the pools
    assert memory(nodeMetric=of_koordinators_agent).unused == 24 * GIB


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"nodeMetric": {}},
        {"nodeMetric": {"nodeUsage": {"resources": {"cpu": "1"}}}},
        {"nodeMetric": {"nodeUsage": {"resources": {"memory": "1"}}}},
        {"usage": {}},
        {"usage": usage(prod=None)},
        {"usage": usage(system=None)},
        {"usage": usage(batch_and_free=None), "nodeMetric": {"nodeUsage": {"resources": {"cpu": 1, "memory": 1}}}},
    ],
)
def test_of_an_unknown_usage_nothing_is_unused(status):
    assert unused(**status) == (0, 0)


def test_an_absurd_usage_is_refused_by_name():
    for amount in ("-1", "NaN", "1e30"):
        with pytest.raises(BadReport, match=r"status\.usage\.system"):
            unused(usage=usage(system=("1", amount)))
        with pytest.raises(BadReport, match=r"status\.nodeMetric\.nodeUsage\.resources"):
            unused(nodeMetric={"nodeUsage": {"resources": {"cpu": amount, "memory": "1"}}})


def test_the_policy_has_the_switches_that_the_mid_guard_needs():
    policy = mid_report.mid_policy(slo.MidColocationPolicy(enable=True, degrade_time_minutes=3))
    assert (policy.enabled, policy.publishes, policy.degrade_seconds) == (True, True, 180)
    assert not mid_report.mid_policy(slo.MidColocationPolicy(mid_publish="shadow")).publishes


def test_static_mode_needs_no_prediction():
    found = inputs(report(), mid_reclaim_mode="static", mid_static_cpu_reserved_percent=10)
    assert (found["cpu"].static_percent, found["memory"].static_percent) == (10, 0)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"prodReclaimableMetric": metric("-1", "1")}, "prodReclaimableMetric.resource.resources.cpu: seen -1"),
        ({"prodReclaimableMetric": metric("NaN", "1")}, "'NaN' is not a quantity"),
        ({"prodReclaimableMetric": metric("1", "1e999")}, "seen 1e999, want 9223372036854775807 or less"),
        ({"allocated": {"mid": {"kubernetes.io/mid-cpu": "1e30"}}}, "allocated.mid.kubernetes.io/mid-cpu: seen 1e30"),
        ({"allocated": {"prod": {"memory": "-5Mi"}}, "prodPeakMetric": metric("1", "1")}, "allocated.prod.memory"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(status, said):
    with pytest.raises(BadReport, match=said):
        mid_report.usable_report(report(**status), mid_report.mid_policy(slo.MidColocationPolicy()))


@pytest.mark.parametrize("is_by_class", [True, False])
def test_a_node_without_amounts_has_none_to_publish(is_by_class):
    nothing, policy = Requests({}, {}), mid_report.mid_policy(slo.MidColocationPolicy())
    used = mid_report.Used({"cpu": 0, "memory": 0}, is_by_class)
    usable = mid_report.UsableReport(peak=None, reclaimable=None, requests=nothing, used=used)
    for each in mid_report.terms(usable, policy, {}, {}, nothing).values():
        assert (each.allocatable, each.capacity, each.unused) == (0, 0, 0)
