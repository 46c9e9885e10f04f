"""MidGuard where a share of the unallocated resources is Mid: it takes the requests of the report."""

import pytest

from scheduler_plugin.plugins import mid_guard
from tests.scheduler_plugin.plugins.test_mid_guard import MID, rejects, report, resources

ONE_PERCENT = {"enable": True, "midUnallocatedPercent": 1}
NOTHING_RECLAIMABLE = {"prodReclaimableMetric": {"resource": {"resources": resources("0", "0")}}}


@pytest.mark.parametrize(("cpu", "reason"), [("900", None), ("901", mid_guard.REASON)])
def test_a_share_of_what_is_not_requested_is_left_beside_the_prediction(cpu, reason):
    """Prod requests 10 of 100 cores, and its peak leaves nothing of them: 1 % of 90 cores is left."""
    wanted = {"kubernetes.io/mid-cpu": cpu}
    assert rejects(report(("10", "20Gi"), policy=ONE_PERCENT), requests=wanted) == reason


def test_without_requests_in_the_report_the_share_is_unknown_and_the_node_is_not_guarded():
    without_requests = report(allocated=None, prodPeakMetric=None, **NOTHING_RECLAIMABLE, policy=ONE_PERCENT)
    assert rejects(without_requests, requests=MID) is None


def test_without_requests_and_without_a_share_the_prediction_of_the_agent_counts():
    without_requests = report(allocated=None, prodPeakMetric=None, **NOTHING_RECLAIMABLE)
    assert rejects(without_requests, requests=MID) == mid_guard.REASON
