"""Real decisions, explained and simulated: why a pod is here, why it waits, the effect of another configuration.

Every node can allocate 15.5 cores, of which the table shows the used part; the pod requests 100m. It counts as 0.085
cores for LoadAwareScheduling, by CPU alone, and as 0.15 for TargetLoadPacking, with a target of 40 %.

| node         | used   | LoadAwareScheduling                     | TargetLoadPacking                    | sum  |
|--------------|--------|-----------------------------------------|--------------------------------------|------|
| packed       | 4.65   | 69 % are free with the pod              | 31 % are used: 60 * 31 / 40 + 40: 86 | 155  |
| idle         | 0.775  | 94 %                                    | 6 %: 60 * 6 / 40 + 40: 49            | 143  |
| hot, hottest | 12.4.. | more than 65 % are used: no score       |                                      |      |
"""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import command_lines, fake_fleet, host_scheduler, workloads
from e2e.support.cluster_client import ClusterClient, moment
from e2e.support.command_lines import Output
from e2e.support.host_scheduler import HostScheduler
from e2e.support.scheduling import SchedulingHelper
from tools.localcluster.access import Cluster

IDLE, PACKED, HOT, HOTTEST = "idle", "packed", "hot", "hottest"
LOADS_PERCENT = {IDLE: 5, PACKED: 30, HOT: 80, HOTTEST: 95}
USED_MILLIS = {IDLE: 775, PACKED: 4650, HOT: 12400, HOTTEST: 14725}
LIMIT_PERCENT = 65  # of the chart
LOAD_AWARE, PACKING = "LoadAwareScheduling", "TargetLoadPacking"
SCORES = {PACKED: {LOAD_AWARE: 69, PACKING: 86}, IDLE: {LOAD_AWARE: 94, PACKING: 49}}
TOO_HOT = "node(s) cpu usage exceed threshold"
NOT_FOUND = 404
POLICIES = {
    "plugins": {
        "filter": {"enabled": [{"name": LOAD_AWARE}]},
        "score": {"enabled": [{"name": LOAD_AWARE, "weight": 1}, {"name": PACKING, "weight": 1}]},
    },
    "pluginArgs": {LOAD_AWARE: {"resourceWeights": {"cpu": 1}}, PACKING: {"targetUtilization": 40}},
}


