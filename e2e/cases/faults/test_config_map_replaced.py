"""The ConfigMap is replaced (deleted and created) many times, between edits: nothing is ever switched off."""

from __future__ import annotations

import datetime as dt
import json
import random
import time
from collections.abc import Iterator

import pytest

from e2e.support import audit_log, fake_fleet, slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import CONFIG_MAP, SUITE_NAMESPACE
from e2e.support.slo_config import KEY
from tools.localcluster.access import Cluster

REPLACEMENTS = 15
LAST_GOOD = "koord-manager-last-good-config"
USER = f"system:serviceaccount:{SUITE_NAMESPACE}:koord-manager"
STATUS_ANNOTATION = "koordinator.sh/colocation-config-status"
ADVISED = {"nodeConfigs": [{"nodeSelector": {}} for _ in range(20)]}  # an Event for each


@pytest.fixture(scope="module")
def replaced(
    cluster: Cluster, cluster_client: ClusterClient, suite: Suite, fake_nodes: list[str]
) -> Iterator[dt.datetime]:
    """Edit and replace the ConfigMap at random moments; return when it began."""
    dice = random.Random(1)
    fake_fleet.publish(cluster_client, fake_nodes[0])
    since = dt.datetime.now(dt.UTC)
    for number in range(REPLACEMENTS):
        slo_config.write(cluster_client, slo_config.changed(midCPUThresholdPercent=99 - number % 9, **ADVISED))
        time.sleep(dice.choice((0.0, 0.02, 0.1, 0.5)))
        document = slo_config.changed(midCPUThresholdPercent=50 + number)
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": SUITE_NAMESPACE},
            "data": {KEY: json.dumps(document)},
        }
        cluster.run("replace", "--force", "--filename=-", stdin=json.dumps(body))
        time.sleep(dice.choice((0.0, 0.05, 0.3)))
    yield since
    suite.install()
    slo_config.write(cluster_client, slo_config.BASE)


def _threshold(cluster_client: ClusterClient, node: str) -> int:
    return cluster_client.node_metric(node)["spec"]["midColocationPolicy"]["midCPUThresholdPercent"]


def test_the_last_one_is_in_force_and_shown_by_its_annotation(
    cluster_client: ClusterClient, fake_nodes: list[str], replaced: dt.datetime
) -> None:
    last = 50 + REPLACEMENTS - 1
    for node in fake_nodes:
        waiting.until(
            "the last threshold", lambda node=node: _threshold(cluster_client, node), lambda seen: seen == last
        )
    annotation = waiting.until(
        "the status annotation",
        lambda: (cluster_client.get("ConfigMap", CONFIG_MAP, SUITE_NAMESPACE)["metadata"].get("annotations") or {}).get(
            STATUS_ANNOTATION
        ),
    )
    assert "colocation is on" in annotation
    kept = cluster_client.get("ConfigMap", LAST_GOOD, SUITE_NAMESPACE)["data"][KEY]
    assert json.loads(kept)["midCPUThresholdPercent"] == last


def test_the_manager_switched_nothing_off(
    cluster: Cluster, cluster_client: ClusterClient, fake_nodes: list[str], replaced: dt.datetime
) -> None:
    if cluster.audit_log is None or not cluster.audit_log.exists():
        pytest.skip(f"provider {cluster.provider} does not show the apiserver's audit log")
    time.sleep(2)  # the log is written after the answer
    seen = list(audit_log.writes(cluster.audit_log, replaced, lambda write: write.user == USER))
    specs = [each for each in seen if each.target == "nodemetrics"]
    assert specs
    for each in seen:
        body = json.dumps(each.body)
        assert '"enable": false' not in body, each
        assert "ColocationDisabled" not in body, each
