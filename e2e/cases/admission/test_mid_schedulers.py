"""A pod that requests Mid resources names a scheduler that knows the quotas of Mid, on lone API servers.

Admission by the policy of the chart runs before, where the server has it. The control is the same pod without the rule.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from e2e.support import admission_agreement as agreement
from e2e.support import chart_rendering, waiting
from e2e.support import mid_pod_examples as examples
from e2e.support.mid_pod_examples import MID, MID_CPU, container
from tools.localcluster.apiserver_requests import Connection, RequestError
from tools.localcluster.standalone_control_plane import ControlPlane

TEMPLATES = ("mid-pods-limits-policy", "mid-pods-admission-policies")
POLICY, BINDINGS = "koord-suite-mid-schedulers", "validatingadmissionpolicybindings"
PATH = "/apis/admissionregistration.k8s.io/{version}/{plural}"
PODS, DRY_RUN = "/api/v1/namespaces/default/pods", "?dryRun=All"
CLASS = {"priorityClassName": "koord-mid"}
REFUSED = "knows no mid-quota"
WITH_MID = container("work", MID, MID)
OVERHEAD = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "heavy"}, "handler": "heavy"}


class Server(NamedTuple):
    mode: str
    """Chosen as admission.mode."""
    plane: ControlPlane
    api: Connection


@pytest.fixture(scope="module", params=[
    *agreement.policy_apis("none")[:1], *agreement.policy_apis("webhook")[:1], *agreement.policy_apis("policy"),
])  # fmt: skip
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    mode, served = request.param
    with agreement.running([], **served.flags) as (plane, api):
        values = {
            "admission": {"mode": mode, "policyVersion": served.version},
            "admissionPolicies": {"midClass": "Warn"},  # test_chart_admission.py
        }
        for each in chart_rendering.rendered(plane.binaries, values, *TEMPLATES[0 if mode == "policy" else 1 :]):
            _create(api, each)
        overhead = {**OVERHEAD, "overhead": {"podFixed": {MID_CPU: "1"}}}
        api.send("POST", "/apis/node.k8s.io/v1/runtimeclasses", overhead)
        made = Server(mode, plane, api)
        _wait(made, examples.pod(WITH_MID), REFUSED)
        if mode == "policy":
            waiting.until("limits are set", lambda: _scheduler(made, examples.pod(**CLASS)), "koord-scheduler".__eq__)
        yield made


def _create(api: Connection, made: dict[str, Any]) -> None:
    _, _, version = made["apiVersion"].rpartition("/")
    plural = made["kind"].lower().removesuffix("y") + ("ies" if made["kind"].endswith("y") else "s")
    api.send("POST", PATH.format(version=version, plural=plural), made)


def _scheduler(server: Server, pod: dict[str, Any]) -> str:
    """Return the scheduler with which a pod would be created."""
    return str(server.api.send("POST", PODS + DRY_RUN, pod)["spec"]["schedulerName"])


def _refusal(server: Server, pod: dict[str, Any]) -> str:
    """Return why a pod is refused, without warnings; empty where it would be created."""
    command = [server.plane.binaries / "kubectl", f"--kubeconfig={server.plane.kubeconfig}", "--filename=-"]
    command[1:1] = ["create", "--dry-run=server", "--namespace=default"]
    done = subprocess.run([*map(str, command)], input=json.dumps(pod), capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("Warning: ")]
    return "\n".join(lines) if done.returncode else ""


def _wait(server: Server, pod: dict[str, Any], text: str) -> None:
    waiting.until(
        f"{text or 'nothing'} for a pod",
        lambda: _refusal(server, pod),
        lambda seen: text in seen if text else not seen,
        within_seconds=30,
    )


WITHOUT_CLASS = {
    "a container": examples.pod(WITH_MID),
    "one of several containers": examples.pod(container("a"), container("b", MID, MID)),
    "limits alone": examples.pod(container("work", None, {MID_CPU: "1"})),
    "an amount of 0": examples.pod(container("work", {MID_CPU: "0"}, {MID_CPU: "0"})),
    "an init container": examples.pod(initContainers=[container("early", MID, MID)]),
    "a sidecar": examples.pod(initContainers=[container("side", MID, MID, restartPolicy="Always")]),
    "overhead": examples.pod(runtimeClassName="heavy"),
    "a scheduling gate": examples.pod(WITH_MID, schedulingGates=[{"name": "example.com/later"}]),
    "the class koord-prod": examples.pod(WITH_MID, priorityClassName="koord-prod"),
    "another scheduler": examples.pod(WITH_MID, schedulerName="volcano"),
    "the class koord-mid and another scheduler": examples.pod(WITH_MID, schedulerName="volcano", **CLASS),
}


@pytest.mark.parametrize("pod", WITHOUT_CLASS.values(), ids=WITHOUT_CLASS)
def test_a_pod_that_requests_mid_is_refused_with_another_scheduler_and_created_with_that_of_the_chart(
    server: Server, pod: dict[str, Any]
) -> None:
    seen = pod["spec"].get("schedulerName", "default-scheduler")
    refusal = _refusal(server, pod)
    assert "pod example requests" in refusal
    assert f"its spec.schedulerName is {seen}, which knows no mid-quota" in refusal
    assert "want koord-scheduler: set" in refusal
    is_rewritten = server.mode != "none" and seen == "default-scheduler"
    assert ("spec.priorityClassName to koord-mid" in refusal) == is_rewritten
    assert "did not run" not in refusal
    assert _scheduler(server, {**pod, "spec": {**pod["spec"], "schedulerName": "koord-scheduler"}}) == "koord-scheduler"


def test_admission_has_replaced_the_default_scheduler_before(server: Server) -> None:
    pod = examples.pod(WITH_MID, **CLASS)
    if server.mode == "policy":
        assert _scheduler(server, pod) == "koord-scheduler"
    else:
        refusal = _refusal(server, pod)
        assert REFUSED in refusal
        assert ("the admission rules did not run" in refusal) == (server.mode == "webhook")
        assert "spec.priorityClassName to" not in refusal


def test_other_pods_keep_their_schedulers(server: Server) -> None:
    for spec in ({}, {"schedulerName": "volcano"}, {"priorityClassName": "koord-prod"}):
        assert _scheduler(server, examples.pod(**spec)) == spec.get("schedulerName", "default-scheduler")


def test_a_pod_with_a_node_is_refused_for_that_alone(server: Server) -> None:
    refusal = _refusal(server, examples.pod(WITH_MID, nodeName="n1"))
    assert "names its node" in refusal
    assert REFUSED not in refusal


def test_a_scheduler_cannot_be_changed_after_the_creation(server: Server) -> None:
    gated = examples.pod(WITH_MID, schedulerName="koord-scheduler", schedulingGates=[{"name": "example.com/later"}])
    made = server.api.send("POST", PODS, gated)
    made["spec"]["schedulerName"] = "default-scheduler"
    with pytest.raises(RequestError, match="may not change fields"):
        server.api.send("PUT", f"{PODS}/example", made)
    server.api.send("DELETE", f"{PODS}/example?gracePeriodSeconds=0")


def test_without_the_rule_the_same_pod_is_created(server: Server) -> None:
    path = PATH.format(version="v1", plural=BINDINGS)
    binding = server.api.send("GET", f"{path}/{POLICY}")
    server.api.send("DELETE", f"{path}/{POLICY}")
    _wait(server, WITHOUT_CLASS["a container"], "")
    server.api.send("POST", path, {**binding, "metadata": {"name": POLICY}})
    _wait(server, WITHOUT_CLASS["a container"], REFUSED)
