import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.kubernetes import pods
from api_types.kubernetes import priority_and_qos as pq

FULL = {"cpu": "1", "memory": "1Gi"}
LEAST = {"cpu": "1m", "memory": "1"}


def pod(*, labels=None, priority=None, containers=None, init=None, qos=None):
    value = {
        "metadata": {"labels": labels},
        "spec": {"containers": containers or [], "initContainers": init, "priority": priority},
        "status": {"qosClass": qos or ""},
    }
    return msgspec.json.decode(msgspec.json.encode(value), type=pods.Pod)


def container(requests=None, limits=None):
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}}


@given(st.integers(-10, 12000))
def test_a_priority_belongs_to_the_band_of_its_thousand_or_to_none(priority):
    wanted = {9: "koord-prod", 7: "koord-mid", 5: "koord-batch", 3: "koord-free"}.get(priority // 1000, "")
    assert pq.class_of_priority(priority) == wanted


@pytest.mark.parametrize(("name", "lowest"), [("prod", 9000), ("mid", 7000), ("batch", 5000), ("free", 3000)])
def test_a_band_has_both_of_its_ends(name, lowest):
    found = [pq.class_of_priority(priority) for priority in (lowest - 1, lowest, lowest + 999, lowest + 1000)]
    assert found == ["", f"koord-{name}", f"koord-{name}", ""]


MID = {"kubernetes.io/mid-cpu": "1000"}
LIMITED_MID = container({**MID, "cpu": "0"}, {**MID, "cpu": "1"})


@pytest.mark.parametrize("qos", [None, "LSE", "LSR", "LS", "BE", "SYSTEM"])
@pytest.mark.parametrize("label", [None, "koord-prod", "koord-mid", "koord-batch", "koord-free", "gold", ""])
@pytest.mark.parametrize(
    ("priority", "resources", "expected"),
    [
        (9000, container(FULL), "koord-prod"),
        (9999, container(), "koord-prod"),
        (7000, LIMITED_MID, "koord-mid"),
        (7999, container(FULL), "koord-mid"),
        (5000, LIMITED_MID, "koord-batch"),
        (3000, container(FULL), "koord-free"),
        (2_000_001_000, container(), "koord-prod"),  # kube-proxy of kubeadm
        (1_000_000, container(), "koord-prod"),
        (8000, LIMITED_MID, "koord-prod"),
        (None, LIMITED_MID, "koord-mid"),  # Mid by a label at its creation
        (0, container(MID), "koord-mid"),
        (-5, LIMITED_MID, "koord-mid"),
        (0, container(FULL), "koord-prod"),
        (6999, container(FULL | {"kubernetes.io/mid-cpu": "0"}), "koord-prod"),
        (None, container(), "koord-batch"),
    ],
)
def test_no_label_moves_a_pod_into_another_class(priority, resources, expected, label, qos):
    stated = {"koordinator.sh/priority-class": label, "koordinator.sh/qosClass": qos}
    labels = {name: value for name, value in stated.items() if value is not None}
    assert pq.priority_class(pod(labels=labels, priority=priority, containers=[resources])) == expected


@pytest.mark.parametrize(
    ("subject", "priority_class", "qos_class"),
    [
        (pod(containers=[container()]), "koord-batch", "BE"),
        (pod(containers=[container({"cpu": "1"})]), "koord-prod", "LS"),
        (pod(containers=[container(FULL, FULL)]), "koord-prod", "LSR"),
        (pod(containers=[container(FULL, FULL)], init=[container({"cpu": "1"})]), "koord-prod", "LS"),
        (pod(containers=[container({"kubernetes.io/batch-cpu": "1000"})]), "koord-batch", "BE"),
        (pod(containers=[container(MID)]), "koord-mid", "BE"),
        (pod(containers=[container(MID)], priority=7000), "koord-mid", "BE"),
        (pod(containers=[container()], qos="Guaranteed"), "koord-prod", "LSR"),
        (pod(containers=[container()], labels={"koordinator.sh/qosClass": "SYSTEM"}), "koord-batch", "SYSTEM"),
        (pod(containers=[container({"cpu": "0"})]), "koord-batch", "BE"),
        (pod(containers=[container(FULL)], priority=2_000_001_000), "koord-prod", "LS"),
    ],
)
def test_every_pod_gets_a_class_and_a_qos(subject, priority_class, qos_class):
    assert pq.priority_class(subject) == priority_class
    assert pq.qos_class(subject) == qos_class


def test_a_tier_requests_native_resources_under_its_own_names():
    assert pq.translated_resource(pq.PriorityClass.MID, "cpu") == "kubernetes.io/mid-cpu"
    assert pq.translated_resource(pq.PriorityClass.BATCH, "memory") == "kubernetes.io/batch-memory"
    assert pq.translated_resource(pq.PriorityClass.PROD, "example.com/disk") == "example.com/disk"
    assert pq.translated_resource(pq.PriorityClass.FREE, "cpu") is None
    assert pq.translated_resource(pq.PriorityClass.MID, "example.com/disk") is None


@pytest.mark.parametrize(
    ("containers", "qos"),
    [
        ([(FULL, FULL), (FULL, FULL)], "Guaranteed"),
        ([(FULL, FULL), ({}, {})], "Burstable"),
        ([({}, {}), (FULL, FULL)], "Burstable"),
        ([({"cpu": "1"}, {"cpu": "1"}), ({"memory": "1Gi"}, {"memory": "1Gi"})], "Burstable"),
        ([(FULL, FULL | {"cpu": "2"})], "Burstable"),
        ([(FULL, FULL | {"cpu": "2"})] * 2, "Burstable"),
        ([(FULL | {"cpu": "0"}, FULL | {"cpu": "0"})], "Burstable"),
        ([(LEAST, LEAST)], "Guaranteed"),
        ([(LEAST, {})], "Burstable"),
    ],
)
def test_a_pod_is_guaranteed_only_if_every_container_has_both_limits_and_requests_as_much(containers, qos):
    spec = {
        "containers": [
            {"name": f"c{index}", "resources": {"requests": requests, "limits": limits}}
            for index, (requests, limits) in enumerate(containers)
        ]
    }
    assert pq.kube_qos(msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, pods.Pod)) == qos
