"""A release goes through a registry into a cluster and away again; each case is a step of `make release-rehearsal`.

Nodes and helm know nothing of the release but the registry's address, authority and password.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.support import mid_formula, node_thresholds, slo_config, traces, waiting, workloads
from e2e.support.cluster_client import ClusterClient, cpu_millis
from e2e.support.installation import CRD, RELEASE, Suite
from e2e.support.names import STATE_HOST_PATH, SUITE_NAMESPACE
from tools.images import loading, recipes
from tools.localcluster import node as nodes
from tools.localcluster import progress, running
from tools.localcluster.access import Cluster
from tools.localcluster.host import commands
from tools.release import layouts, provenance, registry
from tools.release.registry import Registry
from tools.release.version import current

SKEW_MINUTES = float(os.environ.get("SKEW_MINUTES", "30"))
HELM_SECONDS = 900  # every node pulls every image
FIRST = current()
SECOND = re.sub(r"\d+$", lambda last: str(int(last[0]) + 1), FIRST)
PATH = "koord-suite"
KEEPS, LEAVES = "case-keeps", "case-leaves"
"""Namespaces: the manager may evict in the second only."""
MID_MILLIS = 200
SUPPRESSED = {"midSuppressThresholdPercent": 1}
"""Every node is busier, so limits are lowered whatever else runs on this machine; 0 lets them rise on any machine."""
RESTORED_SECONDS = 420
EDIT = slo_config.changed(midUnallocatedPercent=47, **SUPPRESSED)
EVICTION = {"mode": "evict", "reports": 2, "nodeIntervalSeconds": 10, "readmitSeconds": 10}
NOTHING = {"midUnallocatedPercent": 0, "midReclaimRatioPercent": 0}
"""Keys with which every Mid pod is too many."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]


