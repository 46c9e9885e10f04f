"""Who holds the Mid resources of a namespace."""

import json

from scheduler_plugin.decisions import metrics, pages
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW


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
