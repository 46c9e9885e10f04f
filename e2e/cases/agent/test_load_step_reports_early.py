"""A step of the load is reported long before the next report is due, and reports are at least 5 s apart."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from e2e.support import slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient, moment, units
from e2e.support.installation import Suite
from e2e.support.report_recorder import Report, ReportWitness
from e2e.support.slo_config import BASE
from tools.localcluster.access import Cluster

INTERVAL_SECONDS = 300
STEP_MIB = 800
REPORTED_WITHIN_SECONDS = 2 * 30 + 8
"""The second training includes samples of the end of a round, and is checked every second; up to 5 s may pass
because another report was just written.
"""
LEAST_GAP_SECONDS = 4.8  # five, as the agent's own clock counts them; both ends are seen up to 0.1 s late
NEWCOMERS, NEWCOMER_SHARE = 10, 1 / 16  # of the node's memory: more than the threshold of 5 %


class Case(NamedTuple):
    """Time of the load step, time at which the next report was due, and all reports."""

    stepped: dt.datetime
    due: dt.datetime
    reports: list[Report]
    newcomers: tuple[dt.datetime, dt.datetime]
    """Time of the first and of the last of the new Prod pods."""
    gaps_seconds: list[float]


def _pod_sum(status: dict) -> int:
    """Return the predicted peak as the sum over single pods, in bytes of memory."""
    return units(status["prediction"]["prod"]["podSumPeak"]["memory"])


@pytest.fixture(scope="module")
def case(cluster: Cluster, suite: Suite, cluster_client: ClusterClient, node: str, namespace: str) -> Iterator[Case]:
    """Configure long report intervals and short checks; raise the memory of a Prod pod; create many small Prod pods."""
    requests = {"cpu": "50m", "memory": "64Mi"}
    pod = workloads.pod("climber", suite.workload, *workloads.load(memory_mib=20), requests=requests, nodes=[node])
    cluster_client.create("Pod", pod, namespace)
    cluster_client.wait_running(namespace, "climber")
    policy = {**BASE["nodePredictPolicy"], "checkIntervalSeconds": 1, "resourceDiffThresholdPercent": 5}
    policy |= {"cpuHalfLifeSeconds": 60, "memoryHalfLifeSeconds": 60}
    long = slo_config.changed(metricReportIntervalSeconds=INTERVAL_SECONDS, nodePredictPolicy=policy)
    slo_config.write(cluster_client, long)
    _wait_settled(suite, cluster_client, node, namespace)
    witness = ReportWitness(cluster_client, node)
    due = moment(cluster_client.node_metric(node)["status"]["updateTime"]) + dt.timedelta(
        seconds=0.9 * INTERVAL_SECONDS
    )
    workloads.take_memory(cluster, namespace, "climber", STEP_MIB)
    stepped = dt.datetime.now(dt.UTC)
    waiting.until(
        "the step is reported",
        lambda: _first_with_step(witness.reports, stepped),
        within_seconds=REPORTED_WITHIN_SECONDS,
    )
    first = dt.datetime.now(dt.UTC)
    allocatable = units(cluster_client.get("Node", node)["status"]["allocatable"]["memory"])
    requests = {"cpu": "10m", "memory": str(round(allocatable * NEWCOMER_SHARE))}
    for index in range(NEWCOMERS):
        pod = workloads.pod(f"newcomer-{index}", suite.workload, *workloads.load(), requests=requests, nodes=[node])
        cluster_client.create("Pod", pod, namespace)
        time.sleep(1)
    last = dt.datetime.now(dt.UTC)
    time.sleep(6)
    witness.close()
    yield Case(stepped, due, witness.reports, (first, last), witness.gaps_seconds())
    slo_config.write(cluster_client, BASE)


def _first_with_step(reports: list[Report], stepped: dt.datetime) -> dt.datetime | None:
    """Return the time of the first report that shows the step, given the time of the step itself."""
    before = [each for each in reports if each.at <= stepped][-1]
    risen = _pod_sum(before.status) + 0.9 * STEP_MIB * workloads.MEBIBYTE
    return next((each.at for each in reports if "prediction" in each.status and _pod_sum(each.status) >= risen), None)


def _wait_settled(suite: Suite, cluster_client: ClusterClient, node: str, namespace: str) -> None:
    """Wait for a report by the new policy, the next being due after its interval, and for a training on the pod."""
    started = moment(cluster_client.get("Pod", "climber", namespace)["status"]["startTime"]).timestamp()

    def is_settled() -> bool:
        found, trained = cluster_client.node_metric(node), suite.agent_page("/debug/samples")["trainedAtSeconds"]
        follows = found["status"].get("observedGeneration") == found["metadata"]["generation"]
        return follows and bool(trained) and trained[-1] > started + 10

    waiting.until("the climber is known", is_settled, within_seconds=100, every_seconds=1)


def test_the_step_is_reported_after_training_and_long_before_a_report_is_due(case: Case) -> None:
    reported = _first_with_step(case.reports, case.stepped)
    assert reported is not None
    assert reported < case.due, "that would have been no early report"
    assert (reported - case.stepped).total_seconds() <= REPORTED_WITHIN_SECONDS


def test_a_change_at_every_check_is_reported_every_five_seconds(case: Case) -> None:
    first, last = case.newcomers
    reported = [each.at for each in case.reports if first <= each.at <= last]
    assert len(reported) >= (last - first).total_seconds() // 5 - 1


def test_no_two_reports_are_closer(case: Case) -> None:
    assert min(case.gaps_seconds) > LEAST_GAP_SECONDS, case.gaps_seconds
