"""A pod that names its node reaches it without a scheduler, so it may not request Mid resources.

The tenant is a service account with the role `edit` in one namespace. The control is the same pod without the policy.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from e2e.support import impersonation, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import MID_CPU, MID_MEMORY
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem

POLICY = "koord-suite-mid-node-names"
HUGE = {MID_CPU: "1000000000", MID_MEMORY: "1"}
REFUSED = r"(?s)names its node.*use spec.nodeSelector or affinity instead"
SMALL = {MID_CPU: "20", MID_MEMORY: "16Mi"}


@pytest.fixture(scope="module")
def tenant(cluster: Cluster, namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Return the cluster with the rights of a service account that has the role `edit` in the namespace."""
    cluster.run("create", "serviceaccount", "tenant", "--namespace", namespace)
    subject = f"--serviceaccount={namespace}:tenant"
    cluster.run("create", "rolebinding", "tenant", "--clusterrole=edit", subject, "--namespace", namespace)
    return impersonation.account_of(cluster, "tenant", namespace, tmp_path_factory.mktemp("tenant"))


def _pod(suite: Suite, node: str | None, requests: dict[str, str]) -> dict[str, Any]:
    made = workloads.pod(
        "greedy",
        suite.workload,
        requests=requests,
        limits=requests,
        scheduler=workloads.SCHEDULER,
        priority_class="koord-mid",
    )
    made["spec"]["tolerations"] = [{"operator": "Exists"}]
    if node is not None:
        made["spec"]["nodeName"] = node
    return made


def _create(cluster: Cluster, namespace: str, body: dict[str, Any]) -> str:
    words = ("create", "--dry-run=server", "--filename=-", "--namespace", namespace)
    return cluster.run(*words, stdin=json.dumps(body))


def test_a_tenant_cannot_name_the_node_of_a_mid_pod(
    cluster: Cluster, suite: Suite, tenant: Cluster, node: str, namespace: str
) -> None:
    pod = _pod(suite, node, HUGE)
    with pytest.raises(ClusterProblem, match=rf"(?s)nodeName: {node}.*system:serviceaccount:{namespace}:tenant"):
        _create(tenant, namespace, pod)
    with impersonation.without_policy(cluster, POLICY):
        waiting.until("it is created", lambda: _create(tenant, namespace, pod), within_seconds=20)


def test_neither_limits_nor_init_containers_are_a_way_around(
    suite: Suite, tenant: Cluster, node: str, namespace: str
) -> None:
    by_limits = _pod(suite, node, {})
    by_limits["spec"]["containers"][0]["resources"] = {"limits": HUGE}
    early = _pod(suite, node, {})
    early["spec"]["initContainers"] = [{**_pod(suite, node, HUGE)["spec"]["containers"][0], "name": "early"}]
    sidecar = copy.deepcopy(early)
    sidecar["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    for pod in (by_limits, early, sidecar):
        with pytest.raises(ClusterProblem, match=REFUSED):
            _create(tenant, namespace, pod)


def test_an_administrator_is_refused_as_well(cluster: Cluster, suite: Suite, node: str, namespace: str) -> None:
    with pytest.raises(ClusterProblem, match=REFUSED):
        _create(cluster, namespace, _pod(suite, node, HUGE))


def test_other_pods_are_not_concerned(suite: Suite, tenant: Cluster, node: str, namespace: str) -> None:
    _create(tenant, namespace, _pod(suite, node, {"cpu": "1m"}))
    _create(tenant, namespace, _pod(suite, None, SMALL))


def test_a_controller_is_no_way_around(
    cluster_client: ClusterClient, tenant: Cluster, suite: Suite, node: str, namespace: str
) -> None:
    """The controller of kube-system creates the pod, with the template of the tenant."""
    template = _pod(suite, node, HUGE)
    template = {"metadata": {"labels": {"app": "greedy"}}, "spec": template["spec"]}
    body = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "greedy"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "greedy"}}, "template": template},
    }
    tenant.run("create", "--filename=-", "--namespace", namespace, stdin=json.dumps(body))
    (event, *_) = waiting.until("an Event", lambda: cluster_client.events_of("greedy", namespace, "FailedCreate"))
    assert "names its node" in event["message"]
    assert not cluster_client.list("Pod", namespace, label_selector="app=greedy")
    tenant.run("delete", "replicaset", "greedy", "--namespace", namespace)


