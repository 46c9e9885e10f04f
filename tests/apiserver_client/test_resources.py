"""Paths of objects and collections, as in the API reference of Kubernetes."""

import pytest

from apiserver_client import resources


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (resources.NODES.path(), "/api/v1/nodes"),
        (resources.NODES.path("n1", subresource="status"), "/api/v1/nodes/n1/status"),
        (resources.PODS.path(), "/api/v1/pods"),
        (resources.PODS.path(namespace="a"), "/api/v1/namespaces/a/pods"),
        (resources.PODS.path("p", namespace="a"), "/api/v1/namespaces/a/pods/p"),
        (resources.LEASES.path("l", namespace="a"), "/apis/coordination.k8s.io/v1/namespaces/a/leases/l"),
        (resources.NODE_METRICS.path("n1"), "/apis/slo.koordinator.sh/v1alpha1/nodemetrics/n1"),
    ],
)
def test_paths_are_those_of_the_api_reference(path, expected):
    assert path == expected


@pytest.mark.parametrize(
    ("resource", "name", "namespace"),
    [
        (resources.PODS, "p", None),
        (resources.PODS, "p", ""),
        (resources.PODS, None, ""),
        (resources.NODES, "n", "a"),
        (resources.NODES, "", None),
    ],
)
def test_a_name_without_its_namespace_or_with_a_foreign_one_is_refused(resource, name, namespace):
    with pytest.raises(ValueError, match=resource.kind if namespace != "a" else "cluster-wide"):
        resource.path(name, namespace=namespace)
