"""The roles `koord-viewer` have the rights that koordctl checks, and no other."""

from koordctl.check import rights
from tests.charts import chart


def granted(role):
    """Return (verb, resource, group, name) of each right."""
    return {
        (verb, resource, group, name)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
        for group in rule["apiGroups"]
        for name in rule.get("resourceNames", [""])
    }


def wanted(*, in_namespace):
    return {
        (each.verb, each.resource, each.group, each.name) for each in rights.VIEWER if each.in_namespace is in_namespace
    }


def test_the_roles_have_what_koordctl_checks_and_no_more():
    rendered = chart.render()
    assert granted(rendered.of_kind("ClusterRole")["koord-viewer"]) == wanted(in_namespace=False)
    assert granted(rendered.of_kind("Role")["koord-viewer"]) == wanted(in_namespace=True)


def test_the_role_view_gets_node_metrics_only():
    aggregated = [
        role
        for role in chart.render().of_kind("ClusterRole").values()
        if "rbac.authorization.k8s.io/aggregate-to-view" in role["metadata"]["labels"]
    ]
    (role,) = aggregated
    assert {resource for _, resource, _, _ in granted(role)} == {"nodemetrics"}


def test_nobody_has_the_roles_unless_they_are_bound():
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        assert "koord-viewer" not in chart.render().of_kind(kind)
        bound = chart.render("viewer.subjects[0].kind=User", "viewer.subjects[0].name=ann").of_kind(kind)
        assert bound["koord-viewer"]["subjects"] == [{"kind": "User", "name": "ann"}]


def test_the_roles_can_be_left_out():
    assert not any("koord-viewer" in name for name in chart.render("viewer.create=false").of_kind("ClusterRole"))
