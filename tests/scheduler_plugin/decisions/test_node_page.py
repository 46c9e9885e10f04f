"""Page of a node: its pods in their order, and which of them each sum has."""

import json

from scheduler_plugin.decisions import metrics, pages
from scheduler_plugin.state.node_columns import NodeEntry
from scheduler_plugin.state.node_load import NodeLoad
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW
from tests.scheduler_plugin.state.test_node_load import assigned, report

RESOURCES = ("cpu", "memory")


def page(*pods, given=None):
    load = NodeLoad(2, system_in_prod=False)
    for pod in pods:
        load.assign(pod)
    if given is not None:
        load.set_report(given)
    return pages.node_page(NodeEntry("n1", 0, load), RESOURCES)


def test_each_sum_names_the_pods_that_add_something_of_any_resource():
    """`known` is reported above its estimate of CPU, and `whole` above all of its estimate."""
    shown = page(
        assigned("new", (300, 0)),
        assigned("known", (50, 100)),
        assigned("whole", (10, 10)),
        assigned("free", (7, 7), prod=False),
        assigned("none", (0, 0)),
        given=report({"known": (60, 40), "whole": (10, 10)}, ["known", "whole"], updated=0.0),
    )
    assert shown["nodeDelta"] == {"cpu": 300 + 7, "memory": 60 + 7}
    assert shown["prodDelta"] == {"cpu": 300, "memory": 60}
    assert shown["prodUsage"] == {"cpu": 70, "memory": 50}
    assert shown["nodeEstimated"] == {"cpu": 367, "memory": 117}
    assert shown["nodeDeltaPods"] == ["ns/free", "ns/known", "ns/new"]
    assert shown["prodDeltaPods"] == ["ns/known", "ns/new"]
    assert shown["nodeEstimatedPods"] == ["ns/free", "ns/known", "ns/new", "ns/whole"]
    assert (shown["updateTime"], shown["reportIntervalSeconds"]) == (0.0, 60)


def described(quota, count):
    parts = factories.parts()
    parts.cluster.node_changed(factories.node("n1"))
    parts.vectors.mid_quotas.namespace_changed("shop", quota)
    for index in range(count):
        requests = {"kubernetes.io/mid-cpu": str(1000 * (index + 1)), "kubernetes.io/mid-memory": "1Gi"}
        parts.cluster.pod_changed(
            factories.pod(f"p{index:02}", namespace="shop", requests=requests, node="n1", phase="Running"), NOW
        )
    return json.loads(json.dumps(pages.namespace_page("shop", parts.vectors.mid_quotas)))


def test_the_largest_holders_come_first_and_the_others_are_counted():
    document = described('{"cpu": "100"}', 12)
    assert (document["pods"], len(document["largest"])) == (12, 10)
    text = pages.namespace_text(document)
    assert text.startswith("namespace shop holds 78 of 100 cores and 12 GiB of Mid now: shop/p11 12 cores, shop/p10 11")
    assert text.endswith("shop/p02 3 cores, 2 more pods")


def test_a_namespace_that_holds_nothing_and_has_a_malformed_annotation():
    text = pages.namespace_text(described("x", 0))
    assert text == "namespace shop holds 0 of 0 cores and 0 of 0 GiB of Mid now (its annotation mid-quota is malformed)"


def test_the_metrics_of_a_namespace_have_cores_and_bytes_and_a_quota_only_where_there_is_one():
    parts = factories.parts()
    parts.cluster.node_changed(factories.node("n1"))
    parts.vectors.mid_quotas.namespace_changed("shop", '{"cpu": "20"}')
    requests = {"kubernetes.io/mid-cpu": "1500", "kubernetes.io/mid-memory": "1Gi"}
    parts.cluster.pod_changed(factories.pod("p", namespace="shop", requests=requests, node="n1", phase="Running"), NOW)
    samples = {
        sample.name.removeprefix("koord_scheduler_plugin_namespace_mid_"): sample.value
        for family in metrics.MidQuotaCollector(parts.vectors.mid_quotas).collect()
        for sample in family.samples
        if sample.labels == {"namespace": "shop"}
    }
    assert samples == {"held_cpu_cores": 1.5, "held_memory_bytes": 2**30, "quota_cpu_cores": 20.0}
