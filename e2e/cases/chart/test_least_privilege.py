"""Least privilege: forbidden requests of each token are refused, and succeed without the admission policy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client.exceptions import ApiException

from e2e.support import impersonation, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import RELEASE, Suite
from e2e.support.names import CONFIG_MAP, MID_CPU, MID_MEMORY, STATUS_ANNOTATION, SUITE_NAMESPACE
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem

POLICIES = (
    "config", "koordlet", "manager-nodes", "manager-config", "mid-quantities", "mid-node-names", "mid-advice",
    "mid-class", "mid-limit-ranges", "mid-quota", "mid-schedulers",
)  # fmt: skip
_OPEN_FOR_WRITING = """
import glob, sys
opened, refused = [], set()
files = [f for d in ("/", "/*/", "/*/kubepods/") for f in glob.glob(sys.argv[1] + d + "cgroup.procs")]
for file in files:
    try:
        open(file, "w").close()
        opened.append(file)
    except OSError as error:
        refused.add(error.strerror)
print(len(files), len(opened), sorted(refused))
"""
NOTE = "koordinator.sh/colocation-config-status"
FORBIDDEN = 403
_CGROUPS = "/host/sys/fs/cgroup"


@pytest.fixture(scope="module")
def agent(cluster: Cluster, suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Return the cluster with the rights of the real node's agent."""
    folder = tmp_path_factory.mktemp("agent")
    return impersonation.service_account(cluster, "koordlet", folder, pod=suite.agent_pod())


@pytest.fixture(scope="module")
def manager(cluster: Cluster, suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterClient]:
    """Return the cluster with the rights of the manager. kubectl is not used: it sends other requests for a patch."""
    pod, folder = suite.pods("koord-manager")[0], tmp_path_factory.mktemp("manager")
    cluster_client = ClusterClient(impersonation.service_account(cluster, "koord-manager", folder, pod=pod).kubeconfig)
    yield cluster_client
    cluster_client.close()


def test_the_apiserver_accepts_the_types_in_the_policies(cluster: Cluster, suite: Suite) -> None:
    for name in POLICIES:
        policy = waiting.until(
            f"policy {name} is evaluated",
            lambda name=name: cluster.get("validatingadmissionpolicy", f"koord-suite-{name}"),
            lambda seen: seen.get("status", {}).get("observedGeneration") == seen["metadata"]["generation"],
        )
        assert not policy["status"].get("typeChecking", {}).get("expressionWarnings"), policy["status"]


def _status_of(cluster: Cluster, node: str) -> tuple[list[str], str]:
    """Return a write of a NodeMetric's status that changes nothing: kubectl's arguments, and the body."""
    path = f"/apis/slo.koordinator.sh/v1alpha1/nodemetrics/{node}"
    return ["replace", "--raw", f"{path}/status?dryRun=All", "--filename=-"], cluster.run("get", "--raw", path)


def test_an_agent_writes_the_report_of_its_own_node_and_of_no_other(
    cluster: Cluster, agent: Cluster, node: str, fake_nodes: list[str]
) -> None:
    waiting.until("a NodeMetric of another node", lambda: cluster.get("nodemetric", fake_nodes[0]))

    def write_own() -> bool:  # again where the agent itself wrote between the read and the write
        own, body = _status_of(cluster, node)
        return bool(agent.run(*own, stdin=body))

    waiting.until("the agent's own report is written", write_own, within_seconds=20)
    others, body = _status_of(cluster, fake_nodes[0])
    with pytest.raises(ClusterProblem, match=r"(?s)Forbidden.*only the NodeMetric of its own node"):
        agent.run(*others, stdin=body)
    with impersonation.without_policy(cluster, "koord-suite-koordlet"):
        impersonation.until_allowed("the other's report is written", agent, *others, stdin=body)
    with pytest.raises(ClusterProblem, match="Forbidden"):
        agent.run(*others, stdin=body)


def test_a_token_that_names_no_node_writes_no_report(cluster: Cluster, suite: Suite, node: str, tmp_path: Path) -> None:
    nowhere = impersonation.service_account(cluster, "koordlet", tmp_path)
    words, body = _status_of(cluster, node)
    with pytest.raises(ClusterProblem, match=r"(?s)Forbidden.*its token names no node"):
        nowhere.run(*words, stdin=body)


