"""The chart passes helm's linter and the apiserver's checks without a warning, and keeps the users' edits."""

from __future__ import annotations

import json
import os
import subprocess

from e2e.support.installation import CHART, RELEASE, Suite
from e2e.support.names import CONFIG_MAP, SUITE_NAMESPACE
from tools.localcluster.access import Cluster

NETWORK_POLICIES = '--set-json=networkPolicies={"create": true, "metricsFrom": [{"namespaceSelector": {}}]}'


def _run(cluster: Cluster, program: str, *words: str, stdin: str | None = None) -> str:
    """Run a command that must succeed without a warning, and return its stdout."""
    path = {"helm": cluster.helm, "kubectl": cluster.kubectl}[program]
    environment = {**os.environ, **cluster.environment}
    ended = subprocess.run(
        [path, *words], input=stdin, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "warning" not in ended.stderr.lower(), ended.stderr
    return ended.stdout


def test_helm_lint_reports_nothing(cluster: Cluster) -> None:
    output = _run(cluster, "helm", "lint", "--strict", str(CHART))
    assert "[WARNING]" not in output
    assert "0 chart(s) failed" in output


def test_the_apiserver_accepts_every_object_as_it_is_rendered(cluster: Cluster) -> None:
    """Run before the suite is installed; otherwise server-side apply avoids a conflict with helm's ownership."""
    where = ("--namespace", SUITE_NAMESPACE, "--set=global.imageRegistry=registry.example")
    rendered = _run(cluster, "helm", "template", RELEASE, str(CHART), *where, NETWORK_POLICIES)
    is_there = cluster.run("get", "namespace", SUITE_NAMESPACE, "--ignore-not-found").strip()
    if not is_there:
        cluster.run("create", "namespace", SUITE_NAMESPACE)
    way = ["--server-side", "--force-conflicts"] if is_there else []
    applied = _run(cluster, "kubectl", "apply", "--dry-run=server", "--filename=-", *way, stdin=rendered)
    assert "daemonset.apps/koordlet" in applied
    assert "networkpolicy.networking.k8s.io/koord-manager" in applied
    assert "deployment.apps/koord-manager" in applied
    assert "deployment.apps/koord-scheduler" in applied


def test_an_upgrade_keeps_the_users_edits_of_the_config_map(cluster: Cluster, suite: Suite) -> None:
    where = ("configmap", CONFIG_MAP, "--namespace", SUITE_NAMESPACE)
    written = cluster.get(*where)["data"]["colocation-config"]
    edited = {"colocation-config": written + "\n"}
    cluster.run("patch", *where, "--patch", json.dumps({"data": edited}))
    suite.install()
    assert cluster.get(*where)["data"] == edited