@pytest.fixture(scope="module")
def nodes(cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[dict[str, str]]:
    with fake_fleet.registered(cluster_client, [f"why-{kind}" for kind in LOADS_PERCENT]) as names:
        for name, cpu_percent in zip(names, LOADS_PERCENT.values(), strict=True):
            fake_fleet.report(cluster_client, name, fake_fleet.load_status(cpu_percent=cpu_percent))
        yield dict(zip(LOADS_PERCENT, names, strict=True))


@pytest.fixture(scope="module")
def scheduler(cluster: Cluster, nodes: dict[str, str]) -> Iterator[HostScheduler]:
    with host_scheduler.running(cluster, {"explained": POLICIES}) as started:
        yield started["explained"]


@pytest.fixture(scope="module")
def placed(scheduling: SchedulingHelper, nodes: dict[str, str], scheduler: HostScheduler) -> str:
    """Return NAMESPACE/NAME of a pod that may run on every node."""
    name = scheduling.submit("placed", scheduler.name, [nodes[kind] for kind in (IDLE, PACKED, HOT)])
    assert scheduling.bound([name]) == [nodes[PACKED]]
    return f"{scheduling.namespace}/{name}"


@pytest.fixture(scope="module")
def waiting_pod(scheduling: SchedulingHelper, nodes: dict[str, str], scheduler: HostScheduler) -> str:
    """Return NAMESPACE/NAME of a pod whose nodes are all too hot."""
    name = "too-hot"
    refusal = scheduling.decide(name, scheduler.name, [nodes[HOT], nodes[HOTTEST]]).refusal
    assert f"2 {TOO_HOT}" in (refusal or "")
    return f"{scheduling.namespace}/{name}"


def _newest(scheduler: HostScheduler, pod: str) -> dict[str, Any]:
    """Return the last decision on the pod's page, with its nodes by name: all nodes of the cluster."""
    decision = json.loads(scheduler.plugin_page(f"/debug/pods/{pod}"))["decisions"][0]
    return {**decision, "nodes": {node["node"]: node for node in decision["nodes"]}}


def _explained(cluster: Cluster, pod: str) -> Output:
    return command_lines.run("koordctl", "explain", "pod", pod, f"--kubeconfig={cluster.kubeconfig}")


def test_the_page_of_a_placed_pod_has_scores_rejections_inputs_and_ages(
    cluster_client: ClusterClient, nodes: dict[str, str], scheduler: HostScheduler, placed: str
) -> None:
    decision = _newest(scheduler, placed)
    explained = {nodes[kind]: decision["nodes"][nodes[kind]] for kind in (IDLE, PACKED, HOT)}
    assert (decision["node"], decision["nodesAsked"]) == (nodes[PACKED], len(cluster_client.list("Node")))
    assert {name: (node["result"], node["scores"], node["score"]) for name, node in explained.items()} == {
        nodes[PACKED]: ("chosen", SCORES[PACKED], 155),
        nodes[IDLE]: ("passed", SCORES[IDLE], 143),
        nodes[HOT]: ("rejected", {}, None),
    }
    assert (explained[nodes[HOT]]["plugin"], explained[nodes[HOT]]["reason"]) == (LOAD_AWARE, TOO_HOT)
    for kind in (IDLE, PACKED, HOT):
        node = explained[nodes[kind]]
        inputs = node["inputs"][LOAD_AWARE]
        assert (inputs["usage"]["cpu"], inputs["limitPercent"]["cpu"]) == (USED_MILLIS[kind], LIMIT_PERCENT)
        reported_at = moment(cluster_client.node_metric(nodes[kind])["status"]["updateTime"]).timestamp()
        assert decision["at"] - node["reportAgeSeconds"] == pytest.approx(reported_at, abs=0.001)


def test_the_record_explains_a_placed_pod_in_words(
    nodes: dict[str, str], scheduler: HostScheduler, placed: str
) -> None:
    decision = _newest(scheduler, placed)
    assert decision["outcome"] == f"kube-scheduler bound the pod to {nodes[PACKED]}"
    packed, idle, hot = (decision["nodes"][nodes[kind]]["sentence"] for kind in (PACKED, IDLE, HOT))
    assert packed.startswith("chosen, score 155")
    assert f"{LOAD_AWARE} 69, {PACKING} 86" in packed
    assert idle.startswith("passed, score 143 (")
    assert "), 12 less than the chosen node" in idle
    assert hot.startswith(f"rejected by {LOAD_AWARE}: {TOO_HOT}")
    assert "cpu 12.4 + 0.085 of 15.5 = 81 %, limit 65 %" in hot


def test_for_a_waiting_pod_the_record_shows_that_every_node_is_too_hot(
    cluster_client: ClusterClient, nodes: dict[str, str], scheduler: HostScheduler, waiting_pod: str
) -> None:
    decision = _newest(scheduler, waiting_pod)
    explained = [decision["nodes"][nodes[kind]] for kind in (HOT, HOTTEST)]
    assert decision["node"] is None
    assert [(node["result"], node["plugin"], node["reason"]) for node in explained] == [
        ("rejected", LOAD_AWARE, TOO_HOT)
    ] * 2
    assert decision["outcome"].startswith("not bound (yet)"), "other nodes pass, which the pod does not permit"
    sentences = [decision["nodes"][nodes[kind]]["sentence"] for kind in (HOT, HOTTEST)]
    assert "cpu 12.4 + 0.085 of 15.5 = 81 %, limit 65 %" in sentences[0]
    assert "cpu 14.725 + 0.085 of 15.5 = 96 %, limit 65 %" in sentences[1]
    namespace, _, name = waiting_pod.partition("/")
    assert cluster_client.pod_phase(name, namespace) == "Pending"


def test_koordctl_prints_the_record_of_the_installed_plugin(
    cluster: Cluster, scheduling: SchedulingHelper, nodes: dict[str, str]
) -> None:
    name = scheduling.submit("by-the-installed-one", workloads.SCHEDULER, [nodes[IDLE], nodes[HOT]])
    assert scheduling.bound([name]) == [nodes[IDLE]]
    output = _explained(cluster, f"{scheduling.namespace}/{name}")
    assert output.code == 0, output.text
    assert output.line_with("last decision", f"kube-scheduler bound the pod to {nodes[IDLE]}")
    assert output.line_with(f"{nodes[HOT]} ", f"rejected by {LOAD_AWARE}: {TOO_HOT}", "limit 65 %")


@pytest.mark.parametrize("is_there", [True, False])
def test_a_pod_without_a_decision_gets_a_clear_answer(
    cluster: Cluster, scheduling: SchedulingHelper, nodes: dict[str, str], scheduler: HostScheduler, is_there: bool
) -> None:
    pod = f"{scheduling.namespace}/unknown"
    if is_there:
        pod = f"{scheduling.namespace}/{scheduling.submit('of-another', 'default-scheduler', [nodes[HOT]])}"
        scheduling.bound(["of-another"])
    with pytest.raises(urllib.error.HTTPError) as refused:
        scheduler.plugin_page(f"/debug/pods/{pod}")
    with refused.value as answer:
        assert (answer.code, pod in answer.read().decode()) == (NOT_FOUND, True)
    output = _explained(cluster, pod)
    assert output.code == (0 if is_there else 1)
    assert output.line_with(*(("no decision record",) if is_there else ("404 NotFound", "unknown")))


def test_two_configurations_are_compared_on_the_recorded_cluster(
    cluster: Cluster, cluster_client: ClusterClient, nodes: dict[str, str], scheduler: HostScheduler, waiting_pod: str
) -> None:
    simulate = (
        *("koordctl", "simulate", "--live", f"--kubeconfig={cluster.kubeconfig}", "--hours=0.1"),
        *("--config=stock", f"--config={scheduler.policy_file}"),
    )
    output = command_lines.run(*simulate)
    assert output.code == 0, output.text
    assert output.line_with(" stock ", scheduler.policy_file.name)

    def row(title: str) -> list[int]:
        return [int(cell) for cell in output.line_with(f"{title} ").split()[-2:]]

    assert min(row("pods placed")) >= 1
    refused_by_stock, refused_by_suite = row(TOO_HOT)
    assert refused_by_stock == 0
    assert refused_by_suite >= 2, "the hot nodes, for the pod that waits"

    explained = command_lines.run(*simulate, "--output=json").text
    by_suite = json.loads(explained[explained.index("\n{") :])[str(scheduler.policy_file)]
    assert by_suite["placements"][waiting_pod]["node"] not in {nodes[HOT], nodes[HOTTEST]}
    namespace, _, name = waiting_pod.partition("/")
    assert "nodeName" not in cluster_client.get("Pod", name, namespace)["spec"], "nothing was written"
