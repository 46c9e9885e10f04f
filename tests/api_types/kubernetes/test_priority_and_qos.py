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


def test_a_class_label_decides_alone_even_where_it_names_no_class():
    assert (
        pq.raw_priority_class(pod(labels={"koordinator.sh/priority-class": "koord-mid"}, priority=9000)) == "koord-mid"
    )
    assert pq.raw_priority_class(pod(labels={"koordinator.sh/priority-class": "gold"}, priority=9000)) == ""


@pytest.mark.parametrize(
    ("subject", "priority_class", "qos_class"),
    [
        (pod(containers=[container()]), "koord-batch", "BE"),
        (pod(containers=[container({"cpu": "1"})]), "koord-prod", "LS"),
        (pod(containers=[container(FULL, FULL)]), "koord-prod", "LSR"),
        (pod(containers=[container(FULL, FULL)], init=[container({"cpu": "1"})]), "koord-prod", "LS"),
        (pod(containers=[container({"kubernetes.io/batch-cpu": "1000"})]), "koord-batch", "BE"),
        (pod(containers=[container({"kubernetes.io/mid-cpu": "1000"})]), "koord-batch", "BE"),
        (pod(containers=[container({"kubernetes.io/mid-cpu": "1000"})], priority=7000), "koord-mid", "BE"),
        (pod(containers=[container()], qos="Guaranteed"), "koord-prod", "LSR"),
        (pod(containers=[container()], labels={"koordinator.sh/qosClass": "SYSTEM"}), "koord-prod", "SYSTEM"),
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
