"""The leading manager is deleted without grace while a report arrives: the one that stood by writes the right value."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from e2e.support import fake_reports, mid_formula, waiting
from e2e.support.cluster_client import SUITE_NAMESPACE, ClusterClient, moment
from e2e.support.installation import Suite
from tools.localcluster.access import Cluster

LEASE = "koord-manager"
LEASE_SECONDS = 15
TAKE_OVER_SECONDS = LEASE_SECONDS + 5

pytestmark = pytest.mark.timeout(300)


def _holder(eyes: ClusterClient) -> str:
    """The pod that leads."""
    return (eyes.get("Lease", LEASE, SUITE_NAMESPACE)["spec"].get("holderIdentity") or "").rpartition("_")[0]


@pytest.fixture
def no_newcomer(cluster: Cluster, suite: Suite) -> Iterator[None]:
    """Keep the Deployment's next pod waiting: it looks at the Lease as it starts, maybe before the standby does."""
    cluster.run("cordon", *cluster.real_nodes())
    yield
    cluster.run("uncordon", *cluster.real_nodes())


@pytest.mark.usefixtures("no_newcomer")
def test_the_standby_publishes_what_the_newest_report_gives_within_lease_and_five_seconds(
    suite: Suite, eyes: ClusterClient, fake_nodes: list[str]
) -> None:
    node = fake_nodes[0]
    before = fake_reports.publish(eyes, node)
    pods = waiting.until("two managers", lambda: suite.pods("koord-manager"), lambda seen: len(seen) == 2)
    leader = _holder(eyes)
    (standby,) = set(pods) - {leader}
    time.sleep(1.1)  # the time of a sample is in whole seconds
    eyes.delete("Pod", leader, SUITE_NAMESPACE, grace_seconds=0)
    began = time.monotonic()
    changed = fake_reports.status(cpu_millis=2000, memory_mib=4096, prod_cpu_millis=6000, prod_memory_mib=24 * 1024)
    fake_reports.report(eyes, node, changed)
    waiting.until(
        "the one that stood by leads",
        lambda: _holder(eyes) == standby,
        within_seconds=TAKE_OVER_SECONDS,
        every_seconds=0.1,
    )  # the deleted one may have seen the report too: the kubelet ends it a tenth of a second later
    after = mid_formula.wait_published(eyes, node, within_seconds=TAKE_OVER_SECONDS).offered
    took = time.monotonic() - began
    assert after != before
    spec = eyes.get("Lease", LEASE, SUITE_NAMESPACE)["spec"]
    assert moment(spec["acquireTime"]) > moment(changed["updateTime"])
    assert took < TAKE_OVER_SECONDS
