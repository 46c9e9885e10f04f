"""Access to the cluster through the official client: objects as plain dicts, quantities parsed by the client."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from kubernetes import client, config, dynamic
from kubernetes.client.exceptions import ApiException
from kubernetes.utils.quantity import parse_quantity

from e2e.support import waiting
from e2e.support.names import MID_CPU, MID_MEMORY, STATUS_ANNOTATION

_GONE = 404
_API_VERSIONS = {
    "NodeMetric": "slo.koordinator.sh/v1alpha1",
    "Deployment": "apps/v1",
    "DaemonSet": "apps/v1",
    "Lease": "coordination.k8s.io/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
}

Dict = dict[str, Any]


def moment(text: str) -> dt.datetime:
    """Parse a time in the format of the apiserver."""
    return dt.datetime.fromisoformat(text)


def cpu_millis(quantity: str) -> int:
    """Return the whole milli-cores of a native CPU quantity."""
    return int(parse_quantity(quantity) * 1000)


def units(quantity: str) -> int:
    """Return the whole units of any other quantity, rounded up as Kubernetes does."""
    return math.ceil(parse_quantity(quantity))


def cores_or_bytes(resources: Mapping[str, str]) -> tuple[Decimal, Decimal]:
    """Return CPU in cores and memory in bytes of a native resource list."""
    return parse_quantity(resources["cpu"]), parse_quantity(resources["memory"])


class ClusterClient:
    """Reads and writes objects by kind."""

    def __init__(self, kubeconfig: Path) -> None:
        self.api_client = config.new_client_from_config(str(kubeconfig))
        self.dynamic = dynamic.DynamicClient(self.api_client)
        self.core = client.CoreV1Api(self.api_client)

    def close(self) -> None:
        """Close connections."""
        self.api_client.close()

    def _kind(self, kind: str) -> Any:
        return self.dynamic.resources.get(api_version=_API_VERSIONS.get(kind, "v1"), kind=kind)

    def get(self, kind: str, name: str, namespace: str | None = None) -> Dict:
        """Return one object. Raises ApiException."""
        return self._kind(kind).get(name=name, namespace=namespace).to_dict()

    def find(self, kind: str, name: str, namespace: str | None = None) -> Dict | None:
        """Return one object, or None."""
        try:
            return self.get(kind, name, namespace)
        except ApiException as refused:
            if refused.status == _GONE:
                return None
            raise

    def list(self, kind: str, namespace: str | None = None, **selectors: str) -> list[Dict]:
        """Return the objects of a kind; selectors are `label_selector` and `field_selector`."""
        return self._kind(kind).get(namespace=namespace, **selectors).to_dict()["items"]

    def create(self, kind: str, body: Dict, namespace: str | None = None) -> Dict:
        """Create an object."""
        return self._kind(kind).create(body=body, namespace=namespace).to_dict()

    def patch(self, kind: str, name: str, body: Dict, namespace: str | None = None) -> Dict:
        """Apply a merge patch to an object."""
        content_type = "application/merge-patch+json"
        return self._kind(kind).patch(body=body, name=name, namespace=namespace, content_type=content_type).to_dict()

    def patch_status(self, kind: str, name: str, body: Dict, **options: str) -> Dict:
        """Apply a merge patch to the status of a cluster-scoped object; with `dry_run="All"` only check permission."""
        status = self._kind(kind).status
        return status.patch(body=body, name=name, content_type="application/merge-patch+json", **options).to_dict()

    def delete(self, kind: str, name: str, namespace: str | None = None, *, grace_seconds: int | None = None) -> None:
        """Delete an object; a missing object is fine."""
        options = {} if grace_seconds is None else {"body": {"gracePeriodSeconds": grace_seconds}}
        try:
            self._kind(kind).delete(name=name, namespace=namespace, **options)
        except ApiException as refused:
            if refused.status != _GONE:
                raise

    # shortcuts of many cases

    def node_metric(self, node: str) -> Dict:
        """Return the NodeMetric of a node."""
        return self.get("NodeMetric", node)

    def mid(self, node: str) -> tuple[int, int] | None:
        """Return Mid CPU (milli-cores) and memory (bytes) of a node, or None when it has none.

        Capacity and allocatable must be equal, and both keys must be present or absent together.
        """
        status = self.get("Node", node)["status"]
        offers = [
            {key: status[part][key] for key in (MID_CPU, MID_MEMORY) if key in status[part]}
            for part in ("capacity", "allocatable")
        ]
        assert offers[0] == offers[1], f"capacity and allocatable of {node} disagree on Mid: {offers}"
        assert len(offers[0]) in {0, 2}, f"{node} carries one Mid resource without the other: {offers[0]}"
        return (units(offers[0][MID_CPU]), units(offers[0][MID_MEMORY])) if offers[0] else None

    def mid_status(self, node: str) -> Dict | None:
        """Return the status annotation of a node's Mid resources, or None."""
        text = (self.get("Node", node)["metadata"].get("annotations") or {}).get(STATUS_ANNOTATION)
        return json.loads(text) if text else None

    def events_of(self, name: str, namespace: str, reason: str | None = None) -> list[Dict]:
        """Return the Events about an object, by its name."""
        selector = f"involvedObject.name={name}" + (f",reason={reason}" if reason else "")
        return self.list("Event", namespace, field_selector=selector)

    def pod_phase(self, name: str, namespace: str) -> str:
        """Return the phase of a pod, with its reason if any."""
        status = self.get("Pod", name, namespace)["status"]
        return status["phase"] + (f" ({status['reason']}: {status.get('message')})" if status.get("reason") else "")

    def wait_running(self, namespace: str, *names: str, within_seconds: float = 90.0) -> None:
        """Wait until pods run."""
        for name in names:
            waiting.until(
                f"pod {namespace}/{name} runs",
                lambda name=name: self.pod_phase(name, namespace),
                lambda phase: phase == "Running",
                within_seconds=within_seconds,
            )

    def wait_report(self, node: str, after: dt.datetime, *, within_seconds: float = 90.0) -> Dict:
        """Wait for a report whose sample is not older than `after`."""
        return waiting.until(
            f"NodeMetric {node} with a sample of {after:%H:%M:%S} or later",
            lambda: self.node_metric(node),
            lambda seen: "updateTime" in (seen.get("status") or {}) and moment(seen["status"]["updateTime"]) >= after,
            within_seconds=within_seconds,
        )
