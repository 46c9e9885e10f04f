"""The leading manager is deleted without grace while a report arrives: the standby writes the right value."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from e2e.support import fake_fleet, manager_faults, mid_formula, waiting
from e2e.support.cluster_client import ClusterClient, moment
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.access import Cluster

LEASE_SECONDS = 15
TAKE_OVER_SECONDS = LEASE_SECONDS + 5

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def no_newcomer(cluster: Cluster, suite: Suite) -> Iterator[None]:
    """Keep the Deployment's next pod Pending: it reads the Lease at its start, maybe before the standby does."""
    cluster.run("cordon", *cluster.real_nodes())
    yield
    cluster.run("uncordon", *cluster.real_nodes())


@pytest.mark.usefixtures("no_newcomer")
def test_the_standby_publishes_what_the_newest_report_gives_within_lease_and_five_seconds(
    suite: Suite, cluster_client: ClusterClient, fake_nodes: list[str]
) -> None:
    node = fake_nodes[0]
    before = fake_fleet.publish(cluster_client, node)
    pods = waiting.until("two managers", lambda: suite.pods(manager_faults.MANAGER), lambda seen: len(seen) == 2)
    leader = manager_faults.leading_pod(cluster_client)
    (standby,) = set(pods) - {leader}
    time.sleep(1.1)  # the time of a sample is in whole seconds
    cluster_client.delete("Pod", leader, SUITE_NAMESPACE, grace_seconds=0)
    began = time.monotonic()
    changed = fake_fleet.prod_status(cpu_millis=2000, memory_mib=4096, prod_cpu_millis=6000, prod_memory_mib=24 * 1024)
    fake_fleet.report(cluster_client, node, changed)
    waiting.until(
        "the standby leads",
        lambda: manager_faults.leading_pod(cluster_client) == standby,
        within_seconds=TAKE_OVER_SECONDS,
        every_seconds=0.1,
    )  # the deleted one may have seen the report too: the kubelet ends it a tenth of a second later
    after = mid_formula.wait_published(cluster_client, node, within_seconds=TAKE_OVER_SECONDS).offered
    took = time.monotonic() - began
    assert after != before
    spec = cluster_client.get("Lease", manager_faults.MANAGER, SUITE_NAMESPACE)["spec"]
    assert moment(spec["acquireTime"]) > moment(changed["updateTime"])
    assert took < TAKE_OVER_SECONDS
