"""Koordinator's koord-descheduler, as docs/how-to/rebalance.md configures it, over reports as agents write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.support import koord_manager, lone_scheduler
from e2e.support.fake_fleet import now
from e2e.support.lone_scheduler import PODS, LoneScheduler
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODE_METRICS
from tools.localcluster.content_cache import REPOSITORY
from tools.localcluster.host import ports

pytestmark = [pytest.mark.long, pytest.mark.timeout(900, func_only=True)]
PAGE = (REPOSITORY / "docs" / "how-to" / "rebalance.md").read_text()
JOBS = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
REPLICAS = [f"web-{number}" for number in range(6)]


@pytest.fixture
def lone() -> Iterator[LoneScheduler]:
    with lone_scheduler.running() as running:
        koord_manager.install_crds(running.api, but="nodemetrics.slo.koordinator.sh")
        yield running


def test_a_hot_node_loses_a_pod_and_the_scheduler_places_its_successor_elsewhere(
    koord_descheduler: Path, lone: LoneScheduler
) -> None:
    for node, percent in (("hot", 6), ("cold-1", 20), ("cold-2", 30)):
        lone.add_node(node, used_percent=percent)
    owner = _replica_set(lone)
    for name in REPLICAS:
        _run(lone, name, owner)
    _report_hot(lone)
    lone.start()
    _start(koord_descheduler, lone)
    lone.until("a pod left", lambda: set(REPLICAS) - set(lone.pods()))
    (gone, *_) = sorted(set(REPLICAS) - set(lone.pods()))
    _report_hot(lone)
    lone.create_pod(f"{gone}-again")
    lone.wait_bound(f"{gone}-again")
    assert lone.pods()[f"{gone}-again"].node == "cold-1"
    lone.until("the job succeeded", lambda: ("Succeeded", gone) in _jobs(lone))
    assert {name for _, name in _jobs(lone)} <= set(REPLICAS)


def _replica_set(lone: LoneScheduler) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    spec = {"replicas": len(REPLICAS), "selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": "web"}, "spec": spec}
    made = lone.api.send("POST", "/apis/apps/v1/namespaces/default/replicasets", body)
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }


def _run(lone: LoneScheduler, name: str, owner: dict[str, Any]) -> None:
    """Let a pod of the ReplicaSet run on the hot node."""
    lone.create_pod(name, node="hot", priority=9500)
    metadata = {"metadata": {"labels": {"app": "web"}, "ownerReferences": [owner]}}
    lone.api.send("PATCH", f"{PODS}/{name}", metadata, content=MERGE_PATCH)
    types = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ready = [{"type": each, "status": "True", "lastTransitionTime": now()} for each in types]
    status = {"status": {"phase": "Running", "startTime": now(), "conditions": ready}}
    lone.api.send("PATCH", f"{PODS}/{name}/status", status, content=MERGE_PATCH)


def _report_hot(lone: LoneScheduler) -> None:
    """Report 14 cores for each pod, and 6 for the system, as their sum is what koord-descheduler compares."""
    pods = sorted(lone.pods())
    usage = {"resources": {"cpu": "14", "memory": "1Gi"}}
    lone.report("hot", 6 + 14 * len(pods))
    status = {
        "nodeMetric": {"systemUsage": {"resources": {"cpu": "6", "memory": "4Gi"}}},
        "podsMetric": [{"namespace": "default", "name": name, "podUsage": usage} for name in pods],
    }
    lone.api.send("PATCH", f"{NODE_METRICS}/hot/status", {"status": status}, content=MERGE_PATCH)


def _start(program: Path, lone: LoneScheduler) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    address = f"127.0.0.1:{ports.free_port()}"
    document = yaml.safe_load(block) | {
        "deschedulingInterval": "2s",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(lone.plane.kubeconfig)},
        "healthzBindAddress": address,
        "metricsBindAddress": address,
    }
    file = lone.plane.places.state / "koord-descheduler.yaml"
    file.write_text(yaml.safe_dump(document))
    flags = (f"--config={file}", "--bind-address=127.0.0.1", f"--secure-port={ports.free_port()}", "--v=4")
    environment = {"KUBECONFIG": str(lone.plane.kubeconfig), "POD_NAMESPACE": SUITE_NAMESPACE}
    lone.plane.start("koord-descheduler", program, *flags, **environment)


def _jobs(lone: LoneScheduler) -> set[tuple[str, str]]:
    """Return phase and pod of each migration."""
    found = lone.api.send("GET", JOBS)["items"]
    return {(job.get("status", {}).get("phase", ""), job["spec"]["podRef"]["name"]) for job in found}
