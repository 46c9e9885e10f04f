"""The offline bundle: its images on the nodes, its chart, its values, and a suite that works without any registry."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.support import node_thresholds, slo_config
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import HELM_SECONDS, RELEASE, Suite
from e2e.support.names import STATE_HOST_PATH, SUITE_NAMESPACE
from tools.localcluster import layout, running
from tools.localcluster.access import Cluster
from tools.release import building, bundle
from tools.release.version import current

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]
VERSION = current()


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """Make the release of the commit and unpack its bundle."""
    building.build(tmp_path / "dist", VERSION)
    with tarfile.open(tmp_path / "dist" / f"koord-suite-{VERSION}-offline.tar") as files:
        files.extractall(tmp_path, filter="data")
    return tmp_path / f"koord-suite-{VERSION}-offline"


@pytest.fixture
def installed(cluster: Cluster, cluster_client: ClusterClient, unpacked: Path) -> Iterator[None]:
    """Load the images on every node, as its administrator would, and install the chart; at the end restore what was."""
    for name in cluster.real_nodes():
        running.provider().shell(name, _command(cluster, unpacked))
    suite = Suite(cluster, {})
    earlier = suite.revision()
    with node_thresholds.real_nodes_never_hot(cluster, cluster_client):
        cluster.run(
            *("helm", "upgrade", "--install", RELEASE, str(unpacked / f"koord-suite-{VERSION}.tgz")),
            *("--create-namespace", "--namespace", SUITE_NAMESPACE, f"--values={unpacked / 'values.yaml'}"),
            *("--reset-values", f"--set=koordlet.stateHostPath={STATE_HOST_PATH}"),
            *("--wait", f"--timeout={HELM_SECONDS}s"),
            timeout_seconds=HELM_SECONDS + 30,
        )
        yield
    if earlier:
        suite.roll_back(earlier)
    else:
        suite.uninstall()


def _command(cluster: Cluster, folder: Path) -> str:
    """Return the script of one node; the nodes of the provider `nodes` see folders of this machine by a mount."""
    if cluster.provider == "nodes":
        seen = "/run/bundle"
        mount = f"mkdir -p {seen} && mount -t hostfs -o {folder.resolve()} none {seen} && trap 'umount {seen}' EXIT"
        return f"set -e\n{mount}\n{seen}/load.sh node"
    if cluster.provider == "local":
        return f"CONTAINERD_ADDRESS={layout.Layout().containerd_socket} {folder}/load.sh node"
    pytest.skip(f"no way to the nodes of {cluster.provider}")


@pytest.mark.usefixtures("installed")
def test_the_bundle_installs_and_its_examples_run_without_any_registry(
    cluster: Cluster, cluster_client: ClusterClient, unpacked: Path
) -> None:
    cluster.run("helm", "test", RELEASE, "--namespace", SUITE_NAMESPACE, "--logs", timeout_seconds=HELM_SECONDS)
    pods = cluster.get("pods", "--namespace", SUITE_NAMESPACE)["items"]
    images = {container["image"] for pod in pods for container in pod["spec"]["containers"]}
    configuration = yaml.safe_load((unpacked / "examples" / "colocation-config.yaml").read_text())
    colocation = json.loads(configuration["data"][slo_config.KEY])
    # The page waits for warm Prod pods; what nothing requests is offered at once.
    slo_config.write(cluster_client, {**colocation, "midUnallocatedPercent": 50})
    for example in ("prod", "mid"):
        document = yaml.safe_load((unpacked / "examples" / f"{example}-deployment.yaml").read_text())
        (container,) = document["spec"]["template"]["spec"]["containers"]
        if example == "prod":
            container["resources"] = {"limits": {"cpu": "50m", "memory": "64Mi"}}  # what the nodes of a test have
        name = document["metadata"]["name"]
        cluster.run("apply", "--filename=-", stdin=json.dumps(document))
        cluster.run("rollout", "status", f"deployment/{name}", "--timeout=180s", timeout_seconds=210)
        cluster.run("delete", "deployment", name)
        images.add(container["image"])
    assert images
    assert all(image.startswith(f"{bundle.REGISTRY}/") for image in images)
