"""`helm upgrade` keeps the users' edits, the prediction history and the Mid resources, though it replaces every pod."""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient, moment
from e2e.support.installation import CHART, RELEASE, Suite
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem

SHARE = 37
EDIT = slo_config.changed(midCPUThresholdPercent=SHARE)
ON_DISK = '--set-json=koordlet.extraArgs=["--enable-debug-pages"]'
CHECKED = (
    *("KubernetesVersion", "CustomResourceDefinition", "NodeMetricFieldsDropped", "AgentsReady", "ManagerReady"),
    *(
        "Leader",
        "VersionSkew",
        "PriorityClasses",
        "ColocationConfigApplied",
        "Reports",
        "SchedulerReady",
        "MidPodsWait",
    ),
)
HELM_TEST = ("helm", "test", RELEASE, "--namespace", SUITE_NAMESPACE, "--logs")
ROLLED = [f"--set={part}.podAnnotations.example\\.com/rolled={{}}" for part in ("koordlet", "manager", "scheduler")]


@pytest.fixture(scope="module", autouse=True)
def put_back(cluster_client: ClusterClient, suite: Suite) -> Iterator[None]:
    yield
    suite.install()
    slo_config.write(cluster_client, slo_config.BASE)


def _rolled(mark: str) -> list[str]:
    return [flag.format(mark) for flag in ROLLED]


class Offers:
    """The Mid resources of a node, read several times a second until it is closed."""

    def __init__(self, cluster_client: ClusterClient, node: str) -> None:
        self.seen: list[dict[str, Any]] = []
        self._closed = threading.Event()
        self._cluster_client, self._node = cluster_client, node
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._closed.is_set():
            self.seen.append(self._cluster_client.get("Node", self._node)["status"]["allocatable"])
            time.sleep(0.3)

    def close(self) -> list[dict[str, Any]]:
        self._closed.set()
        self._thread.join()
        return self.seen


def _prediction(cluster_client: ClusterClient, node: str, after: dt.datetime) -> dict[str, Any]:
    """Return the first report with a prediction whose sample is not older than `after`."""
    return waiting.until(
        f"a prediction for a sample of {after:%H:%M:%S} or later",
        lambda: cluster_client.node_metric(node),
        lambda seen: moment(seen["status"]["updateTime"]) >= after and "prediction" in seen["status"],
        within_seconds=150,
    )


def _history_began(report: dict[str, Any]) -> str:
    return report["status"]["prediction"]["since"]


def test_with_on_upgrade_overwrite_the_document_of_the_chart_replaces_the_edit(
    cluster_client: ClusterClient, suite: Suite
) -> None:
    """Show as a control that without the live data an upgrade removes the users' edits. First: it replaces no pod."""
    slo_config.write(cluster_client, EDIT)
    suite.install("--set=sloControllerConfig.onUpgrade=overwrite")
    document = json.loads(slo_config.read(cluster_client))
    assert "midCPUThresholdPercent" not in document
    assert document["nodePredictPolicy"] == slo_config.BASE["nodePredictPolicy"]


def test_an_upgrade_that_replaces_every_pod_keeps_edits_predictions_and_mid(
    cluster: Cluster, cluster_client: ClusterClient, suite: Suite, node: str
) -> None:
    suite.install(ON_DISK)
    slo_config.write(cluster_client, EDIT)
    before = _prediction(cluster_client, node, dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5))
    assert before["spec"]["midColocationPolicy"]["midCPUThresholdPercent"] == SHARE
    waiting.until("Mid on the node", lambda: cluster_client.mid(node))
    time.sleep(35)  # of the 30 s between two trainings, each of which is kept
    offers, pods = Offers(cluster_client, node), {name: suite.pods(name) for name in ("koordlet", "koord-manager")}
    suite.install(ON_DISK, *_rolled("once"))
    after = _prediction(cluster_client, node, dt.datetime.now(dt.UTC))
    seen = offers.close()

    assert json.loads(slo_config.read(cluster_client)) == EDIT
    assert all(set(suite.pods(name)).isdisjoint(old) for name, old in pods.items()), "the upgrade replaced no pods"
    assert _history_began(after) == _history_began(before)
    assert after["spec"]["midColocationPolicy"]["midCPUThresholdPercent"] == SHARE
    assert seen
    assert all("kubernetes.io/mid-cpu" in offer and "kubernetes.io/mid-memory" in offer for offer in seen)


