"""Releases of the chart on a lone API server, where no pod starts: GitOps, rollback, other owners, what is kept.

Rendering is what Argo CD does: `helm template` without a cluster, so without `lookup`, and without helm's hooks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.support import slo_config, waiting
from e2e.support.host_components import CRD_FILE
from e2e.support.installation import CHART, CRD, RELEASE
from e2e.support.names import CONFIG_MAP, MID_CPU, SUITE_NAMESPACE
from tools.localcluster import standalone_control_plane
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODES, Connection
from tools.localcluster.content_cache import REPOSITORY
from tools.localcluster.standalone_control_plane import ControlPlane

VALUES = ("--set=global.imageRegistry=registry.example", "--set=admission.mode=none")
HERE = ("--namespace", SUITE_NAMESPACE)
LAST_GOOD = "koord-manager-last-good-config"
NODE, STATUS = "node-1", "koordinator.sh/mid-resource-status"
HOOK = "helm.sh/hook"
OFFERED = "6001"

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with standalone_control_plane.running() as running:
        yield running


@pytest.fixture
def api(plane: ControlPlane) -> Iterator[Connection]:
    """Return a connection to a server with a node that has Mid resources and a Mid pod."""
    connection = plane.connect()
    connection.send("POST", NODES, {"metadata": {"name": NODE, "annotations": {STATUS: "{}"}}})
    offered = {"cpu": "10", "memory": "10Gi", MID_CPU: OFFERED}
    body = {"status": {"allocatable": offered, "capacity": offered}}
    connection.send("PATCH", f"{NODES}/{NODE}/status", body, content=MERGE_PATCH)
    yield connection
    connection.close()


@pytest.fixture
def run(plane: ControlPlane) -> Command:
    def command(name: str, *words: str, stdin: str | None = None, fails: bool = False) -> str:
        argv = [str(plane.binaries / name), *words]
        environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
        done = subprocess.run(argv, input=stdin, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stderr if fails else done.stdout

    return command


def _mid(api: Connection) -> str | None:
    node = api.send("GET", f"{NODES}/{NODE}")
    return node["status"]["allocatable"].get(MID_CPU)


def _document(run: Command) -> dict[str, Any]:
    found = json.loads(run("kubectl", "get", "configmap", CONFIG_MAP, *HERE, "--output=json"))
    return json.loads(found["data"]["colocation-config"])


def _edit(run: Command, document: dict[str, Any]) -> None:
    patch = json.dumps({"data": {"colocation-config": json.dumps(document)}})
    run("kubectl", "patch", "configmap", CONFIG_MAP, *HERE, f"--patch={patch}")


def _as_argo_cd_renders(run: Command, *values: str) -> str:
    """Return the manifests that are applied: without hooks and tests."""
    rendered = run("helm", "template", RELEASE, str(CHART), *HERE, *VALUES, "--include-crds", *values)
    objects = [item for item in yaml.safe_load_all(rendered) if item]
    return yaml.safe_dump_all(item for item in objects if HOOK not in item["metadata"].get("annotations", {}))


def _synchronize(run: Command, manifests: str) -> None:
    run("kubectl", "apply", "--server-side", "--force-conflicts", "--filename=-", stdin=manifests)


@pytest.mark.long
def test_argo_cd_applies_everything_keeps_a_config_of_its_own_and_the_uninstaller_cleans_up(
    plane: ControlPlane, api: Connection, run: Command
) -> None:
    run("kubectl", "create", "namespace", SUITE_NAMESPACE)
    manifests = _as_argo_cd_renders(run)
    assert manifests == _as_argo_cd_renders(run), "every synchronization would find a difference"
    _synchronize(run, manifests)
    _edit(run, slo_config.BASE)
    _synchronize(run, manifests)
    assert _document(run)["enable"] is False, "the documented control: the edit is overwritten"

    owned_elsewhere = _as_argo_cd_renders(run, "--set=sloControllerConfig.create=false")
    _edit(run, slo_config.BASE)
    _synchronize(run, owned_elsewhere)
    assert _document(run) == slo_config.BASE

    assert _mid(api) == OFFERED
    words = [sys.executable, "-m", "manager", "uninstall", f"--kubeconfig={plane.kubeconfig}", "--timeout-seconds=60"]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert _mid(api) is None
    assert STATUS not in api.send("GET", f"{NODES}/{NODE}")["metadata"].get("annotations", {})
    scale = json.loads(run("kubectl", "get", "deployment", "koord-manager", *HERE, "--output=json"))
    assert scale["spec"]["replicas"] == 0
    run("kubectl", "delete", "--ignore-not-found", "--filename=-", stdin=owned_elsewhere)


@pytest.mark.long
def test_an_update_cannot_lose_the_document_and_an_upgrade_puts_a_lost_one_back(run: Command) -> None:
    release = (RELEASE, str(CHART), *HERE, *VALUES)
    run("helm", "install", *release, "--create-namespace")
    _edit(run, slo_config.BASE)
    time.sleep(3)  # a policy is in force a second after it was created
    for text in (None, "", " \n", "null", "{ }", '""', "# off\n\n# for now"):
        patch = json.dumps({"data": {"colocation-config": text}})
        words = ("kubectl", "patch", "configmap", CONFIG_MAP, *HERE)
        assert "removes or empties" in run(*words, f"--patch={patch}", fails=True)
        run(*words, f"--patch={json.dumps({'metadata': {'labels': {'a': 'b'}}, 'data': {'other': '1'}})}")
    stored = json.dumps({"data": {"colocation-config": json.dumps(slo_config.BASE)}})
    run("kubectl", "patch", "configmap", LAST_GOOD, *HERE, f"--patch={stored}")
    run("kubectl", "delete", "configmap", CONFIG_MAP, *HERE)
    run("helm", "upgrade", *release)
    assert _document(run) == slo_config.BASE
    run("helm", "upgrade", *release, "--set=sloControllerConfig.name=renamed")
    renamed = json.loads(run("kubectl", "get", "configmap", "renamed", *HERE, "--output=json"))
    assert json.loads(renamed["data"]["colocation-config"]) == slo_config.BASE
    run("helm", "uninstall", RELEASE, *HERE, "--no-hooks")
    run("kubectl", "get", "configmap", "renamed", *HERE, fails=True)


def test_the_stages_of_a_pilot_follow_each_other_and_are_undone(run: Command) -> None:
    install = ("helm", "upgrade", "--install", RELEASE, str(CHART), *HERE, VALUES[0], "--create-namespace")
    policies = ("kubectl", "get", "validatingadmissionpolicies", "--output=name")
    for stage in ("observe", "pool", "all", "pool", "observe"):
        run(*install, f"--values={CHART / 'pilot' / stage}.yaml")
        document = _document(run)
        (pool,) = document.get("nodeConfigs") or [{}]
        assert (document["enable"], pool.get("enable")) == (stage == "all", None if stage == "all" else True)
        assert pool.get("midPublish") == ("shadow" if stage == "observe" else None)
        agent = json.loads(run("kubectl", "get", "daemonset", "koordlet", *HERE, "--output=json"))
        assert ("koord-suite.io/pilot" in agent["spec"]["template"]["spec"]["nodeSelector"]) is (stage != "all")
        parts = run("kubectl", "get", "deployments", *HERE, "--output=name")
        assert ("koord-scheduler" in parts, bool(run(*policies))) == ((stage != "observe",) * 2)
        assert stage != "observe" or "koord-admission" not in parts  # from Kubernetes 1.36 on a policy does its work


@pytest.mark.long
def test_a_rollback_restores_the_objects_and_the_document_and_leaves_node_and_pods(
    api: Connection, run: Command
) -> None:
    run("helm", "install", RELEASE, str(CHART), *HERE, *VALUES, "--create-namespace")
    pod = {"metadata": {"name": "mid"}, "spec": {"nodeName": NODE, "containers": [{"name": "c", "image": "none"}]}}
    made = api.send("POST", "/api/v1/namespaces/default/pods", pod)
    _edit(run, slo_config.changed(midCPUThresholdPercent=41))
    run("helm", "upgrade", RELEASE, str(CHART), *HERE, *VALUES)
    _edit(run, slo_config.changed(midCPUThresholdPercent=42))
    run("helm", "upgrade", RELEASE, str(CHART), *HERE, *VALUES, "--set=manager.httpPort=9999")
    assert _document(run)["midCPUThresholdPercent"] == 42
    run("helm", "rollback", RELEASE, "2", *HERE)

    manager = json.loads(run("kubectl", "get", "deployment", "koord-manager", *HERE, "--output=json"))
    assert "--http-port=9317" in manager["spec"]["template"]["spec"]["containers"][0]["args"]
    assert _document(run)["midCPUThresholdPercent"] == 41
    assert _mid(api) == OFFERED
    left = api.send("GET", "/api/v1/namespaces/default/pods/mid")
    assert left["metadata"]["uid"] == made["metadata"]["uid"]
    assert "deletionTimestamp" not in left["metadata"]


@pytest.mark.long
def test_an_upgrade_with_keys_of_an_older_release_is_refused_with_the_new_ones(run: Command, tmp_path: Path) -> None:
    older = yaml.safe_load((CHART / "values.yaml").read_text())
    older["scheduler"] |= {"enabled": True, "queue": {"maxBackoffSeconds": 3}}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": RELEASE, "version": "0.0.1"}))
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(older))
    old_keys = ("--set=scheduler.enabled=false", "--set=scheduler.queue.maxBackoffSeconds=9")
    run("helm", "install", RELEASE, str(tmp_path), *HERE, *VALUES, "--create-namespace", *old_keys)
    upgrade = ("helm", "upgrade", RELEASE, str(CHART), *HERE)
    assert "remove scheduler.enabled (false) and set scheduler.mode to none" in run(*upgrade, fails=True)
    mode = ("--set=scheduler.enabled=null", "--set=scheduler.mode=none")
    assert "use --reset-then-reuse-values" in run(*upgrade, "--reuse-values", *mode, fails=True)
    again = (*upgrade, "--reset-then-reuse-values", *mode)
    assert "scheduler.queue is gone" in run(*again, fails=True)
    run(*again, "--set=scheduler.queue=null")
    run("kubectl", "get", "deployment", "koord-scheduler", *HERE, fails=True)


@pytest.mark.long
def test_a_second_release_and_objects_of_koordinator_are_named_with_their_values(api: Connection, run: Command) -> None:
    run("kubectl", "create", "namespace", SUITE_NAMESPACE)
    run("kubectl", "create", f"--filename={CRD_FILE}")
    upstream = {"meta.helm.sh/release-name": "koordinator", "meta.helm.sh/release-namespace": "default"}
    words = [f"{key}={value}" for key, value in upstream.items()]
    run("kubectl", "annotate", "crd", "nodemetrics.slo.koordinator.sh", *words)
    run("kubectl", "create", "configmap", CONFIG_MAP, *HERE)
    run("kubectl", "annotate", "configmap", CONFIG_MAP, *HERE, *words)
    refusal = run("helm", "install", RELEASE, str(CHART), *HERE, *VALUES, fails=True)
    assert "of the release koordinator in default: set crds.install=false" in refusal
    assert "of the release koordinator in default: set sloControllerConfig.create=false" in refusal

    beside = ("--set=crds.install=false", "--set=sloControllerConfig.create=false")
    run("helm", "install", RELEASE, str(CHART), *HERE, *VALUES, *beside)
    other = ("other", str(CHART), "--namespace=other", "--create-namespace", *VALUES, *beside)
    assert f"of the release {RELEASE} in {SUITE_NAMESPACE}: set priorityClasses.create=false" in run(
        "helm", "install", *other, fails=True
    )
    refused = run("helm", "install", *other, "--set=priorityClasses.create=false", fails=True)
    assert "invalid ownership metadata" in refused


def test_crd_and_priority_classes_stay_by_default_and_the_next_installation_takes_them_over(run: Command) -> None:
    """Without the hook, whose Job runs in no lone API server; `test_uninstall.py` does the same with it."""
    off = ("--set=crds.install=false", "--set=priorityClasses.create=false")
    not_kept = ("--set=crds.keep=false", "--set=priorityClasses.keep=false")

    def left() -> tuple[str, int]:
        """Return the UID of the CRD, empty where there is none, and the number of the suite's PriorityClasses."""
        crd = run("kubectl", "get", "crd", CRD, "--ignore-not-found", "--output=jsonpath={.metadata.uid}")
        classes = run("kubectl", "get", "priorityclasses", "--selector=app.kubernetes.io/part-of=koord-suite", "-oname")
        return crd, len(classes.split())

    run("helm", "install", RELEASE, str(CHART), *HERE, *VALUES, "--create-namespace")
    there = left()
    assert there[0]
    assert there[1] == 4
    run("helm", "uninstall", RELEASE, *HERE, "--no-hooks")
    assert left() == there
    for install in (("install",), ("upgrade", *off), ("upgrade",)):
        run("helm", install[0], RELEASE, str(CHART), *HERE, *VALUES, *install[1:])
        assert left() == there, install
    run("helm", "upgrade", RELEASE, str(CHART), *HERE, *VALUES, *not_kept)
    run("helm", "uninstall", RELEASE, *HERE, "--no-hooks")
    waiting.until("nothing is left", left, lambda seen: seen == ("", 0), within_seconds=30)
