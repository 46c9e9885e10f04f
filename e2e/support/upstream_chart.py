"""Names and kinds of the objects of Koordinator's chart 1.8.0, as its release owns them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from e2e.support import upstream_crd

NAMESPACE, RELEASE = "koordinator-system", "koordinator"
_NAMESPACED = {
    "ServiceAccount": ("koord-manager", "koord-scheduler", "koord-descheduler", "koordlet"),
    "ConfigMap": ("slo-controller-config", "koord-scheduler-config", "koord-descheduler-config"),
    "Secret": ("koordinator-webhook-certs",),
}
_PARTS = {
    "manager": ("Deployment", "koord-manager"),
    "scheduler": ("Deployment", "koord-scheduler"),
    "descheduler": ("Deployment", "koord-descheduler"),
    "koordlet": ("DaemonSet", "koordlet"),
}


def objects(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the objects; of `values` the replicas of a part and the affinity of koordlet have an effect."""
    for kind, names in _NAMESPACED.items():
        yield from (_object("v1", kind, name, NAMESPACE) for name in names)
    for part, (kind, name) in _PARTS.items():
        yield _object("apps/v1", kind, name, NAMESPACE) | {"spec": _spec(kind, name, values.get(part, {}))}
    for item in (upstream_crd.crd(), upstream_crd.node_slo_crd(), *upstream_crd.priority_classes()):
        yield {**item, **_object(item["apiVersion"], item["kind"], item["metadata"]["name"], "")}


def _object(version: str, kind: str, name: str, namespace: str) -> dict[str, Any]:
    owner = {"meta.helm.sh/release-name": RELEASE, "meta.helm.sh/release-namespace": "default"}
    labels = {"app.kubernetes.io/managed-by": "Helm", "koord-app": name}
    metadata = {"name": name, "labels": labels, "annotations": owner} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _spec(kind: str, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"koord-app": name}
    pod = {"containers": [{"name": name, "image": name}], "affinity": values.get("nodeAffinity")}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return spec | ({"replicas": values.get("replicas", 2)} if kind == "Deployment" else {})
