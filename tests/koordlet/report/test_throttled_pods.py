import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass, QoSClass
from koordlet.cluster.pods import PodOnNode
from koordlet.collectors.node_pressure import NodePressure
from koordlet.collectors.pod_pressure import PodPressure, PodWaits
from koordlet.collectors.statistics import CollectStatistics
from koordlet.report import throttled_pods


def pod(name, priority_class=PriorityClass.PROD):
    return PodOnNode(
        uid=name,
        namespace="shop",
        name=name,
        priority_class=priority_class,
        qos_class=QoSClass.LS,
        cpu_request_millis=1000,
        memory_request_bytes=0,
        mid_cpu_request_millis=0,
        mid_memory_request_bytes=0,
        is_terminated=False,
        is_admitted=True,
        cpu_limit_millis=None,
        container_ids=frozenset(),
    )


def throttled(ratios, pods, tmp_path):
    statistics = CollectStatistics()
    collector = PodPressure(statistics)
    collector.pods = {uid: PodWaits(ratio) for uid, ratio in ratios.items()}
    return throttled_pods.prod([NodePressure(tmp_path, statistics), collector], {each.uid: each for each in pods})


def test_prod_pods_throttled_in_a_quarter_of_the_periods_are_named_the_worst_first(tmp_path):
    ratios = {"a": 0.25, "b": 0.2, "c": 0.9, "d": None, "e": 0.0}
    assert throttled(ratios, map(pod, ratios), tmp_path) == ["shop/c", "shop/a"]


@pytest.mark.parametrize("other", [PriorityClass.MID, PriorityClass.BATCH, PriorityClass.FREE])
def test_throttled_pods_of_other_classes_are_left_out(other, tmp_path):
    assert throttled({"a": 0.9}, [pod("a", other)], tmp_path) == []


def test_a_pod_without_a_class_counts_as_prod_as_in_predictions(tmp_path):
    assert throttled({"a": 0.9}, [pod("a", PriorityClass.NONE)], tmp_path) == ["shop/a"]


def test_a_pod_that_is_not_bound_to_the_node_is_left_out(tmp_path):
    assert throttled({"gone": 0.9}, [], tmp_path) == []