class Rehearsal:
    """The registry, the folders of both versions, and the suite that runs."""

    def __init__(self, suite: Suite, cluster_client: ClusterClient, source: Registry, folder: Path) -> None:
        self.suite, self.cluster, self.cluster_client = suite, suite.cluster, cluster_client
        self.source, self.folder = source, folder
        self.node = self.cluster.real_nodes()[0]
        self.images_before = self.images_of_nodes()
        self.ran: set[str] = set()
        """Images of the suite's pods, by digest."""
        self.document = ""
        """The configuration that the first installation wrote: what a user set, and the chart's defaults."""

    def tool(self, *words: object) -> str:
        """Run a command of the release tools beside the registry."""
        environment = {**self.source.environment, "COSIGN_PASSWORD": ""}
        return commands.run(
            [sys.executable, "-m", "tools.release", *words], environment=environment, timeout_seconds=None
        )

    def helm(self, verb: str, *words: str, stdin: str | None = None) -> str:
        """Run helm, which knows the password from `helm registry login` only."""
        with progress.step(f"helm {verb} {shlex.join(word for word in words if not word.startswith('--'))}"):
            where = (f"--registry-config={self.folder / 'helm-login.json'}", f"--namespace={SUITE_NAMESPACE}")
            return self.cluster.run("helm", verb, *words, *where, stdin=stdin, timeout_seconds=HELM_SECONDS + 30)

    def install(self, verb: str, version: str, *flags: str) -> None:
        """Install or upgrade to the chart of a version, by its digest."""
        digest = self.source.digest(f"{PATH}/charts/{RELEASE}", version)
        chart = f"oci://{self.source.address}/{PATH}/charts/{RELEASE}@{digest}"
        more = (f"--ca-file={self.source.authority}", "--values=-", "--wait", f"--timeout={HELM_SECONDS}s")
        self.helm(verb, RELEASE, chart, *more, *flags, stdin=json.dumps(self.values()))
        self.suite.wait_for_replaced_pods()
        self.note_images()

    def values(self) -> dict[str, Any]:
        """Return what a user sets, and what leaves nothing behind."""
        return {
            "global": {"imageRegistry": f"{self.source.address}/{PATH}"},
            "imagePullSecrets": [{"name": "registry"}],
            "colocationConfig": slo_config.BASE,
            "crds": {"keep": False},
            "priorityClasses": {"keep": False},
            "koordlet": {"suppression": {"enabled": True}, "stateHostPath": STATE_HOST_PATH},
            "manager": {"eviction": {"namespaces": [LEAVES]}},
            "scheduler": {"plugin": {"deadlineMilliseconds": 2000}},  # a machine may be busy
        }

    def listed(self, version: str) -> dict[str, str]:
        """Return the digests of the images of a version, by name."""
        images = layouts.listed(self.folder / version / "images")
        return {image.title(version): image.digest for image in images}

    def note_images(self) -> dict[str, set[str]]:
        """Return the digests that pods of the suite run, by the name of the part, and note them."""

        def images() -> set[tuple[str, str]]:
            pods = self.cluster_client.list("Pod", SUITE_NAMESPACE)
            return {
                (pod["metadata"]["labels"]["app.kubernetes.io/name"], container["imageID"])
                for pod in pods
                for container in (
                    *(pod["status"].get("containerStatuses") or ({"imageID": ""},)),
                    *pod["status"].get("initContainerStatuses", ()),  # the scheduler plugin is one, a sidecar
                )
            }

        # helm does not wait for the last pod of a DaemonSet, and a pod without a container yet has no image.
        ran = waiting.until(
            "every pod runs", images, lambda pairs: all(image for _, image in pairs), within_seconds=180
        )
        by_name: dict[str, set[str]] = {}
        for name, image in ran:
            by_name.setdefault(name, set()).add(image.rpartition("@")[2])
            self.ran.add(image)
        return by_name

    def images_of_nodes(self) -> set[str]:
        """Return the names of all images of all nodes."""
        nodes_now = [self.cluster_client.get("Node", name) for name in self.cluster.real_nodes()]
        return {name for node in nodes_now for image in node["status"].get("images") or () for name in image["names"]}

    def configure(self, **keys: Any) -> None:
        """Edit the configuration as a user does."""
        slo_config.write(self.cluster_client, slo_config.changed(**keys))

    def create_mid(self, name: str, namespace: str, millis: int) -> None:
        """Create a Mid pod with limits and wait until it runs."""
        made = workloads.mid_pod(
            name,
            self.suite.workload,
            cpu_millis=millis,
            memory_mib=48,
            nodes=[self.node],
            cores="0.02",
            native_limits=True,
        )
        self.cluster_client.create("Pod", made, namespace)
        self.cluster_client.wait_running(namespace, name, within_seconds=300)

    def limit_millis(self) -> int:
        """Return the CPU limit of the Mid pod that stays."""
        pod = self.cluster_client.get("Pod", "mid", KEEPS)
        return cpu_millis(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"])

    def until_limit(self, low: int, high: int, within_seconds: float = 240) -> None:
        """Wait for a limit of the Mid pod that stays, and report it."""
        with progress.step(f"CPU limit of the Mid pod from {low}m to {high}m"):
            waiting.until("it", self.limit_millis, lambda millis: low <= millis <= high, within_seconds=within_seconds)

    def identity(self) -> tuple[str, int, str]:
        """Return what stays the same while the Mid pod runs on: UID, restarts, start."""
        pod = self.cluster_client.get("Pod", "mid", KEEPS)
        (status,) = pod["status"]["containerStatuses"]
        return pod["metadata"]["uid"], status["restartCount"], status["state"]["running"]["startedAt"]


@pytest.fixture(scope="module")
def rehearsal(
    cluster: Cluster, cluster_client: ClusterClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rehearsal]:
    """Start the registry, have every node trust it, and load the image of the Mid pods, which is in no release."""
    provider = running.provider()
    images = loading.load(recipes.WORKLOAD)
    with (
        registry.running(tmp_path_factory.mktemp("registry"), provider.host_address()) as source,
        node_thresholds.real_nodes_never_hot(cluster, cluster_client),
    ):
        for name in cluster.real_nodes():
            provider.shell(name, _trust(source))
        suite = Suite(cluster, images)
        made = Rehearsal(suite, cluster_client, source, tmp_path_factory.mktemp("release"))
        assert made.suite.revision() is None, "a suite is installed; uninstall it first"
        yield made
        if made.suite.revision():
            made.suite.uninstall()
        for namespace in (KEEPS, LEAVES, SUITE_NAMESPACE):
            cluster_client.delete("Namespace", namespace)
        for name in cluster.real_nodes():
            provider.shell(name, f"rm -r {nodes.REGISTRIES}")


def _trust(source: Registry) -> str:
    """Return the script that makes containerd of a node trust the authority of the registry."""
    url = f"https://{source.address}"
    lines = f'server = "{url}"\n[host."{url}"]\ncapabilities = ["pull", "resolve"]\nca = "ca.crt"\n'
    where = nodes.REGISTRIES / source.address
    files = {"ca.crt": source.authority.read_text(), "hosts.toml": lines}
    written = [f"printf %s {shlex.quote(text)} >{where}/{name}" for name, text in files.items()]
    return "\n".join(["set -e", f"mkdir -p {where}", *written])


def test_both_versions_are_built_pushed_and_verified(rehearsal: Rehearsal) -> None:
    rehearsal.tool("keys", rehearsal.folder)
    for version in (FIRST, SECOND):
        folder = rehearsal.folder / version
        where = ("--registry", f"{rehearsal.source.address}/{PATH}", "--version", version)
        with progress.step(f"building {version}"):
            print(rehearsal.tool("build", "--version", version, "--folder", folder))
        with progress.step(f"pushing {version}"):
            print(rehearsal.tool("push", *where, "--folder", folder, "--key", rehearsal.folder / "cosign.key"))
        with progress.step(f"verifying {version}"):
            trust = ("--key", rehearsal.folder / "cosign.pub", "--builder", provenance.LOCAL_BUILDER)
            print(rehearsal.tool("verify", *where, *trust))
        for name, digest in rehearsal.listed(version).items():
            progress.report(f"{version} has {name} {digest}")


def test_the_chart_is_installed_by_its_digest_with_the_password_of_the_registry(rehearsal: Rehearsal) -> None:
    client = rehearsal.cluster_client
    for name in (SUITE_NAMESPACE, KEEPS, LEAVES):
        client.create("Namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    secret = {
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": "registry"},
        "stringData": {".dockerconfigjson": rehearsal.source.credentials.read_text()},
    }  # fmt: skip
    client.create("Secret", secret, SUITE_NAMESPACE)
    login = ("login", rehearsal.source.address, f"--username={registry.USER}", "--password-stdin")
    rehearsal.helm("registry", *login, f"--ca-file={rehearsal.source.authority}", stdin=registry.PASSWORD)
    rehearsal.install("install", FIRST)
    rehearsal.document = slo_config.read(client) or ""
    print(rehearsal.helm("test", RELEASE, "--logs"))
    ran = {digest for digests in rehearsal.note_images().values() for digest in digests}
    assert ran
    assert ran <= set(rehearsal.listed(FIRST).values())


def test_a_mid_pod_runs_and_is_suppressed_by_an_edit(rehearsal: Rehearsal) -> None:
    waiting.until("Mid", lambda: rehearsal.cluster_client.mid(rehearsal.node), all, within_seconds=300)
    rehearsal.configure(midSuppressThresholdPercent=0)
    rehearsal.create_mid("mid", KEEPS, MID_MILLIS)
    rehearsal.until_limit(MID_MILLIS, MID_MILLIS, RESTORED_SECONDS)
    slo_config.write(rehearsal.cluster_client, EDIT)
    rehearsal.until_limit(1, MID_MILLIS // 2)


def test_an_upgrade_keeps_mid_pod_suppression_and_edit(rehearsal: Rehearsal) -> None:
    before, lowered = rehearsal.identity(), rehearsal.limit_millis()
    rehearsal.install("upgrade", SECOND)
    assert rehearsal.note_images()["koordlet"] == {rehearsal.listed(SECOND)["koordlet"]}
    assert json.loads(slo_config.read(rehearsal.cluster_client) or "") == EDIT
    _report_is_used(rehearsal)
    assert rehearsal.identity() == before
    assert rehearsal.limit_millis() <= lowered
    waiting.until(
        "the new agent counts the pod",
        lambda: rehearsal.suite.agent_metric("koordlet_suppression_lowered_pods"),
        lambda pods: pods == 1,
    )


def test_a_rollback_keeps_the_mid_pod_and_its_limit_returns(rehearsal: Rehearsal) -> None:
    before = rehearsal.identity()
    with progress.step("helm rollback"):
        rehearsal.suite.roll_back(1)
    assert rehearsal.note_images()["koordlet"] == {rehearsal.listed(FIRST)["koordlet"]}
    assert slo_config.read(rehearsal.cluster_client) == rehearsal.document
    rehearsal.configure(midSuppressThresholdPercent=0)
    _report_is_used(rehearsal)
    rehearsal.until_limit(MID_MILLIS, MID_MILLIS, RESTORED_SECONDS)
    assert rehearsal.identity() == before


@pytest.mark.timeout(SKEW_MINUTES * 60 + 2400)
@pytest.mark.parametrize("old", ["koordlet", "manager"])
def test_parts_of_two_versions_work_together(rehearsal: Rehearsal, old: str) -> None:
    """Run the second version with one part of the first, by its digest."""
    before = rehearsal.identity()
    rehearsal.install("upgrade", SECOND, f"--set=global.imageDigests.{old}={rehearsal.listed(FIRST)[old]}")
    ran = rehearsal.note_images()
    for part, name in (("koordlet", "koordlet"), ("manager", "koord-manager")):
        assert ran[name] == {rehearsal.listed(FIRST if part == old else SECOND)[part]}, ran
    begin, rounds = time.monotonic(), 0
    while rounds == 0 or time.monotonic() - begin < SKEW_MINUTES * 60:
        rounds += 1
        with progress.step(f"old {old}: round {rounds}"):
            _round(rehearsal, rounds, f"leaves-{old}-{rounds}")
    progress.report(f"old {old}: {rounds} rounds in {(time.monotonic() - begin) / 60:.1f} minutes")
    assert rehearsal.identity() == before


def _report_is_used(rehearsal: Rehearsal) -> None:
    """Wait for a new report, and for the Mid resources of it."""
    rehearsal.cluster_client.wait_report(rehearsal.node, dt.datetime.now(dt.UTC), within_seconds=180)
    published = mid_formula.wait_published(rehearsal.cluster_client, rehearsal.node, within_seconds=180)
    progress.report(f"report of {published.node_metric['status']['updateTime']}: Mid {published.offered}")


def _round(rehearsal: Rehearsal, number: int, name: str) -> None:
    """Change the configuration, see a report by it used, have a Mid pod evicted."""
    client, node = rehearsal.cluster_client, rehearsal.node
    predictor = f"n-sigma-v{1 + number % 2}"
    policy = {"nodePredictPolicy": {**slo_config.BASE["nodePredictPolicy"], "predictor": predictor}}
    rehearsal.configure(**policy, midSuppressThresholdPercent=0)
    waiting.until(
        f"a prediction by {predictor}",
        lambda: client.node_metric(node)["status"].get("prediction", {}).get("predictor"),
        lambda seen: seen == predictor,
        within_seconds=180,
    )
    _report_is_used(rehearsal)
    rehearsal.create_mid(name, LEAVES, 20)
    rehearsal.configure(**policy, **NOTHING, midSuppressThresholdPercent=0, midEviction=EVICTION)
    waiting.until("it is evicted", lambda: client.find("Pod", name, LEAVES) is None, within_seconds=300)
    (event,) = client.events_of(name, LEAVES, "MidPodEvicted")
    progress.report(event["message"])


def test_an_uninstallation_restores_the_limit_and_leaves_nothing(rehearsal: Rehearsal) -> None:
    cluster, before = rehearsal.cluster, rehearsal.identity()
    rehearsal.configure(**SUPPRESSED)
    rehearsal.until_limit(1, MID_MILLIS // 2)
    rehearsal.helm("uninstall", RELEASE, "--wait", f"--timeout={HELM_SECONDS}s")
    assert rehearsal.limit_millis() == MID_MILLIS
    assert rehearsal.identity() == before
    assert traces.left_by_manager(cluster) == []
    waiting.until("nothing of the chart is left", lambda: traces.objects(cluster), lambda seen: not seen.strip())
    assert not cluster.run("get", "crd", CRD, "--ignore-not-found").strip()
    waiting.until("no process of the suite runs", lambda: traces.running(cluster), lambda seen: not seen)


def test_nothing_was_pulled_from_anywhere_else(rehearsal: Rehearsal) -> None:
    here = f"{rehearsal.source.address}/{PATH}/"
    new = rehearsal.images_of_nodes() - rehearsal.images_before
    assert {name for name in new if not name.startswith(here)} == set()
    images = [image for version in (FIRST, SECOND) for image in layouts.listed(rehearsal.folder / version / "images")]
    manifest = re.compile(rf"/v2/{PATH}/(\S+)/manifests/(sha256:\w+)(\?.*)?")
    pulled: dict[str, set[str]] = {}
    for request in rehearsal.source.requests():
        match = manifest.fullmatch(request.path)
        if match and request.agent.startswith("containerd/") and request.code == 200:
            pulled.setdefault(f"{here}{match[1]}@{match[2]}", set()).add(request.client)
    indexes = pulled.keys() & {f"{here}{image.name}@{image.digest}" for image in images}
    for name in sorted(indexes):
        progress.report(f"pulled {name} by {', '.join(sorted(pulled[name]))}")
    assert rehearsal.ran == indexes
    assert {name.rpartition("@")[2] for name in pulled} <= {digest for image in images for digest in image.blobs()}
