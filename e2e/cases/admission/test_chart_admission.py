"""What the chart renders for Mid pods, on a lone API server: limits by the policy, and warnings for what remains."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from e2e.support import admission_agreement as agreement
from e2e.support import chart_rendering, waiting
from e2e.support import mid_pod_examples as examples
from e2e.support.mid_pod_examples import MID, MID_CPU, PLAIN, container
from tools.localcluster import apiserver_requests
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


@pytest.fixture(scope="module", params=["none", "policy"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def kubectl(mode: str) -> Iterator[Kubectl]:
    """Install what the chart renders, and return kubectl."""
    flags = {
        "feature_gates": "MutatingAdmissionPolicy=true",
        "runtime_config": "admissionregistration.k8s.io/v1beta1=true",
    }
    with agreement.running(OBJECTS, **flags) as (plane, api):
        run = _kubectl(plane)
        for namespace, (kind, spec) in OBJECTS.items():
            made = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "own"}, "spec": spec}
            assert run("create", namespace=namespace, stdin=[made]).returncode == 0
        quota = OBJECTS[WITH_QUOTA][1]["hard"]
        status = {"status": {"hard": quota, "used": dict.fromkeys(quota, "0")}}  # no controller manager writes it
        path = f"/api/v1/namespaces/{WITH_QUOTA}/resourcequotas/own/status"
        api.send("PATCH", path, status, content=apiserver_requests.MERGE_PATCH)
        values = {"admission": {"mode": mode, "policyVersion": "v1beta1"}}
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
        yield run


def _tried(kubectl: Kubectl, made: dict[str, Any], namespace: str = "default") -> str:
    """Return the warnings or the error of a dry run."""
    return kubectl("create", "--dry-run=server", namespace=namespace, stdin=[made]).stderr


def _deployment(pod: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": "a"}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod["spec"]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}


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
    ],
)
def test_a_warning_names_what_keeps_a_mid_pod_from_its_limits(
    kubectl: Kubectl, mode: str, pod: dict[str, Any], by_mode: dict[str, str]
) -> None:
    for made in (pod, _deployment(pod)):
        warnings = _tried(kubectl, made)
        assert by_mode[mode] in warnings if mode in by_mode else warnings == "", made["kind"]


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
