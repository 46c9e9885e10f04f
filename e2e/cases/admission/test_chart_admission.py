"""What the chart renders for Mid pods, on lone API servers: limits by the policy, and warnings for what remains.

`helm install --dry-run=server` asks the API server what it serves, as an installation does.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from e2e.support import admission_agreement as agreement
from e2e.support import chart_rendering, waiting
from e2e.support import mid_pod_examples as examples
from e2e.support.admission_agreement import PolicyApi
from e2e.support.installation import CHART, RELEASE
from e2e.support.mid_pod_examples import MID, MID_CPU, PLAIN, container
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster import apiserver_requests
from tools.localcluster.apiserver_requests import Connection
from tools.localcluster.standalone_control_plane import ControlPlane

WITH_MINIMUM, WITH_DEFAULTS, WITH_QUOTA = "with-minimum", "with-defaults", "with-quota"
TEMPLATES = ("mid-pods-limits-policy", "mid-pods-admission-policies")
LIMITED = {"requests": {"cpu": "0", "memory": "0", **MID}, "limits": {**PLAIN, **MID}}
OBJECTS = {
    WITH_MINIMUM: ("LimitRange", {"limits": [{"type": "Container", "min": {"cpu": "10m"}}]}),
    WITH_DEFAULTS: ("LimitRange", {"limits": [{"type": "Container", "default": {"cpu": "200m", "memory": "64Mi"}}]}),
    WITH_QUOTA: ("ResourceQuota", {"hard": {"limits.cpu": "300m", "requests.cpu": "10m"}}),
}
MID_POD = {"priorityClassName": "koord-mid"}

Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]


def _kubectl(plane: ControlPlane) -> Kubectl:
    def run(*words: str, namespace: str = "default", stdin: Any = ()) -> subprocess.CompletedProcess[str]:
        command = [plane.binaries / "kubectl", f"--kubeconfig={plane.kubeconfig}", f"--namespace={namespace}", *words]
        text = yaml.safe_dump_all(stdin)
        command.append("--filename=-")
        return subprocess.run([*map(str, command)], input=text, capture_output=True, text=True, check=False)

    return run


class Server(NamedTuple):
    mode: str
    """Chosen as admission.mode."""
    policy: PolicyApi
    plane: ControlPlane
    api: Connection


@pytest.fixture(scope="module", params=[*agreement.policy_apis("none")[:1], *agreement.policy_apis("policy")])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    mode, served = request.param
    with agreement.running(OBJECTS, **served.flags) as (plane, api):
        yield Server(mode, served, plane, api)


@pytest.fixture(scope="module")
def mode(server: Server) -> str:
    return server.mode


@pytest.fixture(scope="module")
def kubectl(server: Server) -> Kubectl:
    """Install what the chart renders, and return kubectl."""
    mode, served, plane, api = server
    run = _kubectl(plane)
    for namespace, (kind, spec) in OBJECTS.items():
        made = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "own"}, "spec": spec}
        assert run("create", namespace=namespace, stdin=[made]).returncode == 0
    quota = OBJECTS[WITH_QUOTA][1]["hard"]
    status = {"status": {"hard": quota, "used": dict.fromkeys(quota, "0")}}  # no controller manager writes it
    path = f"/api/v1/namespaces/{WITH_QUOTA}/resourcequotas/own/status"
    api.send("PATCH", path, status, content=apiserver_requests.MERGE_PATCH)
    values = {
        "admission": {"mode": mode, "policyVersion": served.version},
        "admissionPolicies": {"midSchedulers": ["*"]},  # test_mid_schedulers.py
    }
    templates = TEMPLATES if mode == "policy" else TEMPLATES[1:]
    done = run("apply", stdin=chart_rendering.rendered(plane.binaries, values, *templates))
    assert done.returncode == 0, done.stderr
    late = examples.pod(container("work", {MID_CPU: "0.5"}, {MID_CPU: "0.5"}), **MID_POD)
    for namespace, expected in (("default", "not a whole number"), (WITH_MINIMUM, "LimitRange own has a minimum")):
        sample = late if namespace == "default" else _deployment(examples.pod(**MID_POD))
        waiting.until(
            "the policies are in force",
            lambda sample=sample, namespace=namespace: _tried(run, sample, namespace),
            lambda text, expected=expected: expected in text,
            within_seconds=30,
        )
    return run


def _tried(kubectl: Kubectl, made: dict[str, Any], namespace: str = "default") -> str:
    """Return the warnings or the error of a dry run."""
    return kubectl("create", "--dry-run=server", namespace=namespace, stdin=[made]).stderr


def _deployment(pod: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": "a"}
    template = {"metadata": {"labels": {**pod["metadata"]["labels"], **labels}}, "spec": pod["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}


def _job(pod: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": {"restartPolicy": "Never", **pod["spec"]}}
    spec = {"template": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec}


def _cron_job(job: dict[str, Any]) -> dict[str, Any]:
    spec = {"schedule": "0 * * * *", "jobTemplate": {"spec": job["spec"]}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"}, "spec": spec}


def _limited(cpu: int = 500, memory: int = 64 << 20) -> dict[str, Any]:
    """Return a Mid pod with every limit."""
    mid = {MID_CPU: str(cpu), "kubernetes.io/mid-memory": str(memory)}
    native = {"cpu": f"{cpu}m", "memory": str(memory)}
    return examples.pod(container("c", {"cpu": "0", "memory": "0", **mid}, {**native, **mid}), **MID_POD)


def _resources(kubectl: Kubectl, pod: dict[str, Any], namespace: str = "default") -> tuple[Any, str]:
    done = kubectl("create", "--dry-run=server", "--output=yaml", namespace=namespace, stdin=[pod])
    assert done.returncode == 0, done.stderr
    made = yaml.safe_load(done.stdout)
    return made["spec"]["containers"][0]["resources"], made["spec"]["schedulerName"]


def test_the_policy_limits_mid_pods_and_names_their_scheduler(kubectl: Kubectl, mode: str) -> None:
    expected = (LIMITED, "koord-scheduler") if mode == "policy" else ({"requests": PLAIN, "limits": PLAIN}, None)
    found = _resources(kubectl, examples.pod(**MID_POD))
    assert found == (expected[0], expected[1] or "default-scheduler")
    prod = _resources(kubectl, examples.pod(priorityClassName="koord-prod"))
    assert prod == ({"requests": PLAIN, "limits": PLAIN}, "default-scheduler")


@pytest.mark.parametrize(
    ("pod", "by_mode"),
    [
        (examples.pod(container("c", LIMITED["requests"], LIMITED["limits"]), **MID_POD), {}),
        (examples.pod(container("c", MID, MID), **MID_POD), {"none": "has no native limit"}),
        (examples.pod(**MID_POD), {"none": "does not request both"}),
        (examples.pod(container("c"), **MID_POD), {"none": "does not request both", "policy": "does not request both"}),
        (
            examples.pod(container("c", MID, {**MID, MID_CPU: "900"}), **MID_POD),
            {"none": "differs from its request", "policy": "differs from its request"},
        ),
        (examples.pod(container("c", MID), **MID_POD), {"none": "has no limit of kubernetes.io/mid-cpu"}),
        (
            examples.pod(container("c", MID, MID), resources={"limits": PLAIN}, **MID_POD),
            {"none": "resources of the pod as a whole", "policy": "resources of the pod as a whole"},
        ),
        (examples.pod(priorityClassName="koord-prod", resources={"limits": PLAIN}), {}),
        (_limited(cpu=9), {"none": "mid-cpu below 10", "policy": "mid-cpu below 10"}),
        (_limited(cpu=10), {}),
        (_limited(memory=(4 << 20) - 1), {"none": "mid-memory below 4 MiB", "policy": "mid-memory below 4 MiB"}),
        (_limited(memory=4 << 20), {}),
    ],
)
def test_a_warning_names_what_keeps_a_mid_pod_from_its_limits(
    kubectl: Kubectl, mode: str, pod: dict[str, Any], by_mode: dict[str, str]
) -> None:
    for made in (pod, _deployment(pod)):
        warnings = _tried(kubectl, made)
        assert by_mode[mode] in warnings if mode in by_mode else warnings == "", made["kind"]


NO_CLASS = "is not of the Mid class"


@pytest.mark.parametrize(
    "pod",
    [
        examples.pod(container("c", MID, MID)),
        examples.pod(container("c", None, {MID_CPU: "1"})),
        examples.pod(initContainers=[container("early", MID, MID)]),
        examples.pod(container("c", MID, MID), priorityClassName="koord-prod"),
        examples.pod(container("c", MID, MID), priorityClassName="koord-prod", labels={examples.LABEL: "koord-mid"}),
        examples.pod(container("c", MID, MID), priorityClassName="koord-free"),
        examples.pod(container("c", MID, MID), labels={examples.LABEL: "koord-prod"}),
        examples.pod(container("c", MID, MID), labels={examples.LABEL: "koord-batch"}),
    ],
)
def test_a_pod_with_mid_resources_of_another_class_is_refused_and_its_template_is_warned_of(
    kubectl: Kubectl, pod: dict[str, Any]
) -> None:
    refused = _tried(kubectl, pod)
    assert "denied request" in refused
    assert NO_CLASS in refused
    for made in (_deployment(pod), _job(pod), _cron_job(_job(pod))):
        warned = _tried(kubectl, made)
        assert NO_CLASS in warned, made["kind"]
        assert "denied" not in warned


def test_a_namespace_that_opts_in_has_mid_pods_without_a_warning(kubectl: Kubectl, mode: str, server: Server) -> None:
    labels = {"koordinator.sh/mid": "enabled"}
    server.api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "opted", "labels": labels}})
    pod = examples.pod(container("c", MID, MID))
    refused, warned = (_tried(kubectl, made, "opted") for made in (pod, _deployment(pod)))
    assert (NO_CLASS in refused) is (NO_CLASS in warned) is (mode == "none")
    if mode == "policy":
        assert _resources(kubectl, examples.pod(), "opted") == (LIMITED, "koord-scheduler")


def test_a_pod_of_a_controller_is_refused_too(kubectl: Kubectl) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "a", "controller": True}
    pod = examples.pod(container("c", MID, MID), priorityClassName="koord-prod")
    assert "denied request" in _tried(kubectl, {**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}})


def test_a_pod_of_the_mid_class_or_without_mid_resources_is_not(kubectl: Kubectl) -> None:
    fine = [
        examples.pod(container("c", MID, MID), labels={examples.LABEL: "koord-mid"}),
        examples.pod(container("c", MID, MID), priorityClassName="low-mid", labels={examples.LABEL: "koord-prod"}),
        examples.pod(container("c", LIMITED["requests"], LIMITED["limits"]), **MID_POD),
        examples.pod(),
        examples.pod(container("c")),
    ]
    done = kubectl("create", "--dry-run=server", stdin=[*fine, *map(_deployment, fine)])
    assert done.returncode == 0, done.stderr
    assert NO_CLASS not in done.stderr


ODD_PODS = {
    "a node": examples.pod(nodeName="n1"),
    "1500 containers": examples.pod(*(container(f"c{i}", {"cpu": "1m"}) for i in range(1500))),
    "3000 containers": examples.pod(*(container(f"c{i}") for i in range(3000))),
    "a node and 1500 containers": examples.pod(*(container(f"c{i}", PLAIN, PLAIN) for i in range(1500)), nodeName="n1"),
    "1000 sidecars": examples.pod(
        initContainers=[container(f"i{i}", None, PLAIN, restartPolicy="Always") for i in range(1000)]
    ),
    "resources of the pod": examples.pod(container("c"), resources={"requests": {"cpu": "1"}}),
    "odd quantities": examples.pod(
        container("c", {"cpu": "1e-3", "memory": "0" * 70 + "1", "example.com/x": "3"}, {"example.com/x": "3"})
    ),
    "another scheduler and a gate": examples.pod(schedulerName="volcano", schedulingGates=[{"name": "a/b"}]),
    "the network of the host": examples.pod(
        container("c", ports=[{"containerPort": 1, "hostPort": 1}]), hostNetwork=True, hostPID=True
    ),
    "the class of critical pods": examples.pod(priorityClassName="system-node-critical"),
    "a negative priority": examples.pod(priorityClassName="negative"),
    "no resources": examples.pod(container("c")),
}


def test_policies_that_fail_closed_refuse_no_pod_without_mid_resources(server: Server, kubectl: Kubectl) -> None:
    negative = {"metadata": {"name": "negative"}, "value": -5}
    server.api.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", negative)
    for namespace, (what, pod) in itertools.product(("default", "kube-system"), ODD_PODS.items()):
        done = kubectl("create", "--dry-run=server", namespace=namespace, stdin=[pod])
        assert done.returncode == 0, (namespace, what, done.stderr)


def test_a_job_of_mid_pods_that_counts_evictions_as_failures_is_warned_of(kubectl: Kubectl) -> None:
    conditions = [{"type": "DisruptionTarget", "status": "True"}]
    survives = _job(_limited(), podFailurePolicy={"rules": [{"action": "Ignore", "onPodConditions": conditions}]})
    fails, other = _job(_limited()), _job(examples.pod(priorityClassName="koord-prod"))
    for made in (fails, _cron_job(fails)):
        assert "an eviction counts as a failure" in _tried(kubectl, made), made["kind"]
    for made in (survives, _cron_job(survives), other, _cron_job(other)):
        assert _tried(kubectl, made) == "", made["kind"]


def test_a_default_of_a_limit_range_that_becomes_a_lower_limit_is_warned_of(kubectl: Kubectl, mode: str) -> None:
    text = "LimitRange own has a default of cpu or memory below the Mid resources"
    of_seed = examples.pod(container("c", MID, MID), **MID_POD)  # states Mid resources alone
    for made in (of_seed, _deployment(of_seed), _job(of_seed)):
        assert text in _tried(kubectl, made, WITH_DEFAULTS), made["kind"]
        assert text not in _tried(kubectl, made), made["kind"]
    small = examples.pod(container("c", {MID_CPU: "200"}, {MID_CPU: "200"}), **MID_POD)
    for made in (_limited(), small):
        assert text not in _tried(kubectl, made, WITH_DEFAULTS)
    if mode == "policy":
        assert _resources(kubectl, of_seed, WITH_DEFAULTS)[0]["limits"]["cpu"] == "200m"


def test_a_limit_range_with_a_minimum_causes_a_warning_and_refuses_the_pod(kubectl: Kubectl) -> None:
    text = "LimitRange own has a minimum (or maxLimitRequestRatio) of cpu or memory"
    limited = examples.pod(container("c", LIMITED["requests"], LIMITED["limits"]), **MID_POD)
    assert text in _tried(kubectl, _deployment(limited), WITH_MINIMUM)
    assert "minimum cpu usage per Container is 10m" in _tried(kubectl, limited, WITH_MINIMUM)
    assert _tried(kubectl, _deployment(limited), WITH_DEFAULTS) == ""
    assert text not in _tried(kubectl, _deployment(examples.pod()), WITH_MINIMUM)


def test_defaults_of_a_limit_range_are_the_amounts_of_a_container_without_any(kubectl: Kubectl, mode: str) -> None:
    if mode == "policy":
        found, _ = _resources(kubectl, examples.pod(container("c"), **MID_POD), WITH_DEFAULTS)
        assert found["limits"] == {"cpu": "200m", "memory": "64Mi", MID_CPU: "200", "kubernetes.io/mid-memory": "64Mi"}
        assert found["requests"]["cpu"] == found["requests"]["memory"] == "0"


def test_a_quota_counts_native_limits_and_no_native_requests_of_a_limited_pod(kubectl: Kubectl) -> None:
    small = {**LIMITED["limits"], "cpu": "300m"}
    assert "exceeded quota" not in _tried(
        kubectl, examples.pod(container("c", LIMITED["requests"], small), **MID_POD), WITH_QUOTA
    )
    too_large = examples.pod(container("c", LIMITED["requests"], LIMITED["limits"]), **MID_POD)
    assert "limits.cpu=500m, used: limits.cpu=0, limited: limits.cpu=300m" in _tried(kubectl, too_large, WITH_QUOTA)


def _installed(server: Server, *values: str) -> tuple[set[tuple[str, str, str]], str]:
    """Return version, kind and name of the objects of Mid pods' limits that helm would install, and its notes."""
    words = [str(server.plane.binaries / "helm"), "install", RELEASE, str(CHART), "--dry-run=server", "--output=json"]
    words += ["--take-ownership", "--set=global.imageRegistry=registry.example"]
    words += [f"--kubeconfig={server.plane.kubeconfig}", f"--namespace={SUITE_NAMESPACE}"]
    done = subprocess.run([*words, *(f"--set={value}" for value in values)], capture_output=True, text=True, check=True)
    release = json.loads(done.stdout)
    documents = (document for document in yaml.safe_load_all(release["manifest"]) if document)
    rendered = {(document["apiVersion"], document["kind"], document["metadata"]["name"]) for document in documents}
    rules = {key for key in rendered if key[2] in ("koord-suite-mid-limits", "koord-admission")}
    return rules, release["info"]["notes"]


