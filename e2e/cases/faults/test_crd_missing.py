"""The CRD is deleted: every component reports it in one line, and continues by itself after the CRD is created again.

kopf does not survive it, so the leading manager ends and its successor waits; agent and scheduler continue.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

import pytest

from e2e.support import waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import CRD, Suite
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.access import Cluster

FIX = "crds.install"
WORKLOADS = {"koordlet": "koordlet", "koord-manager": "manager", "koord-scheduler": "scheduler-plugin"}
OF_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


@pytest.fixture(scope="module")
def without_crd(cluster: Cluster, suite: Suite) -> Iterator[dt.datetime]:
    """Delete the CRD, and all NodeMetrics with it; returns when."""
    crd = cluster.get("crd", CRD)
    since = dt.datetime.now(dt.UTC)
    cluster.run("delete", "crd", CRD)
    yield since
    _create(cluster, crd)


def _create(cluster: Cluster, crd: dict) -> None:
    if not cluster.run("get", "crd", CRD, "--ignore-not-found", "--output=name").strip():
        crd.pop("status", None)
        crd["metadata"] = {key: value for key, value in crd["metadata"].items() if key not in OF_THE_SERVER}
        cluster.run("create", "--filename=-", stdin=json.dumps(crd))


@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_each_component_reports_what_is_missing_and_the_fix(
    cluster: Cluster, suite: Suite, without_crd: dt.datetime, workload: str
) -> None:
    where = (
        "--namespace",
        SUITE_NAMESPACE,
        "--container",
        WORKLOADS[workload],
        f"--since-time={without_crd.isoformat()}",
    )

    def log_text() -> str:
        return "".join(cluster.run("logs", pod, *where) for pod in suite.pods(workload))

    log = waiting.until(f"{workload} names the missing CRD", log_text, lambda text: FIX in text, within_seconds=120)
    (first, *_) = [line for line in log.splitlines() if FIX in line]
    assert "nodemetrics" in first
    assert "Traceback" not in log


def test_every_component_continues_after_the_crd_is_created(
    cluster: Cluster, cluster_client: ClusterClient, suite: Suite, node: str, without_crd: dt.datetime
) -> None:
    suite.install()
    back = dt.datetime.now(dt.UTC)
    report = cluster_client.wait_report(node, back, within_seconds=150)
    assert report["spec"]["predictPolicy"]["coldStartPeriodSeconds"] == 0
    waiting.until("Mid on the node", lambda: cluster_client.mid(node))


@pytest.mark.parametrize("workload", ["koordlet", "koord-scheduler"])
def test_agent_and_scheduler_did_not_restart(
    cluster_client: ClusterClient, suite: Suite, without_crd: dt.datetime, workload: str
) -> None:
    for pod in suite.pods(workload):
        status = cluster_client.get("Pod", pod, SUITE_NAMESPACE)["status"]
        for each in [*status["containerStatuses"], *status.get("initContainerStatuses", ())]:
            started = each["state"].get("running", {}).get("startedAt")
            assert started is None or dt.datetime.fromisoformat(started) < without_crd, each
