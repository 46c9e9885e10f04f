"""The extender wakes a pod by one annotation; the chart's RBAC and admission policy refuse every other change."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from e2e.support import chart_rendering
from e2e.support.names import SUITE_NAMESPACE
from e2e.support.waiting import until
from tools.localcluster.standalone_control_plane import ControlPlane

KEY = "koordinator.sh/retry-scheduling"
POLICY = "koord-suite-extender"
ACCOUNTS = ("koord-scheduler", "koord-extender")  # of a sidecar, and of a Service
TEMPLATES = (
    *("scheduler/rbac", "scheduler/extender-role", "scheduler/extender-admission-policy"),
    "extender-service/rbac",
)
VALUES = {"enabled": True, "serverCertificateSecret": "server", "callersAuthoritySecret": "callers"}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}, "annotations": {"example.com/owner": "a"}},
    "spec": {"containers": [{"name": "c", "image": "none"}]},
}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"}
TRESPASSES = {
    "another annotation": {"metadata": {"annotations": {"example.com/other": "1"}}},
    "another annotation beside it": {"metadata": {"annotations": {KEY: "9", "koordinator.sh/retry": "1"}}},
    "a changed annotation": {"metadata": {"annotations": {"example.com/owner": "b"}}},
    "a removed annotation": {"metadata": {"annotations": {"example.com/owner": None}}},
    "a label": {"metadata": {"labels": {"app": "other"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/hold"]}},
    "an owner": {"metadata": {"ownerReferences": [OWNER]}},
    "an image": {"spec": {"containers": [{"name": "c", "image": "other"}]}},
}

Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def kubectl(shared_plane: ControlPlane) -> Kubectl:
    """Install what the chart renders for the extender, and return kubectl."""
    plane = shared_plane

    def run(*words: str, account: str = "", stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(plane.binaries / "kubectl"), f"--kubeconfig={plane.kubeconfig}", "--namespace=default", *words]
        if account:
            command.append(f"--as=system:serviceaccount:{SUITE_NAMESPACE}:{account}")
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=not account)

    values = {"extenderService": VALUES}
    objects = chart_rendering.rendered(plane.binaries, values, *TEMPLATES)
    run("create", "--filename=-", stdin=json.dumps(POD))
    for document in objects:
        where = document["metadata"].get("namespace", "default")
        run("apply", f"--namespace={where}", "--filename=-", stdin=yaml.safe_dump(document))
    for account in ACCOUNTS:
        until(
            f"the policy is in force for {account}",
            lambda account=account: refusal(run, account, TRESPASSES["a label"], "--dry-run=server"),
            lambda message: "the extender may change" in message,  # and not: the account has no rights yet
        )
    return run


def refusal(kubectl: Kubectl, account: str, change: Any, *words: str) -> str:
    """Return the apiserver's message on a change of the pod, "" when it is done."""
    done = kubectl("patch", "pod", "web", "--type=merge", f"--patch={json.dumps(change)}", *words, account=account)
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("account", ACCOUNTS)
def test_the_extender_may_set_and_change_its_annotation(kubectl: Kubectl, account: str) -> None:
    for value in (f"1-{account}", f"2-{account}"):
        assert refusal(kubectl, account, {"metadata": {"annotations": {KEY: value}}}) == ""
        pod = json.loads(kubectl("get", "pod", "web", "--output=json").stdout)
        assert pod["metadata"]["annotations"] == {KEY: value, "example.com/owner": "a"}


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("what", TRESPASSES)
def test_the_extender_may_change_nothing_else_of_a_pod(kubectl: Kubectl, account: str, what: str) -> None:
    message = refusal(kubectl, account, TRESPASSES[what])
    assert "Forbidden" in message
    assert f"the extender may change {'no annotation' if 'annotation' in what else 'nothing'} of a pod but" in message


@pytest.mark.parametrize(
    "words",
    [
        ("delete", "pod", "web"),
        ("patch", "pod", "web", "--subresource=status", "--type=merge", '--patch={"status": {"phase": "Failed"}}'),
        ("create", "configmap", "a"),
    ],
)
def test_a_service_has_no_right_to_write_anything_else(kubectl: Kubectl, words: tuple[str, ...]) -> None:
    """A sidecar shares the account of kube-scheduler, which has such rights."""
    done = kubectl(*words, "--dry-run=server", account="koord-extender")
    assert done.returncode
    assert 'User "system:serviceaccount' in done.stderr
    assert "cannot" in done.stderr


def test_it_is_the_policy_that_refuses(kubectl: Kubectl) -> None:
    """Run last: RBAC alone permits another annotation."""
    kubectl("delete", "validatingadmissionpolicybinding", POLICY)
    change = TRESPASSES["another annotation"]
    until("it is written", lambda: not refusal(kubectl, "koord-extender", change, "--dry-run=server"))
