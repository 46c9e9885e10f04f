"""Writes of the suite in an idle cluster, counted in the apiserver's audit log over some minutes.

The leader renews the Lease every two seconds, as every controller does; this is no write to a node's objects. The
machine under a cluster of one node is never idle: here an early report needs a prediction that has doubled, so that
only the periodic reports remain.
"""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from e2e.support import audit_log, slo_config, waiting
from e2e.support.audit_log import Write
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster import progress
from tools.localcluster.access import Cluster

PREFIX = f"system:serviceaccount:{SUITE_NAMESPACE}:"
SETTLING_SECONDS = 75  # the first reports after a change
IDLE_SECONDS = 190
QUIET = {"enable": True, "nodePredictPolicy": {"resourceDiffThresholdPercent": 100}}
OF_A_NODE = ("nodes/status", "nodemetrics/status", "nodemetrics")
HEARTBEATS = ("nodemetrics/status", "leases")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def idle(cluster: Cluster, suite: Suite, cluster_client: ClusterClient, node: str) -> Iterator[list[Write]]:
    """Return the writes of the suite's service accounts without any change, with the default intervals."""
    if cluster.audit_log is None or not cluster.audit_log.exists():
        pytest.skip(f"provider {cluster.provider} does not show the apiserver's audit log")
    slo_config.write(cluster_client, QUIET)
    waiting.until(
        "the agent follows",
        lambda: cluster_client.node_metric(node),
        lambda seen: seen["status"].get("observedGeneration") == seen["metadata"]["generation"],
        within_seconds=SETTLING_SECONDS,
    )
    time.sleep(SETTLING_SECONDS)
    since = dt.datetime.now(dt.UTC)
    time.sleep(IDLE_SECONDS)
    until = dt.datetime.now(dt.UTC)
    time.sleep(2)  # the log is written after the answer
    seen = audit_log.writes(cluster.audit_log, since, lambda write: write.user.startswith(PREFIX) and write.at < until)
    yield list(seen)
    slo_config.write(cluster_client, slo_config.BASE)


def test_the_writes_are_printed(idle: list[Write]) -> None:
    minutes = IDLE_SECONDS / 60
    rows = Counter((each.user.removeprefix(PREFIX), each.verb, each.target) for each in idle)
    for (account, verb, target), count in sorted(rows.items()):
        progress.report(
            f"{account:16} {verb:7} {target:20} {count:4} in {minutes:.1f} min, {count / minutes:.2f} a minute"
        )
    assert rows


@pytest.mark.parametrize("account", ["koordlet", "koord-manager"])
def test_each_writes_to_the_objects_of_a_node_at_most_once_a_minute(idle: list[Write], account: str) -> None:
    count = Counter(each.name for each in idle if each.user == PREFIX + account and each.target in OF_A_NODE)
    most = IDLE_SECONDS // 60 + 1  # so many marks of a minute may lie in the time
    assert account != "koordlet" or sum(count.values()) >= IDLE_SECONDS // 60 - 1, "the agent reports every minute"
    assert all(of_node <= most for of_node in count.values()), count


def test_no_write_repeats_the_present_value(idle: list[Write]) -> None:
    last: dict[tuple[str, str], object] = {}
    again = []
    for each in idle:
        if each.target in HEARTBEATS:
            continue
        key = each.target, each.name
        if each.body is not None and last.get(key) == each.body:
            again.append(f"{each.user} {each.verb} {each.target} {each.name}")
        last[key] = each.body
    assert not again


def test_each_write_was_allowed(idle: list[Write]) -> None:
    refused = [each for each in idle if each.code not in (200, 201, 409)]
    assert not refused
