"""What the chart lets an agent and an author do with `pods/resize`, on a lone API server, with and without policies."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import pytest

from e2e.support import chart_rendering, waiting
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.apiserver_requests import Connection
from tools.localcluster.standalone_control_plane import ControlPlane

TEMPLATES = ("koordlet/suppression-policy", "koordlet/rbac", "manager/uninstall-hook", "mid-resizes-policy")
VALUES = {"koordlet": {"suppression": {"enabled": True}}}
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
PATHS = {
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": BINDINGS,
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{SUITE_NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{SUITE_NAMESPACE}/rolebindings",
    "ServiceAccount": f"/api/v1/namespaces/{SUITE_NAMESPACE}/serviceaccounts",
}
PODS = "/api/v1/namespaces/default/pods"
MID, MID_MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"
AGENT, HOOK = "koordlet", "koord-suite-uninstall"
AUTHOR = None
"""Account of an author: none of the suite's, here the administrator."""

Resize = Callable[..., tuple[int, str]]


def _container(name: str, cpu: str, mid: str | None = "1000") -> dict[str, Any]:
    amounts = {MID: mid, MID_MEMORY: "64Mi"} if mid else {}
    limits = {"cpu": cpu, "memory": "64Mi", **amounts}
    return {
        "name": name,
        "image": "i",
        "resources": {"requests": {"cpu": "0", "memory": "32Mi", **amounts}, "limits": limits},
    }


def _pod(name: str, priority_class: str = "koord-mid", node: str = "n1", cpu: str = "500m") -> dict[str, Any]:
    side = {**_container("side", "500m"), "restartPolicy": "Always"}
    spec = {
        "nodeName": node,
        "priorityClassName": priority_class,
        "initContainers": [side],
        "containers": [_container("work", cpu), _container("plain", "500m", None)],
    }
    return {"metadata": {"name": name, "labels": {"koordinator.sh/priority-class": "koord-mid"}}, "spec": spec}


@contextlib.contextmanager
def _agent(plane: ControlPlane, api: Connection) -> Iterator[Resize]:
    """Yield a call as the agent of a node, by impersonation; without an account as the administrator."""
    certificates = plane.places.certificates
    trust = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    trust.load_cert_chain(certificates / "admin.crt", certificates / "admin.key")
    connection = http.client.HTTPSConnection(
        "127.0.0.1", plane.places.addresses.apiserver_port, context=trust, timeout=60
    )

    def send(
        body: dict[str, Any],
        pod: str = "mid",
        node: str | None = "n1",
        path: str = "/resize",
        account: str | None = AGENT,
        method: str = "PATCH",
        pods: str = PODS,
    ) -> tuple[int, str]:
        headers = {"Content-Type": f"application/{'strategic-merge-patch+' if method == 'PATCH' else ''}json"}
        if account:
            headers["Impersonate-User"] = f"system:serviceaccount:{SUITE_NAMESPACE}:{account}"
        if account and node:
            headers["Impersonate-Extra-Authentication.kubernetes.io%2Fnode-name"] = node
        connection.request(method, f"{pods}/{pod}{path}?dryRun=All", json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    with contextlib.closing(connection):
        yield send


@pytest.fixture(scope="module")
def plane(shared_plane: ControlPlane) -> Iterator[tuple[ControlPlane, Connection]]:
    with contextlib.closing(shared_plane.connect()) as api:
        yield shared_plane, api


@pytest.fixture(scope="module")
def resize(plane: tuple[ControlPlane, Connection]) -> Iterator[Resize]:
    control_plane, api = plane
    api.send("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    for pod in (_pod("mid"), _pod("prod", "koord-prod"), _pod("elsewhere", node="n2"), _pod("above", cpu="4")):
        api.send("POST", PODS, pod)
    for each in chart_rendering.rendered(control_plane.binaries, VALUES, *TEMPLATES):
        if each["kind"] in PATHS:
            api.send("POST", PATHS[each["kind"]], each)
    with _agent(control_plane, api) as send:
        _wait(send, HTTPStatus.FORBIDDEN, AGENT, "5m")
        _wait(send, HTTPStatus.FORBIDDEN, AUTHOR, "9")
        yield send


def _wait(resize: Resize, wanted: HTTPStatus, account: str | None, limit: str) -> None:
    """Wait until a policy is in force, or no longer, for a limit that it refuses."""
    waiting.until(
        f"{limit} by {account or 'an author'}: {wanted}", lambda: resize(_cpu(limit), account=account)[0],
        lambda status: status == wanted, within_seconds=30,
    )  # fmt: skip


def _cpu(limit: str | None, container: str = "work", listed: str = "containers") -> dict[str, Any]:
    return {"spec": {listed: [{"name": container, "resources": {"limits": {"cpu": limit}}}]}}


def _work(**resources: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "work", "resources": resources}]}}


ALLOWED = {
    "least": _cpu("10m"),
    "most": _cpu("1"),
    "sidecar": _cpu("200m", "side", "initContainers"),
    "nothing": {},
}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another node": (_cpu("100m"), {"pod": "elsewhere"}, "own node"),
    "a token without a node": (_cpu("100m"), {"node": None}, "own node"),
    "a Prod pod with the label of Mid": (_cpu("100m"), {"pod": "prod"}, "only Mid pods"),
    "zero, which means unlimited": (_cpu("0"), {}, "from 10m"),
    "below 10m": (_cpu("9m"), {}, "from 10m"),
    "above mid-cpu": (_cpu("1001m"), {}, "up to the mid-cpu"),
    "a sidecar above mid-cpu": (_cpu("1001m", "side", "initContainers"), {}, "up to the mid-cpu"),
    "a container without mid-cpu": (_cpu("100m", "plain"), {}, "up to the mid-cpu"),
    "a memory limit": (_work(limits={"memory": "128Mi"}), {}, "only CPU limits"),
    "a memory request": (_work(requests={"memory": "48Mi"}), {}, "only CPU limits"),
    "a CPU request": (_work(requests={"cpu": "10m"}), {}, "only CPU limits"),
}
BY_THE_HOOK: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    f"{what}, by the hook": (body, {**options, "account": HOOK, "node": None}, message)
    for what, (body, options, message) in {
        "a lowered limit": (_cpu("400m"), {}, "only raise"),
        "a lowered limit of a sidecar": (_cpu("400m", "side", "initContainers"), {}, "only raise"),
        "a Prod pod": (_cpu("600m"), {"pod": "prod"}, "only Mid pods"),
        "zero": (_cpu("0"), {}, "from 10m"),
        "above mid-cpu": (_cpu("1001m"), {}, "up to the mid-cpu"),
        "a memory limit": (_work(limits={"memory": "128Mi"}), {}, "only CPU limits"),
        "a CPU request": (_work(requests={"cpu": "10m"}), {}, "only CPU limits"),
    }.items()
}
REFUSED |= BY_THE_HOOK
BY_AN_AUTHOR: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    f"{what}, by an author": (body, {"account": AUTHOR, **options}, message)
    for what, (body, options, message) in {
        "zero": (_cpu("0"), {}, "may not be set to 0"),
        "zero of a sidecar": (_cpu("0", "side", "initContainers"), {}, "may not be set to 0"),
        "above mid-cpu": (_cpu("1001m"), {}, "may not be raised above"),
        "a sidecar above mid-cpu": (_cpu("1001m", "side", "initContainers"), {}, "may not be raised above"),
        "a limit above mid-cpu that rises": (_cpu("5"), {"pod": "above"}, "may not be raised above"),
        "above mid-memory": (_work(limits={"memory": "65Mi"}), {}, "may not be raised above"),
        "a CPU request": (_work(requests={"cpu": "10m"}), {}, "a request of cpu"),
        "a memory request": (_work(requests={"memory": "48Mi"}), {}, "a request of cpu or memory"),
        "a container without Mid limits": (_cpu("501m", "plain"), {}, "without one not at all"),
        "an infeasible request of another container": (
            {"spec": {"containers": [{"name": "plain", "resources": {"requests": {"memory": "60Mi"}}}]}},
            {},
            "a request of cpu or memory",
        ),
    }.items()
}
REFUSED |= BY_AN_AUTHOR
ALLOWED_TO_AUTHORS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "a lower limit": (_cpu("5m"), {}),
    "mid-cpu": (_cpu("1"), {}),
    "mid-cpu of a sidecar": (_cpu("1", "side", "initContainers"), {}),
    "a limit above mid-cpu that falls": (_cpu("2"), {"pod": "above"}),
    "another field of a pod above mid-cpu": (_work(requests={"memory": "24Mi"}), {"pod": "above"}),
    "a lower limit of a container without Mid limits": (_cpu("400m", "plain"), {}),
    "a Prod pod with the label of Mid": (
        _work(requests={"cpu": "2"}, limits={"cpu": "9", "memory": "1Gi"}),
        {"pod": "prod"},
    ),
}
DROPPED = {
    "labels": {"metadata": {"labels": {"a": "b"}}},
    "image": {"spec": {"containers": [{"name": "work", "image": "other"}]}},
    "deadline": {"spec": {"activeDeadlineSeconds": 5}},
}
"""Changes that the resource itself drops: what is left is no change, which every policy lets through."""


