"""Mid resources by namespace: what counts, and that tenants cannot make more series than the limit."""

import dataclasses

import prometheus_client
from prometheus_client import parser

from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.mid_pods.cpu_limits import MidContainer, ResizablePod
from koordlet.metrics import mid_namespaces
from koordlet.metrics.mid_namespaces import OTHER, MidOfNamespace, by_namespace
from koordlet.samples import UsageSample, pod_key
from tests.koordlet.one_node import GIB, OneNode, StaticCluster, bound_pod


def mid_pod(name, namespace="team-a", cpu=2000, memory=GIB, **overrides):
    requests = {"cpu_request_millis": 0, "mid_cpu_request_millis": cpu, "mid_memory_request_bytes": memory}
    return bound_pod(name, PriorityClass.MID, namespace=namespace, **requests, **overrides)


def lowered(limit, original=2000):
    return ResizablePod("1", (MidContainer("c0", "main", 2000, 10, original, limit, 2000),))


def test_requests_and_usage_are_summed_by_namespace():
    pods = [mid_pod("a"), mid_pod("b"), mid_pod("c", "team-b", 500, 0)]
    newest = {pod_key("a"): UsageSample(0.5, 100), pod_key("b"): UsageSample(1.0, 50)}
    assert by_namespace(pods, newest) == {
        "team-a": MidOfNamespace(4.0, 2 * GIB, 1.5, 150, 0.0),
        "team-b": MidOfNamespace(0.5, 0.0, 0.0, 0.0, 0.0),
    }


def test_pods_of_other_classes_and_pods_that_the_kubelet_has_not_taken_do_not_count():
    pods = [bound_pod("prod"), mid_pod("refused", is_admitted=False)]
    assert by_namespace(pods, {pod_key("prod"): UsageSample(1.0, 1)}) == {}


def test_a_prod_label_on_a_pod_with_mid_requests_leaves_its_usage_to_prod():
    """The sum over the namespaces is that of kind="mid"."""
    pod = dataclasses.replace(mid_pod("a"), priority_class=PriorityClass.PROD)
    assert by_namespace([pod], {pod_key("a"): UsageSample(1.0, 1)})["team-a"] == MidOfNamespace(2.0, GIB, 0, 0, 0)


def test_suppressed_is_below_the_limit_of_the_author_not_below_the_request():
    pods = [mid_pod("a", mid=lowered(500)), mid_pod("b", mid=lowered(1000, original=1200))]
    assert by_namespace(pods, {})["team-a"].suppressed_cpu_cores == 1.7


def test_many_namespaces_share_one_series_and_the_sum_stays():
    pods = [mid_pod(f"p{number}", f"team-{number}", 1000 + number) for number in range(50)]
    found = by_namespace(pods, {}, most=3)
    assert list(found) == ["team-49", "team-48", "team-47", OTHER]
    assert round(sum(each.requested_cpu_cores for each in found.values()), 6) == sum(range(1000, 1050)) / 1000


def test_the_page_has_them_only_while_pods_are_there(tmp_path):
    node = OneNode(tmp_path, StaticCluster(mid_pod("a"), bound_pod("prod")))
    registry = prometheus_client.CollectorRegistry()
    registry.register(mid_namespaces.MidNamespacesCollector(node.observer))
    name = "koordlet_namespace_mid_used_cpu_cores"
    assert _values(registry, name) == {}
    node.pod_cores = {"a": 0.25, "prod": 1.0}
    node.run(3)
    assert _values(registry, name) == {"team-a": 0.25}
    assert _values(registry, "koordlet_namespace_mid_requested_memory_bytes") == {"team-a": GIB}
    node.cluster.pods.drop("team-a", "a")
    node.pod_cores = {"prod": 1.0}
    node.run(1)
    assert _values(registry, name) == {}


def _values(registry, name):
    text = prometheus_client.generate_latest(registry).decode()
    return {
        sample.labels["namespace"]: round(sample.value, 6)
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }
