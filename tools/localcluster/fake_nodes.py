"""Nodes without a machine: Node objects that heartbeats keep Ready, for tests of placement among many nodes.

They are tainted and labelled, so only pods with the toleration land on them. A pod bound to one stays Pending, which a
scheduler counts like a running pod. `fake_node_heartbeats` does the rest of a kubelet's duties, in the background as
long as there are fake nodes.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sys
from typing import Any

from tools.localcluster import content_cache, progress
from tools.localcluster.access import Cluster
from tools.localcluster.host import processes
from tools.localcluster.host.processes import Program
from tools.localcluster.layout import FAKE_NODE_LABEL

PREFIX = "fake-"
CAPACITY = {"cpu": "16", "memory": "65536Mi", "ephemeral-storage": "100Gi", "pods": "110"}
ALLOCATABLE = {**CAPACITY, "cpu": "15500m", "memory": "63488Mi"}

FOLDER = content_cache.ROOT / "fake-nodes"
HEARTBEATS = "heartbeats"


def node(index: int, now: dt.datetime) -> dict[str, Any]:
    """Return the Node object of one fake node, Ready as of `now`."""
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    name = f"{PREFIX}{index}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            # Without the label of the operating system: kind's own DaemonSets, which tolerate every taint, want Linux.
            "labels": {FAKE_NODE_LABEL: "true", "kubernetes.io/hostname": name},
        },
        "spec": {"taints": [{"key": FAKE_NODE_LABEL, "value": "true", "effect": "NoSchedule"}]},
        "status": {
            "capacity": dict(CAPACITY),
            "allocatable": dict(ALLOCATABLE),
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "FakeNode",
                    "message": "kept ready by tools.localcluster",
                    "lastHeartbeatTime": stamp,
                    "lastTransitionTime": stamp,
                }
            ],
        },
    }


def set_count(cluster: Cluster, count: int) -> None:
    """Register or remove fake nodes until there are `count`, and keep them Ready. 0 ends the heartbeats."""
    present = {item["metadata"]["name"] for item in cluster.get("nodes", f"--selector={FAKE_NODE_LABEL}")["items"]}
    wanted = {f"{PREFIX}{index}": index for index in range(count)}
    surplus, lacking = sorted(present - set(wanted)), [wanted[name] for name in wanted if name not in present]
    if surplus:
        with progress.step(f"removing {len(surplus)} fake nodes"):
            cluster.run("delete", "node", "--wait=false", *surplus)
    if lacking:
        now = dt.datetime.now(dt.UTC)
        with progress.step(f"registering {len(lacking)} fake nodes"):
            listed = {"apiVersion": "v1", "kind": "List", "items": [node(index, now) for index in lacking]}
            cluster.run("create", "--filename=-", stdin=json.dumps(listed))
    if count == 0:
        stop_heartbeats()
    else:
        processes.start(heartbeats(cluster), FOLDER)
        ready = "--for=condition=Ready"
        cluster.run("wait", "node", ready, f"--selector={FAKE_NODE_LABEL}", "--timeout=60s")
        progress.report(f"{count} fake nodes are Ready")


def heartbeats(cluster: Cluster) -> Program:
    """Return the command of the background process."""
    environment = {"KUBECONFIG": str(cluster.kubeconfig), "PYTHONPATH": str(content_cache.REPOSITORY)}
    return Program(HEARTBEATS, [sys.executable, "-m", "tools.localcluster.fake_node_heartbeats"], environment)


def stop_heartbeats() -> None:
    """End the background process, if it runs."""
    processes.stop(HEARTBEATS, FOLDER)
    shutil.rmtree(FOLDER, ignore_errors=True)
