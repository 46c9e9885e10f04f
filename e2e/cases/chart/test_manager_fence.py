"""Every field of a node that this cluster's API knows, except for Mid resources and one annotation, is out of reach.

The fields are those of the cluster's own OpenAPI document: a field that only a later version of Kubernetes has is tried
too, and fails the test under its name if the manager could change it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from e2e.support import impersonation, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import CONFIG_MAP, SUITE_NAMESPACE
from tools.localcluster.access import Cluster

MARK, NUMBER = "koordmarker", 43210
STATUS_MAY_CHANGE = {"allocatable", "capacity"}  # only their Mid keys: test_least_privilege
METADATA_MAY_CHANGE = {"annotations", "managedFields", "resourceVersion"}
"""Only one key of the first; the API server's own record of writers; the precondition of a write."""
IMMUTABLE = {HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY}
"""Answers to a change of a name, UID or version, which the API server refuses to everybody."""
VALID = {
    "declaredFeatures": ["KoordMarker"],
    "finalizers": [f"example.com/{MARK}"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": MARK, "uid": MARK}],
    "config": {"active": {"configMap": {"namespace": MARK, "name": MARK, "uid": MARK, "resourceVersion": "1",
                                        "kubeletConfigKey": MARK}}},
}  # fmt: skip
"""Samples where a generic one would be invalid."""


@pytest.fixture(scope="module")
def manager(cluster: Cluster, suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterClient]:
    """Return the cluster with the rights of the manager."""
    pod, folder = suite.pods("koord-manager")[0], tmp_path_factory.mktemp("manager")
    client = ClusterClient(impersonation.service_account(cluster, "koord-manager", folder, pod=pod).kubeconfig)
    yield client
    client.close()


@functools.cache
def _schemas(cluster: Cluster) -> dict[str, Any]:
    return json.loads(cluster.run("get", "--raw", "/openapi/v3/api/v1"))["components"]["schemas"]


def _fields(cluster: Cluster, kind: str) -> dict[str, Any]:
    return _schemas(cluster)[kind]["properties"]


def _sample(cluster: Cluster, schema: dict[str, Any]) -> Any:
    """Return a value of a type, with the marker in each of its texts and numbers."""
    for part in schema.get("allOf", ()):
        schema = {**schema, **part}
    if "$ref" in schema:
        schema = _schemas(cluster)[schema["$ref"].rpartition("/")[2]]
    match schema.get("type"):
        case "array":
            return [_sample(cluster, schema["items"])]
        case "object" if "additionalProperties" in schema:
            return {MARK: _sample(cluster, schema["additionalProperties"])}
        case "object":
            return {name: _sample(cluster, below) for name, below in schema.get("properties", {}).items()}
        case "integer" | "number":
            return NUMBER
        case "boolean":
            return True
        case _:
            return "2099-01-01T00:00:00Z" if schema.get("format") == "date-time" else MARK


def _carries_mark(value: Any) -> bool:
    text = json.dumps(value, default=str).lower()
    return any(mark in text for mark in (MARK, str(NUMBER), "2099-01-01"))


def _reached(cluster: Cluster, manager: ClusterClient, node: str, part: str, kind: str, exempt: set[str]) -> list[str]:
    """Return the fields that a write of the manager reaches, or whose sample is no test, each with the answer."""
    found = []
    for field, schema in _fields(cluster, kind).items():
        if field in exempt:
            continue
        wrong = VALID.get(field, _sample(cluster, schema))
        try:
            made = manager.patch_status("Node", node, {part: {field: wrong}}, dry_run="All")
        except ApiException as refused:
            is_fenced = refused.status == HTTPStatus.FORBIDDEN and "koord-manager may change only" in refused.body
            if not is_fenced and not (part == "metadata" and refused.status in IMMUTABLE):
                found.append(f"{part}.{field}: {refused.status} {refused.body}")
        else:
            if _carries_mark(made[part].get(field)):
                found.append(f"{part}.{field}: written: {made[part][field]}")
    return found


def test_the_manager_reaches_no_field_of_a_nodes_status_but_two(
    cluster: Cluster, manager: ClusterClient, fake_nodes: list[str]
) -> None:
    kind = "io.k8s.api.core.v1.NodeStatus"
    assert {*STATUS_MAY_CHANGE, "conditions", "nodeInfo", "images"} <= set(_fields(cluster, kind))
    assert _reached(cluster, manager, fake_nodes[0], "status", kind, STATUS_MAY_CHANGE) == []


def test_the_manager_reaches_no_metadata_of_a_node_but_annotations(
    cluster: Cluster, manager: ClusterClient, fake_nodes: list[str]
) -> None:
    kind = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    assert {*METADATA_MAY_CHANGE, "labels", "finalizers"} <= set(_fields(cluster, kind))
    assert _reached(cluster, manager, fake_nodes[0], "metadata", kind, METADATA_MAY_CHANGE) == []


def test_the_probe_finds_fields_that_are_not_fenced(
    cluster: Cluster, manager: ClusterClient, fake_nodes: list[str]
) -> None:
    kind = "io.k8s.api.core.v1.NodeStatus"
    with impersonation.without_policy(cluster, "koord-suite-manager-nodes"):
        waiting.until(
            "fields are written",
            lambda: {
                text.partition(":")[0]
                for text in _reached(cluster, manager, fake_nodes[0], "status", kind, STATUS_MAY_CHANGE)
            },
            lambda seen: seen >= {"status.phase", "status.images", "status.volumesInUse"},
            within_seconds=20,
        )


def _can(manager: ClusterClient, verb: str, resource: str, *, name: str = "", namespace: str = "") -> bool:
    plural, _, group = resource.partition(".")
    attributes = {"verb": verb, "group": group, "resource": plural, "name": name, "namespace": namespace}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    kind = manager.dynamic.resources.get(api_version=review["apiVersion"], kind=review["kind"])
    answer = kind.create(body={**review, "spec": {"resourceAttributes": attributes}})
    return bool(answer.status.allowed)


HERE = SUITE_NAMESPACE
LAST_GOOD = "koord-manager-last-good-config"


@pytest.mark.parametrize(
    ("verb", "resource", "name", "namespace", "expected"),
    [
        ("list", "namespaces", "", "", False),
        ("list", "customresourcedefinitions.apiextensions.k8s.io", "", "", False),
        ("get", "customresourcedefinitions.apiextensions.k8s.io", "nodemetrics.slo.koordinator.sh", "", False),
        ("list", "configmaps", "", HERE, True),  # histories of workloads, whose names it cannot know
        ("create", "configmaps", "", HERE, True),  # those alone: the policy koord-suite-manager-history
        ("list", "configmaps", "", "kube-system", False),
        ("watch", "configmaps", "", HERE, False),
        ("get", "configmaps", "kube-root-ca.crt", HERE, False),
        ("get", "secrets", "", HERE, False),
        ("get", "configmaps", CONFIG_MAP, "kube-system", False),
        ("update", "nodes", "", "", False),
        ("delete", "nodes", "", "", False),
        ("delete", "pods", "", HERE, False),
        ("update", "nodemetrics/status.slo.koordinator.sh", "", "", False),
        ("list", "configmaps", CONFIG_MAP, HERE, True),
        ("watch", "configmaps", CONFIG_MAP, HERE, True),
        ("patch", "configmaps", CONFIG_MAP, HERE, True),
        ("patch", "configmaps", LAST_GOOD, HERE, True),
        ("list", "pods", "", "", True),
    ],
)
def test_the_manager_has_no_permission_beyond_its_duties(
    manager: ClusterClient, verb: str, resource: str, name: str, namespace: str, expected: bool
) -> None:
    assert _can(manager, verb, resource, name=name, namespace=namespace) is expected


def test_the_manager_writes_no_config_map_but_its_own(manager: ClusterClient) -> None:
    stranger = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MARK, "namespace": SUITE_NAMESPACE}}
    with pytest.raises(ApiException) as refused:
        manager.create("ConfigMap", stranger, SUITE_NAMESPACE)
    assert "koord-suite-manager-history" in refused.value.body
