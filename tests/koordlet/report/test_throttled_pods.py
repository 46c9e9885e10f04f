import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass, QoSClass
from koordlet.cluster.pods import PodOnNode
from koordlet.collectors.pod_pressure import PodStall
from koordlet.report import throttled_pods


def stalled(name, throttled_ratio, priority_class=PriorityClass.PROD):
    pod = PodOnNode(
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
        container_ids=frozenset(),
    )
    return pod, PodStall(throttled_ratio)


def test_prod_pods_are_named_from_a_quarter_of_the_periods_on_worst_first():
    stalls = [stalled("a", 0.25), stalled("b", 0.2), stalled("c", 0.9), stalled("d", None), stalled("e", 0.0)]
    assert throttled_pods.prod(stalls) == ["shop/c", "shop/a"]


@pytest.mark.parametrize("other", [PriorityClass.MID, PriorityClass.BATCH, PriorityClass.FREE])
def test_throttled_pods_of_other_classes_say_nothing_of_the_peak_of_prod(other):
    assert throttled_pods.prod([stalled("a", 0.9, other)]) == []


def test_a_pod_without_a_class_counts_as_prod_as_it_does_in_predictions():
    assert throttled_pods.prod([stalled("a", 0.9, PriorityClass.NONE)]) == ["shop/a"]
