"""The clock of one node is set back: samples seem too old, Mid is withdrawn, the clock is named as the cause."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator

import pytest

from e2e.support import several_nodes, waiting, workloads
from e2e.support.cluster_client import ClusterClient, moment
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.access import Cluster
from tools.localcluster.providers.nodes import Nodes

pytestmark = pytest.mark.long
BACK_SECONDS = 150


def _set_clock(machines: Nodes, node: str, seconds_back: float) -> None:
    machines.shell(node, f"date --set=@{time.time() - seconds_back:.2f}")


@pytest.fixture
def node(machines: Nodes, cluster_client: ClusterClient, three: list[str]) -> Iterator[str]:
    """Return a node; set its clock right again at the end."""
    created = moment(cluster_client.node_metric(three[1])["metadata"]["creationTimestamp"])
    old_enough = created + dt.timedelta(seconds=BACK_SECONDS + 60)
    # A sample from before its NodeMetric is that of another node; a certificate from later would not be valid.
    time.sleep(max((old_enough - dt.datetime.now(dt.UTC)).total_seconds(), 0))
    yield three[1]
    _set_clock(machines, three[1], 0)
    several_nodes.until(cluster_client, three[1], "clock set right", lambda seen: seen.ready == "True" and seen.offers)


def test_mid_is_withdrawn_the_clock_is_named_and_the_agent_keeps_what_it_measured(
    machines: Nodes, cluster: Cluster, cluster_client: ClusterClient, suite: Suite, three: list[str], node: str,
    namespace: str,
) -> None:  # fmt: skip
    before = several_nodes.shown("before", cluster_client, [node])[0]
    since = cluster_client.node_metric(node)["status"]["prediction"]["since"]
    set_at = dt.datetime.now(dt.UTC)
    _set_clock(machines, node, BACK_SECONDS)
    assert abs(time.time() - BACK_SECONDS - float(machines.shell(node, "date +%s.%N"))) < 5, "the clock of the node"

    several_nodes.until(
        cluster_client, node, "withdrawn", lambda seen: seen.mid is None and seen.reason == "SampleTooOld"
    )
    events = waiting.until(
        "the Event", lambda: cluster_client.events_of(node, "default", "NodeClockWrong"),
        lambda events: any(moment(event["lastTimestamp"]) >= set_at.replace(microsecond=0) for event in events),
    )  # fmt: skip
    print(f"{node}: {events[-1]['message']}")
    assert "the clock of the node is 1" in events[-1]["message"]
    assert " s slow" in events[-1]["message"]
    assert " s slow" in (cluster_client.mid_status(node) or {}).get("detail", "")

    pod = workloads.mid_pod("elsewhere", suite.workload, cpu_millis=30, memory_mib=32, nodes=[node, three[2]])
    cluster_client.create("Pod", pod, namespace)
    cluster_client.wait_running(namespace, "elsewhere")
    assert cluster_client.get("Pod", "elsewhere", namespace)["spec"]["nodeName"] == three[2]

    first = several_nodes.read(cluster_client, node).sampled
    later = several_nodes.until(cluster_client, node, "the next report", lambda seen: seen.sampled != first)
    assert BACK_SECONDS - 5 <= later.age_seconds <= BACK_SECONDS + several_nodes.FRESH_SECONDS
    log = cluster.run("logs", suite.agent_pod(node), "--namespace", SUITE_NAMESPACE, "--container=koordlet")
    assert f"the clock was set by -{BACK_SECONDS // 10}" in log, "samples keep their ages"
    assert cluster_client.node_metric(node)["status"]["prediction"]["since"] <= since
    assert several_nodes.shown("meanwhile", cluster_client, [three[2]])[0].mid == before.mid