def _kinds(found: set[tuple[str, str, str]]) -> set[str]:
    return {kind for _, kind, _ in found}


def test_auto_is_the_policy_where_it_is_served_and_else_the_webhook(server: Server) -> None:
    policies = {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
    by_webhook = {"MutatingWebhookConfiguration", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount"}
    for version in ("v1", "v1beta1"):
        found, notes = _installed(server, f"admission.policyVersion={version}")
        if version == server.policy.version:
            assert {(head, kind) for head, kind, _ in found} == {
                (f"admissionregistration.k8s.io/{version}", kind) for kind in policies
            }
            assert "set by the policy" in notes
        else:
            assert by_webhook <= _kinds(found)
            assert not policies & _kinds(found)
            assert "set by the webhook" in notes
    found, notes = _installed(server, "admission.mode=none")
    assert found == set()
    assert "`koordctl convert` writes them" in notes


def test_beside_koordinators_pod_webhook_nothing_sets_limits_and_the_notes_warn(server: Server) -> None:
    upstream = {
        "metadata": {"name": "koord-mutating-webhook-configuration"},
        "webhooks": [
            {
                "name": "mpod-mutating.koordinator.sh",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "failurePolicy": "Ignore",
            }
        ],
    }
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    server.api.send("POST", path, upstream)
    try:
        for mode in ("auto", "policy", "webhook"):
            found, notes = _installed(
                server, f"admission.mode={mode}", f"admission.policyVersion={server.policy.version}"
            )
            assert found == set()
            assert "WARNING: Koordinator's pod webhook (mpod-mutating.koordinator.sh) is installed" in notes
    finally:
        server.api.send("DELETE", f"{path}/koord-mutating-webhook-configuration")
    assert "WARNING" not in _installed(server)[1]


def test_convert_names_an_autoscaler_that_finds_no_request_and_the_api_server_takes_both(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    """No policy can see the autoscaler of a workload, so that `koordctl convert` warns of it."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "own"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3, "metrics": [{"type": "Resource", "resource": cpu}]},
    }
    file = tmp_path / "manifests.yaml"
    manifests = json.loads(json.dumps([_deployment(examples.pod(**MID_POD)), autoscaler]))  # no anchors
    file.write_text(yaml.safe_dump_all(manifests))
    words = [sys.executable, "-m", "koordctl", "convert", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "HorizontalPodAutoscaler own scales by utilization" in done.stderr
    converted = list(yaml.safe_load_all(done.stdout))
    assert converted[0]["spec"]["template"]["spec"]["containers"][0]["resources"] == LIMITED
    tried = kubectl("create", "--dry-run=server", stdin=converted)
    assert (tried.returncode, tried.stderr) == (0, "")