@pytest.mark.long
def test_a_rollback_to_the_version_before_keeps_mid_and_the_running_mid_pod(
    cluster_client: ClusterClient, suite: Suite, node: str, namespace: str
) -> None:
    slo_config.write(cluster_client, EDIT)
    suite.install(*_rolled("before"))
    before = suite.revision()
    assert before is not None
    waiting.until("Mid on the node", lambda: cluster_client.mid(node))
    cluster_client.create("Pod", workloads.mid_pod("steady", suite.workload, cpu_millis=20, memory_mib=16), namespace)
    cluster_client.wait_running(namespace, "steady")
    started = cluster_client.get("Pod", "steady", namespace)
    slo_config.write(cluster_client, slo_config.changed(midCPUThresholdPercent=SHARE + 1))
    suite.install(*_rolled("after"))

    offers, pods = Offers(cluster_client, node), suite.pods("koord-manager")
    suite.roll_back(before)
    _prediction(cluster_client, node, dt.datetime.now(dt.UTC))
    seen = offers.close()

    assert set(suite.pods("koord-manager")).isdisjoint(pods), "the rollback replaced no pods"
    assert json.loads(slo_config.read(cluster_client)) == EDIT, "the document of the revision before"
    assert seen
    assert all("kubernetes.io/mid-cpu" in offer for offer in seen)
    still = cluster_client.get("Pod", "steady", namespace)
    assert still["metadata"]["uid"] == started["metadata"]["uid"]
    assert [each["restartCount"] for each in still["status"]["containerStatuses"]] == [0]
    assert still["status"]["phase"] == "Running"


def _notes(cluster: Cluster, suite: Suite) -> str:
    """Return the notes of an upgrade that changes nothing."""
    return cluster.run(
        *("helm", "upgrade", RELEASE, str(CHART), "--namespace", SUITE_NAMESPACE, "--dry-run=server", "--values=-"),
        stdin=json.dumps(suite.values()),
    ).partition("\nNOTES:\n")[2]


def test_the_notes_show_the_configuration_in_force_after_a_broken_edit(
    cluster: Cluster, cluster_client: ClusterClient, suite: Suite
) -> None:
    on = json.dumps(EDIT).replace('"enable"', '"ENABLE"')
    for document, is_on, is_rejected in (
        (on, True, False),
        ("{broken", True, True),
        ('{"enable": "false"}', True, True),
        ('{"enable": false}', False, False),
        ("{broken", False, True),
    ):
        slo_config.write(cluster_client, document)
        waiting.until(
            f"the notes after {document}",
            lambda: _notes(cluster, suite),
            lambda notes, is_on=is_on, is_rejected=is_rejected: (
                (f"Colocation is {'ON' if is_on else 'OFF'}" in notes)
                and (("has not accepted the document" in notes) is is_rejected)
            ),
        )


@pytest.mark.long
def test_helm_test_fails_while_the_configuration_is_rejected(cluster: Cluster, cluster_client: ClusterClient) -> None:
    slo_config.write(cluster_client, "{broken")
    with pytest.raises(ClusterProblem):
        cluster.run(*HELM_TEST, timeout_seconds=330)
    log = cluster.run("logs", f"{RELEASE}-test", "--namespace", SUITE_NAMESPACE)
    assert "ColocationConfigRejected" in log, log


@pytest.mark.usefixtures("suite")
def test_helm_test_reports_each_part_as_working(cluster: Cluster, cluster_client: ClusterClient) -> None:
    slo_config.write(cluster_client, slo_config.BASE)
    output = cluster.run(*HELM_TEST, timeout_seconds=330)
    passed = {words[3] for words in map(str.split, output.splitlines()) if words[1:3] == ["\u2714", "passed"]}
    assert passed >= set(CHECKED), output
    assert "failed" not in output, output
