"""The operator framework leaves nothing on objects: no annotation, no finalizer, no progress in a status."""

from __future__ import annotations

import json

from e2e.support.installation import Suite
from tools.localcluster.access import Cluster


def test_no_object_of_the_cluster_carries_an_annotation_or_finalizer_of_kopf(cluster: Cluster, suite: Suite) -> None:
    kinds = cluster.run("api-resources", "--verbs=list", "--output=name").split()
    seen = 0
    for kind in kinds:
        for item in json.loads(cluster.run("get", kind, "--all-namespaces", "--output=json"))["items"]:
            seen += 1
            metadata = item["metadata"]
            marks = [*(metadata.get("annotations") or {}), *(metadata.get("finalizers") or ())]
            where = f"{kind} {metadata.get('namespace', '')}/{metadata['name']}"
            assert not [mark for mark in marks if "kopf" in mark.lower()], where
            status = item.get("status")
            assert not (isinstance(status, dict) and "kopf" in status), where
    assert seen > 100, "a running cluster has more objects than that"


def test_no_component_creates_kopfs_peering_objects(cluster: Cluster, suite: Suite) -> None:
    assert "kopf" not in cluster.run("get", "crd", "--output=name")
