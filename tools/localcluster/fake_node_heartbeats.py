"""Background process of fake nodes: renews their Leases and finishes the deletion of their pods.

KUBECONFIG=... python -m tools.localcluster.fake_node_heartbeats
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

import kubernetes
from kubernetes.client import (
    CoordinationV1Api,
    CoreV1Api,
    V1DeleteOptions,
    V1Lease,
    V1LeaseSpec,
    V1Node,
    V1ObjectMeta,
    V1OwnerReference,
)
from kubernetes.client.exceptions import ApiException

from tools.localcluster import fake_nodes, layout

NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40  # as kubelets request
DELETE_EVERY_SECONDS = 2.0
RENEW_EVERY_ROUNDS = 8  # every 16 s; the controller manager marks a node unreachable after 50 s


def renew(leases: CoordinationV1Api, uids: Mapping[str, str], now: dt.datetime) -> None:
    """Renew or create the Lease of every node (name -> uid). Kubernetes deletes a Lease together with its node."""
    for name, uid in uids.items():
        owner = V1OwnerReference(api_version="v1", kind="Node", name=name, uid=uid)
        metadata = V1ObjectMeta(name=name, namespace=NAMESPACE, owner_references=[owner])
        spec = V1LeaseSpec(holder_identity=name, lease_duration_seconds=LEASE_SECONDS, renew_time=now)
        body = V1Lease(metadata=metadata, spec=spec)
        try:
            leases.patch_namespaced_lease(name, NAMESPACE, body)
        except ApiException as refused:
            if refused.status != 404:
                raise
            leases.create_namespaced_lease(NAMESPACE, body)


def report_ready(core: CoreV1Api, nodes: Iterable[V1Node], now: dt.datetime) -> None:
    """Set Ready again on nodes that were marked unreachable, for example after an outage of the apiserver."""
    ready = {"type": "Ready", "status": "True", "reason": "FakeNode", "lastHeartbeatTime": now.isoformat()}
    for node in nodes:
        if any(each.type == "Ready" and each.status != "True" for each in node.status.conditions or ()):
            core.patch_node_status(node.metadata.name, {"status": {"conditions": [ready]}})


def finish_deletions(pods: CoreV1Api) -> None:
    """Finish the deletion of pods on fake nodes, which have no kubelet."""
    # resource_version 0: from the apiserver's cache, so that this costs etcd nothing; raw: models cost ten times more
    listed: Any = pods.list_pod_for_all_namespaces(resource_version="0", _preload_content=False)
    for pod in json.loads(listed.data)["items"]:
        meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
        if "deletionTimestamp" in meta and node.startswith(fake_nodes.PREFIX):
            now = V1DeleteOptions(grace_period_seconds=0)
            pods.delete_namespaced_pod(meta["name"], meta["namespace"], body=now)


def main() -> None:
    """Run until the process is ended; errors of the apiserver are logged and the request is repeated."""
    kubernetes.config.load_kube_config()  # type: ignore[no-untyped-call]
    core, leases = CoreV1Api(), CoordinationV1Api()
    for round_number in itertools.count():
        try:
            if round_number % RENEW_EVERY_ROUNDS == 0:
                listed = core.list_node(label_selector=layout.FAKE_NODE_LABEL, resource_version="0").items
                uids = {str(item.metadata.name): str(item.metadata.uid) for item in listed if item.metadata}
                renew(leases, uids, dt.datetime.now(dt.UTC))
                report_ready(core, listed, dt.datetime.now(dt.UTC))
            finish_deletions(core)
        except Exception as problem:
            print(f"heartbeats: {problem}", file=sys.stderr, flush=True)
        time.sleep(DELETE_EVERY_SECONDS)


if __name__ == "__main__":
    main()
