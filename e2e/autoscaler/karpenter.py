"""Karpenter's core with its kwok provider, and kwok in place of kubelets: build, start, objects.

Both are built from pinned modules: each wants Kubernetes libraries of its own version. Karpenter makes the Node objects
by itself; kwok makes them Ready, starts their pods, and ends a deleted pod when its grace period is over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tools.localcluster import apiserver_requests, go_binaries, health, progress
from tools.localcluster.apiserver_requests import Connection
from tools.localcluster.host import commands, ports
from tools.localcluster.standalone_control_plane import ControlPlane

MODULES: Final = Path(__file__).parent / "go"
STAGES: Final = Path(__file__).parent / "kwok-stages.yaml"
NODE_CORES, NODE_GIB = 8, 32
POOL: Final = "general"
NODE_CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
NODE_POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
DISRUPTED_TAINT: Final = "karpenter.sh/disrupted"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NODE_CLASSES: Final = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
_START_SECONDS: Final = 120.0


def install(plane: ControlPlane, api: Connection, *, consolidate_after_seconds: int = 15) -> None:
    """Create Karpenter's resources, the one pool of nodes, and the class that its provider wants."""
    for crd in _crds():
        api.send("POST", _CRDS, crd)
    for path in (NODE_CLAIMS, NODE_POOLS, _NODE_CLASSES):
        progress.wait_until(
            f"{path} served",
            lambda path=path: apiserver_requests.exists(api, path),
            60,
            otherwise=lambda: None,
            poll=0.2,
        )
    api.send("POST", _NODE_CLASSES, {**_kind("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass"), "spec": {}})
    api.send("POST", NODE_POOLS, _pool(consolidate_after_seconds))
    (plane.places.state / "instance-types.json").write_text(json.dumps([_instance_type()]))


def start(plane: ControlPlane, **environment: str) -> None:
    """Start both programs and wait until Karpenter is ready. `environment` has more of Karpenter's settings."""
    kwok = go_binaries.program_of("sigs.k8s.io/kwok/cmd/kwok", MODULES / "kwok", "go-kwok")
    karpenter = go_binaries.program_of("sigs.k8s.io/karpenter/kwok", MODULES / "karpenter", "go-karpenter")
    plane.start(
        "kwok",
        kwok,
        f"--kubeconfig={plane.kubeconfig}",
        f"--config={STAGES}",
        "--manage-nodes-with-label-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        "--server-address=",
    )
    pages, probes = ports.free_ports(2)
    settings = {
        "KUBECONFIG": str(plane.kubeconfig),
        "INSTANCE_TYPES_FILE_PATH": str(plane.places.state / "instance-types.json"),
        "DISABLE_LEADER_ELECTION": "true",
        "METRICS_PORT": str(pages),
        "HEALTH_PROBE_PORT": str(probes),
        "LOG_LEVEL": "debug",
    }
    plane.start("karpenter", karpenter, **settings | environment)
    health.wait(
        "Karpenter ready",
        lambda: health.responds(f"http://127.0.0.1:{probes}/readyz"),
        _START_SECONDS,
        "karpenter",
        plane.places.processes,
    )


def _crds() -> Iterator[dict[str, Any]]:
    words = ["go", "mod", "download", "-json", "sigs.k8s.io/karpenter"]
    found = json.loads(commands.download(words, folder=MODULES / "karpenter"))
    for folder in ("pkg/apis/crds", "kwok/apis/crds"):
        for file in sorted((Path(found["Dir"]) / folder).glob("*.yaml")):
            yield yaml.safe_load(file.read_text())


def _kind(version: str, kind: str, name: str = POOL) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _pool(consolidate_after_seconds: int) -> dict[str, Any]:
    node_class = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": POOL}
    capacity = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    return {
        **_kind("karpenter.sh/v1", "NodePool"),
        "spec": {
            "template": {"spec": {"nodeClassRef": node_class, "requirements": [capacity], "expireAfter": "Never"}},
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": f"{consolidate_after_seconds}s",
                "budgets": [{"nodes": "20%"}],
            },
        },
    }


def _instance_type() -> Mapping[str, Any]:
    """Return the one type of instance: nodes of equal size make hours of nodes comparable."""
    where = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "zone-a"}
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in where.items()]
    return {
        "name": f"standard-{NODE_CORES}",
        "offerings": [{"Price": 0.4, "Available": True, "Requirements": requirements}],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": str(NODE_CORES), "memory": f"{NODE_GIB}Gi", "ephemeral-storage": "100Gi"},
    }
