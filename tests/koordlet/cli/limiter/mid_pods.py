"""Mid pods as the agent sees them."""

import msgspec

from api_types.mid_pods import cpu_limits
from koordlet.cluster import pods as pods_on_node

UID = "11111111-2222-3333-4444-555555555555"
MID = {"kubernetes.io/mid-cpu": "500", "kubernetes.io/mid-memory": "64Mi"}


def pod(priority=7000, label="", native=None, phase="Running", mid=None, limits=None):
    """Return a pod of the node with one container."""
    amounts = {**(MID if mid is None else mid), **(native or {})}
    body = {
        "metadata": {
            "namespace": "jobs",
            "name": "mid",
            "uid": UID,
            "labels": {"koordinator.sh/priority-class": label} if label else {},
        },
        "spec": {
            "nodeName": "n",
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": amounts, "limits": limits or amounts}}],
        },
        "status": {"phase": phase, "startTime": "2026-01-01T00:00:00Z"},
    }

    return pods_on_node.describe(msgspec.convert(body, cpu_limits.WrittenPod), "n")


def table(*known, synced=True):
    """Return a table of the node's pods."""
    found = pods_on_node.PodTable()
    if synced:
        found.keep_only([])
    for each in known:
        found.put(each)
    return found
