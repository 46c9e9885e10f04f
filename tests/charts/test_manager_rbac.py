"""Permissions of the manager: every request of a leader is granted by the chart's roles, and nothing wide is."""

import pytest

from apiserver_client import resources
from component_base import clock
from tests.charts import chart
from tests.fakes import cluster
from tests.manager.conftest import NAMESPACE
from tests.manager.test_leader import add_node, configure, leader, mid_cpu, report, until

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_GROUPS = {each.plural: each.group for each in vars(resources).values() if isinstance(each, resources.Resource)}


def rules():
    """Return (namespace or "", rule) of every rule of the manager."""
    rendered = chart.render()
    wide = [("", rule) for rule in rendered.of_kind("ClusterRole")["koord-suite-manager"]["rules"]]
    roles = [rendered.of_kind("Role")[name] for name in ("koord-manager", "koord-suite-manager-node-events")]
    return wide + [(role["metadata"]["namespace"], rule) for role in roles for rule in role["rules"]]


def attributes(request):
    """Return namespace, group, resource, verb and name of a request, as kube-apiserver hands them to RBAC.

    Of a list or watch the name is that of the field selector metadata.name.
    """
    plural, namespace, name, subresource = cluster._address(request.path)
    if request.method in {"GET", "WATCH"}:
        verb = "watch" if request.method == "WATCH" else "get" if name else "list"
        name = name or request.query.get("fieldSelector", "").partition("metadata.name=")[2]
    else:
        verb = _VERBS[request.method]
    return namespace, _GROUPS[plural], "/".join(filter(None, (plural, subresource))), verb, name


def is_granted(request):
    namespace, group, resource, verb, name = attributes(request)
    return any(
        of in {"", namespace}
        and group in rule["apiGroups"]
        and resource in rule["resources"]
        and verb in rule["verbs"]
        and name in rule.get("resourceNames", [name])
        for of, rule in rules()
    )


def test_the_manager_has_no_permission_for_namespaces_or_crds():
    for _, rule in rules():
        assert not {"namespaces", "customresourcedefinitions"} & set(rule["resources"])


@pytest.mark.parametrize("resource", ["configmaps", "secrets", "leases"])
def test_objects_of_its_namespace_are_granted_by_name(resource):
    unnamed = {
        verb for _, rule in rules() if resource in rule["resources"] and "resourceNames" not in rule
        for verb in rule["verbs"]
    }  # fmt: skip
    assert unnamed == ({"create"} if resource == "leases" else set())


def named(request):
    """Check whether a request is about a resource, not for the documents of discovery."""
    return not cluster.discovery(request.path) and "/openapi/" not in request.path


async def test_the_roles_of_the_chart_grant_every_request_of_a_leader():
    async with cluster.running() as server:
        server.now = clock.utc_now().replace(microsecond=0)
        add_node(server, "n1")
        server.add("nodemetrics", {"metadata": {"name": "of-a-node-that-is-gone"}})
        configure(server, {"enable": True, "midEviction": {"mode": "evict"}})
        stored = {"metadata": {"name": "koord-manager-last-good-config"}}  # created by the chart
        server.add("configmaps", stored, NAMESPACE)
        async with leader(server):
            await until(lambda: server.get("nodemetrics", "n1"))
            report(server, "n1", "2")
            await until(lambda: mid_cpu(server, "n1"))
            configure(server, {"enable": "broken"})
            await until(lambda: server.all("events"))
            await until(lambda: len(server.all("nodemetrics")) == 1)
            watched = ("configmaps", "watch")
            await until(lambda: any(attributes(each)[2:4] == watched for each in server.requests if named(each)))
    # Every authenticated client may read the documents of discovery (system:discovery).
    sent = [each for each in server.requests if named(each)]
    assert [each for each in sent if not is_granted(each)] == []
    assert {attributes(each)[2:4] for each in sent} >= {
        ("configmaps", "list"),
        ("configmaps", "watch"),
        ("nodes/status", "patch"),
        ("nodemetrics", "delete"),
        ("selfsubjectaccessreviews", "create"),
    }
