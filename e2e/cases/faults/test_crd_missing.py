"""The CRD is deleted: every component reports it in one line, and continues by itself after the CRD is created again.

Meanwhile there are no NodeMetrics: Mid resources are withdrawn when the last sample of a node is too old. A manager
that starts without the CRD does the same.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

import pytest

from e2e.support import fake_fleet, manager_faults, slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import CRD, Suite
from e2e.support.names import OF_THE_SERVER, SUITE_NAMESPACE
from tools.localcluster.access import Cluster

FIX = "crds.install"
WORKLOADS = {"koordlet": "koordlet", "koord-manager": "manager", "koord-scheduler": "scheduler-plugin"}


DEGRADE_MINUTES = 1


@pytest.fixture(scope="module")
def without_crd(
    cluster: Cluster, cluster_client: ClusterClient, suite: Suite, fake_nodes: list[str]
) -> Iterator[dt.datetime]:
    """Delete the CRD, and all NodeMetrics with it, while Mid is published on every fake node; returns when."""
    crd = cluster.get("crd", CRD)
    slo_config.write(cluster_client, slo_config.changed(degradeTimeMinutes=DEGRADE_MINUTES))
    for name in fake_nodes:
        fake_fleet.publish(cluster_client, name)
    since = dt.datetime.now(dt.UTC)
    cluster.run("delete", "crd", CRD)
    yield since
    _create(cluster, crd)
    slo_config.write(cluster_client, slo_config.BASE)


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


def _wait_withdrawn(cluster_client: ClusterClient, names: list[str]) -> None:
    for name in names:
        waiting.until(
            f"no Mid on {name}",
            lambda name=name: cluster_client.mid(name),
            lambda seen: seen is None,
            within_seconds=60 * DEGRADE_MINUTES + 30,
        )
        assert cluster_client.mid_status(name)["reason"] == "NodeMetricMissing"


@pytest.mark.long
def test_mid_is_withdrawn_when_the_last_sample_is_too_old(
    cluster_client: ClusterClient, fake_nodes: list[str], without_crd: dt.datetime
) -> None:
    _wait_withdrawn(cluster_client, fake_nodes)


def test_a_manager_that_starts_without_the_crd_leads_and_withdraws(
    cluster_client: ClusterClient, suite: Suite, fake_nodes: list[str], without_crd: dt.datetime
) -> None:
    name = fake_nodes[0]
    manager_faults.restart(cluster_client, suite)
    sample = (dt.datetime.now(dt.UTC) - dt.timedelta(minutes=DEGRADE_MINUTES)).strftime("%Y-%m-%dT%H:%M:%SZ")
    manager_faults.offer(cluster_client, name, sample)
    _wait_withdrawn(cluster_client, [name])


def test_every_component_continues_after_the_crd_is_created(
    cluster: Cluster, cluster_client: ClusterClient, suite: Suite, node: str, without_crd: dt.datetime
) -> None:
    suite.install()
    back = dt.datetime.now(dt.UTC)
    report = cluster_client.wait_report(node, back, within_seconds=150)
    assert report["spec"]["predictPolicy"]["coldStartPeriodSeconds"] == 0
    waiting.until("Mid on the node", lambda: cluster_client.mid(node))


def test_the_manager_needed_no_restart(cluster_client: ClusterClient, suite: Suite, without_crd: dt.datetime) -> None:
    for pod in suite.pods("koord-manager"):
        status = cluster_client.get("Pod", pod, SUITE_NAMESPACE)["status"]
        assert [each["restartCount"] for each in status["containerStatuses"]] == [0]


@pytest.mark.parametrize("workload", ["koordlet", "koord-scheduler"])
def test_agent_and_scheduler_did_not_restart(
    cluster_client: ClusterClient, suite: Suite, without_crd: dt.datetime, workload: str
) -> None:
    for pod in suite.pods(workload):
        status = cluster_client.get("Pod", pod, SUITE_NAMESPACE)["status"]
        for each in [*status["containerStatuses"], *status.get("initContainerStatuses", ())]:
            started = each["state"].get("running", {}).get("startedAt")
            assert started is None or dt.datetime.fromisoformat(started) < without_crd, each
