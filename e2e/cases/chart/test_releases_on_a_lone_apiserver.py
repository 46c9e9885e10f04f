"""Releases of the chart on a lone API server, where no pod starts: GitOps, rollback, other owners, what is kept.

Rendering is what Argo CD does: `helm template` without a cluster, so without `lookup`, and without helm's hooks.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from api_types import names
from e2e.support import koord_manager, slo_config, waiting
from e2e.support.host_components import CRD_FILE
from e2e.support.installation import CHART, CRD, RELEASE
from e2e.support.names import CONFIG_MAP, MID_CPU, SUITE_NAMESPACE
from tools.localcluster import standalone_control_plane
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODES, Connection
from tools.localcluster.content_cache import REPOSITORY
from tools.localcluster.host import ports
from tools.localcluster.standalone_control_plane import ControlPlane

VALUES = ("--set=global.imageRegistry=registry.example", "--set=admission.mode=none")
HERE = ("--namespace", SUITE_NAMESPACE)
LAST_GOOD = "koord-manager-last-good-config"
NODE, STATUS = "node-1", "koordinator.sh/mid-resource-status"
HOOK = "helm.sh/hook"
OFFERED = "6001"

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/koord-suite-mid-limits"
CONFIG_MAPS = f"/api/v1/namespaces/{SUITE_NAMESPACE}/configmaps"
EVERYTHING = (
    "--set=admission.mode=webhook,networkPolicies.create=true,console.enabled=true,monitoring.dashboards.enabled=true",
    "--set=loadWatcher.enabled=true,loadWatcher.database.volumeSize=1Gi,manager.eviction.namespaces={*}",
    "--set=extenderService.enabled=true,extenderService.serverCertificateSecret=own",
    "--set=extenderService.callersAuthoritySecret=callers",
)
"""Values of all parts whose definitions a lone API server has."""
BOOKKEEPING = {
    "/metadata/managedFields",
    "/metadata/generation",
    "/metadata/resourceVersion",
    "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
}
"""Fields of a live object that no tool compares."""

Difference = tuple[str, str, str]
"""Kind and name of an object, and JSON pointer of a field."""
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


def _documented() -> tuple[set[Difference], set[Difference]]:
    """Return the differences of the page: `ignoreDifferences` of Argo CD, `driftDetection.ignore` of Flux."""
    page = (REPOSITORY / "docs/how-to/gitops.md").read_text(encoding="utf-8")
    specs = [yaml.safe_load(block)["spec"] for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    (argo,) = (spec["ignoreDifferences"] for spec in specs if "ignoreDifferences" in spec)
    (flux,) = (spec["driftDetection"]["ignore"] for spec in specs if "driftDetection" in spec)
    ignored = [(rule["target"], rule["paths"]) for rule in flux]
    return (
        {(rule["kind"], rule["name"], pointer) for rule in argo for pointer in rule["jsonPointers"]},
        {(target["kind"], target["name"], pointer) for target, pointers in ignored for pointer in pointers},
    )


def _differences(run: Command, apply: tuple[str, ...], manifests: str) -> set[Difference]:
    """Return what applying the manifests again would change: a dry run on the server beside the live objects."""
    wanted, live = (
        {(item["kind"], item["metadata"]["name"]): item for item in json.loads(answer)["items"]}
        for answer in (
            run(*apply, "--dry-run=server", "--output=json", stdin=manifests),
            run("kubectl", "get", "--filename=-", "--output=json", stdin=manifests),
        )
    )
    assert wanted.keys() == live.keys()
    return {(*key, pointer) for key, item in wanted.items() for pointer in _pointers(live[key], item)}


def _pointers(live: Any, wanted: Any, here: str = "") -> Iterator[str]:
    if here in BOOKKEEPING:
        return
    if isinstance(live, dict) and isinstance(wanted, dict):
        for key in live.keys() | wanted.keys():
            escaped = key.replace("~", "~0").replace("/", "~1")
            yield from _pointers(live.get(key), wanted.get(key), f"{here}/{escaped}")
    elif isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
        for index, values in enumerate(zip(live, wanted, strict=True)):
            yield from _pointers(*values, f"{here}/{index}")
    elif live != wanted:
        yield here


def _let_the_programs_write(plane: ControlPlane, api: Connection, run: Command) -> None:
    """Edit the document, and wait until manager and webhook have written all that they write to rendered objects."""
    koord_manager.start_this(plane)
    port, probes = ports.free_ports(2)
    plane.start_python(
        "admission", "-m", "manager", "serve-admission", f"--kubeconfig={plane.kubeconfig}", f"--port={port}",
        f"--http-port={probes}", "--http-address=127.0.0.1", f"--certificate-dir={plane.places.state / 'certificate'}",
    )  # fmt: skip
    plane.wait_for_page(plane.process("admission"), probes, "/readyz")
    _edit(run, slo_config.BASE)

    def written() -> list[bool]:
        configuration, last_good = (api.send("GET", f"{CONFIG_MAPS}/{name}") for name in (CONFIG_MAP, LAST_GOOD))
        return [
            all("caBundle" in hook["clientConfig"] for hook in api.send("GET", WEBHOOKS)["webhooks"]),
            names.ANNOTATION_COLOCATION_CONFIG_STATUS in configuration["metadata"].get("annotations", {}),
            json.loads(last_good.get("data", {}).get("colocation-config", "null")) == slo_config.BASE,
        ]

    waiting.until("everything is written", written, all, within_seconds=60)


@pytest.mark.long
@pytest.mark.parametrize("apply", [("--server-side", "--force-conflicts"), ("--server-side=false",)])
def test_argo_cd_sees_the_documented_differences_and_no_other(
    plane: ControlPlane, api: Connection, run: Command, apply: tuple[str, ...]
) -> None:
    words = ("kubectl", "apply", *apply, "--filename=-")
    run("kubectl", "create", "namespace", SUITE_NAMESPACE)
    manifests = _as_argo_cd_renders(run, *EVERYTHING)
    run(*words, stdin=manifests)
    assert _differences(run, words, manifests) == set()
    _let_the_programs_write(plane, api, run)
    documented, _ = _documented()
    assert _differences(run, words, manifests) == documented
    owned_elsewhere = _as_argo_cd_renders(run, *EVERYTHING, "--set=sloControllerConfig.create=false")
    assert _differences(run, words, owned_elsewhere) == set()


@pytest.mark.long
def test_flux_sees_the_documented_drift_and_no_other(plane: ControlPlane, api: Connection, run: Command) -> None:
    """Compare as it does: the manifest that helm has stored, by a dry run on the server."""
    release = (RELEASE, str(CHART), *HERE, *VALUES, *EVERYTHING)
    words = ("kubectl", "apply", "--server-side", "--force-conflicts", "--field-manager=helm", "--filename=-")
    run("helm", "install", *release, "--create-namespace")
    _let_the_programs_write(plane, api, run)
    _, documented = _documented()
    assert _differences(run, words, run("helm", "get", "manifest", RELEASE, *HERE)) == documented
    plane.stop("admission")
    before = api.send("GET", WEBHOOKS)["webhooks"]
    run("helm", "upgrade", *release)
    assert api.send("GET", WEBHOOKS)["webhooks"] == before, "an upgrade keeps what the webhook wrote"
    assert _differences(run, words, run("helm", "get", "manifest", RELEASE, *HERE)) == set()


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


@pytest.mark.long
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