@pytest.mark.parametrize("what", ALLOWED)
def test_cpu_limits_of_mid_pods_of_the_own_node_are_let_through(resize: Resize, what: str) -> None:
    status, text = resize(ALLOWED[what])
    assert status == HTTPStatus.OK, text


@pytest.mark.parametrize("what", ALLOWED_TO_AUTHORS)
def test_authors_resize_their_pods_within_mid_limits_and_others_as_they_like(resize: Resize, what: str) -> None:
    body, options = ALLOWED_TO_AUTHORS[what]
    status, text = resize(body, account=AUTHOR, **options)
    assert status == HTTPStatus.OK, text


@pytest.mark.parametrize("what", REFUSED)
def test_everything_else_is_refused(resize: Resize, what: str) -> None:
    body, options, message = REFUSED[what]
    status, text = resize(body, **options)
    assert (status, message in text) == (HTTPStatus.FORBIDDEN, True), text


def test_a_removed_limit_is_refused(resize: Resize) -> None:
    """By the API server itself, with or without the policy."""
    status, text = resize(_cpu(None))
    assert status == HTTPStatus.UNPROCESSABLE_ENTITY, text


@pytest.mark.parametrize("what", DROPPED)
def test_other_fields_stay_as_they_are(resize: Resize, what: str) -> None:
    before, after = resize({}), resize(DROPPED[what])
    assert (before[0], after[0]) == (HTTPStatus.OK, HTTPStatus.OK), after[1]
    kept = [json.loads(text) for _, text in (before, after)]
    assert kept[0]["spec"] == kept[1]["spec"]
    assert kept[0]["metadata"]["labels"] == kept[1]["metadata"]["labels"]


@pytest.mark.parametrize("pod", ["mid", "elsewhere"])
def test_the_hook_may_raise_limits_of_mid_pods_on_every_node(resize: Resize, pod: str) -> None:
    for body in (_cpu("1"), _cpu("700m", "side", "initContainers")):
        status, text = resize(body, pod=pod, node=None, account=HOOK)
        assert status == HTTPStatus.OK, text


@pytest.mark.parametrize("account", [AGENT, HOOK])
def test_pods_themselves_are_out_of_reach(resize: Resize, account: str) -> None:
    assert resize({"metadata": {"labels": {"a": "b"}}}, path="", account=account)[0] == HTTPStatus.FORBIDDEN


def test_the_hook_may_delete_the_pod_of_helm_test(plane: tuple[ControlPlane, Connection], resize: Resize) -> None:
    pods, name = f"/api/v1/namespaces/{SUITE_NAMESPACE}/pods", "koord-suite-test"
    plane[1].send("POST", pods, {"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "i"}]}})
    status, text = resize({}, pod=name, node=None, path="", account=HOOK, method="DELETE", pods=pods)
    assert status == HTTPStatus.OK, text


def test_each_fence_is_the_policy(plane: tuple[ControlPlane, Connection], resize: Resize) -> None:
    """Last in this file: without the policies every refused change is let through."""
    _, api = plane
    for binding, account, limit in (("koordlet-resize", AGENT, "5m"), ("mid-resizes", AUTHOR, "9")):
        api.send("DELETE", f"{BINDINGS}/koord-suite-{binding}")
        _wait(resize, HTTPStatus.OK, account, limit)
    answers = {what: resize(body, **options) for what, (body, options, _) in REFUSED.items()}
    assert {what: text for what, (status, text) in answers.items() if status != HTTPStatus.OK} == {}
