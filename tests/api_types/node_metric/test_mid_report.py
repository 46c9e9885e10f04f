import msgspec
import pytest

from api_types.colocation import controller_config as slo
from api_types.node_metric import mid_report
from api_types.node_metric.mid_report import BadReport, MidReport, Requests
from api_types.node_metric.mid_resource import NoPredictionError

ALLOCATABLE = {"cpu": 4_000, "memory": 8_000}
CAPACITY = {"cpu": 5_000, "memory": 9_000}
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
    return mid_report.inputs_from(given, policy, ALLOCATABLE, CAPACITY, mid_report.reported_requests(given) or BOUND)


def test_inputs_come_from_one_report_and_the_node():
    found = inputs(report(allocated=ALLOCATED, prodPeakMetric=metric("1500m", "2k")), mid_cpu_threshold_percent=80)
    cpu, memory = found["cpu"], found["memory"]
    assert (cpu.allocatable, cpu.capacity, cpu.allocated_prod, cpu.allocated_mid) == (4_000, 5_000, 3_000, 500)
    assert (cpu.peak_prod, cpu.threshold_percent, cpu.floor) == (1_500, 80, True)
    assert (memory.peak_prod, memory.allocated_prod, memory.allocated_mid, memory.threshold_percent) == (
        2_000, 6_000, 1, 100,
    )  # fmt: skip


def test_upstreams_report_gives_reclaimable_and_its_peak_is_not_set_against_requests_of_another_clock():
    given = report(prodPeakMetric=metric("1", "1"), prodReclaimableMetric=metric("2", "3"))
    found = inputs(given)
    assert (found["cpu"].peak_prod, found["cpu"].reclaimable_reported) == (None, 2_000)
    assert (found["memory"].reclaimable_reported, found["memory"].allocated_prod) == (3, 6_000)


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
def test_without_a_whole_prediction_there_are_no_inputs(status):
    with pytest.raises(NoPredictionError):
        inputs(report(**status))


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


def test_a_policy_without_keys_is_the_default():
    policy = mid_report.mid_policy(slo.MidColocationPolicy())
    assert policy == mid_report.mid_policy(slo.DEFAULTS)
    assert (policy.floor, policy.unallocated_percent, policy.static_percent) == (True, 0, None)


def test_a_floor_of_none_lets_go():
    assert mid_report.mid_policy(slo.MidColocationPolicy(mid_floor="none")).floor is False
