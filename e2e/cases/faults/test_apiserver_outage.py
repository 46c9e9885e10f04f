"""The apiserver is down for two minutes: the agent continues to measure and train, and only reports are missing."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import time
from collections.abc import Callable, Iterator
from math import fsum
from typing import Any, NamedTuple

import pytest

from e2e.support import mid_formula, slo_config, waiting, workloads
from e2e.support.cgroup_accounting import CgroupWitness
from e2e.support.cluster_client import ClusterClient, cpu_millis, moment
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE
from e2e.support.report_recorder import Report, ReportWitness
from tools.localcluster import running
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem

AWAY_SECONDS = 120
LONGEST_PAUSE_SECONDS = 30  # of the back-off
WINDOW, WINDOW_SECONDS = "3m0s", 180  # longer than the outage
POD = "tide"
_ASK = """
import os, ssl, urllib.request
url = "https://" + os.environ["KUBERNETES_SERVICE_HOST"] + "/readyz"
print(urllib.request.urlopen(url, timeout=2, context=ssl._create_unverified_context()).read().decode())
"""

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("shell_in_node")]


class Outage(NamedTuple):
    """Two minutes without an apiserver, and the agent's samples and trainings of that time."""

    began: float
    """Time of the request to end."""
    ended: float
    """When pods could reach it again."""
    reports: list[Report]
    """Those after it."""
    page: dict[str, Any]
    uid: str
    used_core_seconds: float
    """By the pod during the outage, by its cgroup's account."""
    agents: tuple[Any, Any]
    """The agent's containers before and after."""


@pytest.fixture(scope="module")
def outage(suite: Suite, cluster_client: ClusterClient, node: str, namespace: str) -> Iterator[Outage]:
    """Stop the apiserver for two minutes while a pod works."""
    slo_config.write(cluster_client, slo_config.changed(metricAggregatePolicy={"durations": [WINDOW]}))
    waiting.until(
        "a prediction", lambda: cluster_client.node_metric(node)["status"].get("prediction"), within_seconds=120
    )
    arguments = workloads.load(cores="0.1,0.3", phase_seconds=7)
    cluster_client.create("Pod", workloads.pod(POD, suite.workload, *arguments, nodes=[node]), namespace)
    cluster_client.wait_running(namespace, POD)
    pod = cluster_client.get("Pod", POD, namespace)
    before = _containers(suite, cluster_client)
    with contextlib.closing(CgroupWitness(pod)) as account:
        began, ended = _stop_the_apiserver(lambda: _service_answers(suite.cluster, namespace))
        with contextlib.closing(ReportWitness(cluster_client, node)) as witness:
            back = dt.datetime.fromtimestamp(ended, dt.UTC)
            cluster_client.wait_report(node, back, within_seconds=LONGEST_PAUSE_SECONDS + 15)
        page = waiting.until("the agent's samples", lambda: suite.agent_page("/debug/samples"))
        used = account.cpu_seconds_between(began + 2, ended - 2)
    yield Outage(
        began, ended, witness.reports, page, pod["metadata"]["uid"], used, (before, _containers(suite, cluster_client))
    )
    slo_config.write(cluster_client, slo_config.BASE)


def _stop_the_apiserver(is_reached: Callable[[], bool]) -> tuple[float, float]:
    """Return the time of the request to end, and the time when pods could reach it again."""
    began = time.time()
    try:
        running.provider().stop("kube-apiserver")  # it closes the watches for some seconds
    except ClusterProblem as impossible:
        pytest.skip(str(impossible))
    try:
        time.sleep(max(began + AWAY_SECONDS - time.time(), 0))
    finally:
        running.provider().start("kube-apiserver")
    # It removes its address in the cluster when it ends, and kube-proxy backs off before it watches again.
    waiting.until("pods can reach it", is_reached, within_seconds=90)
    ended = time.time()
    # So does the kubelet, and the next case would wait for it: a new one watches at once.
    running.provider().stop("kubelet")
    running.provider().start("kubelet")
    return began, ended


def _service_answers(cluster: Cluster, namespace: str) -> bool:
    """Return whether the pod gets an answer. Raises ClusterProblem."""
    return cluster.run("exec", POD, "--namespace", namespace, "--", "python3", "-c", _ASK).strip() == "ok"


def _containers(suite: Suite, cluster_client: ClusterClient) -> list[tuple[str, int]]:
    statuses = cluster_client.get("Pod", suite.agent_pod(), SUITE_NAMESPACE)["status"]["containerStatuses"]
    return [(each["containerID"], each["restartCount"]) for each in statuses]


def _column(page: dict[str, Any], kind: str, identity: str) -> list[tuple[float, float]]:
    """Return (time, cores) of a series, where it has a sample."""
    (series,) = [each for each in page["series"] if (each["kind"], each["identity"]) == (kind, identity)]
    return [(at, cores) for at, cores in zip(page["atSeconds"], series["cpu"], strict=True) if cores is not None]


def test_the_agent_is_the_same_one(outage: Outage) -> None:
    assert outage.agents[0] == outage.agents[1]


def test_no_sample_is_missing(outage: Outage) -> None:
    at = [each for each in outage.page["atSeconds"] if outage.began <= each <= outage.ended]
    assert len(at) >= 0.95 * (outage.ended - outage.began)
    assert max(after - before for before, after in itertools.pairwise(at)) < 3


def test_the_sum_of_samples_equals_the_kernels_accounting(outage: Outage) -> None:
    since, until = outage.began + 2, outage.ended - 2
    pairs = itertools.pairwise(_column(outage.page, "pod", outage.uid))
    measured = fsum(
        cores * (min(at, until) - max(before, since))
        for (before, _), (at, cores) in pairs
        if before < until and at > since
    )
    assert outage.used_core_seconds > 10, "the load was not what it should be"
    assert measured == pytest.approx(outage.used_core_seconds, rel=0.05)


def test_training_continued(outage: Outage) -> None:
    trained = [at for at in outage.page["trainedAtSeconds"] if outage.began <= at <= outage.ended]
    assert len(trained) >= (outage.ended - outage.began) // 30 - 1


def test_the_next_report_is_in_time_and_recent(outage: Outage) -> None:
    first = next(each for each in outage.reports if moment(each.status["updateTime"]).timestamp() > outage.ended)
    assert first.at.timestamp() - outage.ended < LONGEST_PAUSE_SECONDS + 10
    assert first.at.timestamp() - moment(first.status["updateTime"]).timestamp() < 3


def test_its_windows_span_the_outage(outage: Outage) -> None:
    status = outage.reports[-1].status
    (window,) = [each for each in status["nodeMetric"]["aggregatedNodeUsages"] if each["duration"] == WINDOW]
    end = moment(status["updateTime"]).timestamp() + 1  # the wire cuts it to whole seconds
    values = [cores for at, cores in _column(outage.page, "node", "") if end - WINDOW_SECONDS < at <= end]
    assert len(values) > AWAY_SECONDS
    assert cpu_millis(window["usage"]["avg"]["resources"]["cpu"]) == pytest.approx(
        1000 * fsum(values) / len(values), rel=0.02, abs=2
    )


def test_mid_follows_the_reports_again(cluster_client: ClusterClient, node: str, outage: Outage) -> None:
    mid_formula.wait_published(cluster_client, node, within_seconds=120)
