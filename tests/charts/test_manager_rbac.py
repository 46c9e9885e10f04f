"""Cluster-wide permissions of the manager."""

from tests.charts import chart


def test_the_manager_watches_neither_namespaces_nor_crds():
    rules = chart.render().of_kind("ClusterRole")["koord-suite-manager"]["rules"]
    assert all("namespaces" not in rule["resources"] for rule in rules)
    (crds,) = [rule for rule in rules if "customresourcedefinitions" in rule["resources"]]
    assert (crds["verbs"], crds["resourceNames"]) == (["list"], ["nodemetrics.slo.koordinator.sh"])