TRESPASSES = {
    "a label": {"metadata": {"labels": {"example.com/trespass": ""}}},
    "another annotation": {"metadata": {"annotations": {"node.koordinator.sh/reservation": "{}"}}},
    "native CPU": {"status": {"allocatable": {"cpu": "1"}}},
    "native memory of the capacity": {"status": {"capacity": {"memory": None}}},
    "another extended resource": {
        "status": {"capacity": {"example.com/gpu": "8"}, "allocatable": {"example.com/gpu": "8"}}
    },
    "a condition": {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
}


@pytest.mark.parametrize("what", list(TRESPASSES))
def test_the_manager_changes_only_mid_and_its_annotation_on_a_node(
    cluster: Cluster, manager: ClusterClient, node: str, what: str
) -> None:
    def trespass() -> Any:
        return manager.patch_status("Node", node, TRESPASSES[what], dry_run="All")

    with pytest.raises(ApiException, match=r"(?s)Forbidden.*koord-manager (may|must)") as refused:
        trespass()
    assert refused.value.status == FORBIDDEN
    if what in {"a label", "native CPU"}:
        with impersonation.without_policy(cluster, "koord-suite-manager-nodes"):
            waiting.until(f"{what} is written", trespass, within_seconds=20)


def test_the_manager_may_write_mid_and_its_annotation(manager: ClusterClient, node: str) -> None:
    mid = {MID_CPU: "1", MID_MEMORY: "1"}
    patch = {"metadata": {"annotations": {STATUS_ANNOTATION: "{}"}}, "status": {"capacity": mid, "allocatable": mid}}
    manager.patch_status("Node", node, patch, dry_run="All")


def test_the_manager_changes_only_its_annotation_on_the_users_config(
    cluster: Cluster, manager: ClusterClient, cluster_client: ClusterClient
) -> None:
    note = cluster_client.get("ConfigMap", CONFIG_MAP, SUITE_NAMESPACE)["metadata"].get("annotations", {}).get(NOTE)
    manager.patch("ConfigMap", CONFIG_MAP, {"metadata": {"annotations": {NOTE: note}}}, SUITE_NAMESPACE)

    def trespass() -> Any:
        return manager.patch("ConfigMap", CONFIG_MAP, {"data": {"more": "{}"}}, SUITE_NAMESPACE)

    with pytest.raises(ApiException, match=r"(?s)Forbidden.*only metadata of slo-controller-config"):
        trespass()
    with impersonation.without_policy(cluster, "koord-suite-manager-config"):
        waiting.until("the document is written", trespass, within_seconds=20)
    cluster_client.patch("ConfigMap", CONFIG_MAP, {"data": {"more": None}}, SUITE_NAMESPACE)


def _mid_pod(suite: Suite, requests: dict[str, str], limits: dict[str, str]) -> dict[str, Any]:
    of_mid = {"scheduler": workloads.SCHEDULER, "priority_class": "koord-mid"}
    return workloads.pod("mid", suite.workload, requests=requests, limits=limits, **of_mid)


CREATE = ("create", "--dry-run=server", "--filename=-")
RIGHT = {MID_CPU: "500", MID_MEMORY: "64Mi"}
NATIVE, NO_NATIVE = {"cpu": "500m", "memory": "64Mi"}, {"cpu": "0", "memory": "0"}


@pytest.mark.parametrize("wrong", [{MID_CPU: "500m"}, {MID_MEMORY: "0.5"}])
def test_fractions_of_mid_resources_are_refused(
    cluster: Cluster, suite: Suite, namespace: str, wrong: dict[str, str]
) -> None:
    pod, where = json.dumps(_mid_pod(suite, {**RIGHT, **wrong}, {**RIGHT, **wrong})), ("--namespace", namespace)
    with pytest.raises(ClusterProblem, match="500m is not a whole number"):
        cluster.run(*CREATE, *where, stdin=pod)
    with impersonation.without_policy(cluster, "koord-suite-mid-quantities"):
        impersonation.until_allowed("it is created", cluster, *CREATE, *where, stdin=pod)


def test_mid_resources_with_a_scheduler_that_knows_no_quota_are_refused(
    cluster: Cluster, suite: Suite, namespace: str
) -> None:
    made = _mid_pod(suite, {**RIGHT, **NO_NATIVE}, {**RIGHT, **NATIVE})
    made["spec"]["schedulerName"] = "default-scheduler"
    pod, where = json.dumps(made), ("--namespace", namespace)
    with pytest.raises(ClusterProblem, match=r"(?s)pod mid requests.*is default-scheduler.*want koord-scheduler"):
        cluster.run(*CREATE, *where, stdin=pod)
    with impersonation.without_policy(cluster, "koord-suite-mid-schedulers"):
        impersonation.until_allowed("it is created", cluster, *CREATE, *where, stdin=pod)


@pytest.mark.parametrize(
    ("requests", "limits", "text"),
    [
        ({**RIGHT, **NO_NATIVE}, {**RIGHT, **NATIVE}, None),
        (RIGHT, RIGHT, "has no native limit"),
        ({}, {}, 'such as {kubernetes.io/mid-cpu: "500"'),
        ({MID_CPU: "500"}, {MID_CPU: "500"}, "kubernetes.io/mid-memory"),
        (RIGHT, {**RIGHT, MID_CPU: "900"}, "set the limit equal to the request"),
        (RIGHT, {}, "set the limit equal to the request"),
    ],
)
def test_a_mid_pod_with_a_mistake_causes_a_warning_with_the_fix(
    cluster_client: ClusterClient,
    suite: Suite,
    namespace: str,
    requests: dict[str, str],
    limits: dict[str, str],
    text: str | None,
) -> None:
    pod = _mid_pod(suite, requests, limits)
    _, code, headers = cluster_client.core.create_namespaced_pod_with_http_info(namespace, pod, dry_run="All")
    assert code == 201
    warning = headers.get("Warning")
    assert warning is None if text is None else text in warning.replace('\\"', '"')


@pytest.fixture(scope="module")
def restricted(cluster: Cluster) -> Iterator[str]:
    """Create a namespace that enforces Pod Security `restricted`."""
    name = "case-restricted"
    cluster.run("create", "namespace", name)
    cluster.run("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    yield name
    cluster.run("delete", "namespace", name, "--wait=false")


def test_manager_and_scheduler_are_admitted_as_restricted_and_the_agent_is_not(
    cluster: Cluster, suite: Suite, restricted: str
) -> None:
    where = ("--namespace", SUITE_NAMESPACE)
    installed = [*cluster.get("deployments", *where)["items"], *cluster.get("daemonsets", *where)["items"]]
    hooks = yaml.safe_load_all(cluster.run("helm", "get", "hooks", RELEASE, *where))
    templates = {
        each["metadata"]["name"]: each["spec"].get("template", each)["spec"]
        for each in [*installed, *hooks]
        if each["kind"] in ("Deployment", "DaemonSet", "Job", "Pod")
    }
    ends_suppression = {"koord-suite-restore-limits"}  # a hook of this revision after cases of suppression
    assert set(templates) - ends_suppression == {
        "koordlet",
        "koord-manager",
        "koord-scheduler",
        "koord-suite-uninstall",
        "koord-suite-test",
    }
    for name, spec in templates.items():
        stranger = {**spec, "serviceAccountName": "default", "serviceAccount": "default", "restartPolicy": "Always"}
        pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": stranger})
        words = (*CREATE, "--namespace", restricted)
        waiting.until("a service account", lambda: cluster.get("serviceaccount", "default", "--namespace", restricted))
        if name == "koordlet":
            with pytest.raises(ClusterProblem, match='violates PodSecurity "restricted'):
                cluster.run(*words, stdin=pod)
        else:
            cluster.run(*words, stdin=pod)


def test_the_agent_cannot_write_the_cgroups_it_reads(
    cluster: Cluster, suite: Suite, cluster_client: ClusterClient, node: str, namespace: str
) -> None:
    pod = suite.agent_pod()
    program = ("python3", "-c", _OPEN_FOR_WRITING, _CGROUPS)
    seen, opened, _ = cluster.run(
        "exec", pod, "--namespace", SUITE_NAMESPACE, "--container=koordlet", "--", *program
    ).split(maxsplit=2)
    assert int(seen) > 0
    assert int(opened) == 0

    root = workloads.pod("root", suite.workload, *workloads.load(), nodes=[node])
    (container,) = root["spec"]["containers"]
    container["securityContext"] = {"runAsUser": 0}
    container["volumeMounts"] = [{"name": "cgroup", "mountPath": _CGROUPS}]
    root["spec"]["volumes"] = [{"name": "cgroup", "hostPath": {"path": "/sys/fs/cgroup"}}]
    cluster_client.create("Pod", root, namespace)
    cluster_client.wait_running(namespace, "root")
    seen, opened, _ = cluster.run("exec", "root", "--namespace", namespace, "--", *program).split(maxsplit=2)
    assert 0 < int(opened) <= int(seen), "the same program as root finds nothing that can be written either"