def test_a_tenant_cannot_bind_a_pod_either(
    cluster_client: ClusterClient, suite: Suite, tenant: Cluster, node: str, namespace: str
) -> None:
    waits = _pod(suite, None, HUGE)  # more than any node has
    tenant.run("create", "--filename=-", "--namespace", namespace, stdin=json.dumps(waits))
    name = waits["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    for path in (f"pods/{name}/binding", "bindings"):
        raw = ("create", "--raw", f"/api/v1/namespaces/{namespace}/{path}", "--filename=-")
        with pytest.raises(ClusterProblem, match=r"(?i)forbidden"):
            tenant.run(*raw, stdin=json.dumps(binding))
    with pytest.raises(ClusterProblem):
        tenant.run(
            *("patch", "pod", name, "--namespace", namespace, "--type=merge"),
            "--patch=" + json.dumps({"spec": {"nodeName": node}}),
        )
    assert "nodeName" not in cluster_client.get("Pod", name, namespace)["spec"]
    cluster_client.delete("Pod", name, namespace, grace_seconds=0)


@pytest.fixture(scope="module")
def offered(cluster_client: ClusterClient, suite: Suite, node: str) -> None:
    """Wait until the node has Mid resources."""
    waiting.until("Mid on the node", lambda: cluster_client.mid(node), within_seconds=180)


def _template(suite: Suite, node: str) -> dict[str, Any]:
    made = workloads.mid_pod("mid", suite.workload, cpu_millis=20, memory_mib=16, nodes=[node])
    return {"metadata": {}, "spec": made["spec"]}


@pytest.mark.usefixtures("offered")
def test_a_daemon_set_and_a_job_with_mid_resources_run(
    tenant: Cluster, suite: Suite, node: str, namespace: str
) -> None:
    forever, once = _template(suite, node), _template(suite, node)
    forever["metadata"]["labels"] = {"app": "daemons"}
    once["spec"]["restartPolicy"] = "Never"
    once["spec"]["containers"][0]["command"] = ["true"]
    selector = {"matchLabels": forever["metadata"]["labels"]}
    daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": {"selector": selector, "template": forever}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": once}}
    for each in (daemons, job):
        each["metadata"] = {"name": each["kind"].lower()}
        tenant.run("create", "--filename=-", "--namespace", namespace, stdin=json.dumps(each))
    for kind, done in (("daemonset", "numberReady"), ("job", "succeeded")):
        waiting.until(
            f"a pod of the {kind}",
            lambda kind=kind: tenant.get(kind, kind, "--namespace", namespace)["status"],
            lambda status, done=done: status.get(done) == 1,
        )
        tenant.run("delete", kind, kind, "--namespace", namespace)


def test_a_daemon_set_of_mid_pods_that_leaves_them_to_the_default_scheduler_gets_an_event(
    cluster_client: ClusterClient, tenant: Cluster, suite: Suite, node: str, namespace: str
) -> None:
    """The suite under test has no rules for new Mid pods, which would name koord-scheduler."""
    template = _template(suite, node)
    template["spec"]["schedulerName"] = "default-scheduler"
    template["metadata"]["labels"] = {"app": "stock"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "stock"},
        "spec": {"selector": {"matchLabels": {"app": "stock"}}, "template": template},
    }
    tenant.run("create", "--filename=-", "--namespace", namespace, stdin=json.dumps(body))
    (event, *_) = waiting.until("an Event", lambda: cluster_client.events_of("stock", namespace, "FailedCreate"))
    assert "its spec.schedulerName is default-scheduler" in event["message"]
    assert not cluster_client.list("Pod", namespace, label_selector="app=stock")
    tenant.run("delete", "daemonset", "stock", "--namespace", namespace)
