import msgspec
import pytest

from api_types.kubernetes import pods
from koordlet.cluster import pods as pods_on_node


def pod(name="p", uid="u-1", annotations=None, phase="Running", **spec):
    value = {
        "metadata": {"name": name, "namespace": "ns", "uid": uid, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}], **spec},
        "status": {"phase": phase},
    }
    return msgspec.json.decode(msgspec.json.encode(value), type=pods.Pod)


@pytest.fixture
def table():
    return pods_on_node.PodTable()


def test_a_pod_is_described_by_identity_class_and_requests():
    described = pods_on_node.describe(pod(priority=9100))
    assert (described.uid, described.priority_class, described.qos_class) == ("u-1", "koord-prod", "LS")
    assert (described.cpu_request_millis, described.memory_request_bytes) == (250, 1 << 30)


def test_a_mid_pod_requests_in_its_own_units():
    resources = {"requests": {"kubernetes.io/mid-cpu": "1500", "kubernetes.io/mid-memory": "1Mi"}}
    described = pods_on_node.describe(pod(containers=[{"name": "c", "resources": resources}], priority=7000))
    assert (described.mid_cpu_request_millis, described.mid_memory_request_bytes) == (1500, 1 << 20)
    assert (described.cpu_request_millis, described.memory_request_bytes) == (0, 0)


def test_containers_are_known_by_the_ids_in_their_cgroups():
    wire = {"status": {"containerStatuses": [{"name": "c", "containerID": "containerd://abc"}, {"name": "d"}]}}
    described = pods_on_node.describe(msgspec.json.decode(msgspec.json.encode(wire), type=pods.Pod))
    assert described.container_ids == {"abc"}


def test_a_static_pod_is_known_by_the_uid_in_its_cgroups():
    assert pods_on_node.describe(pod(annotations={"kubernetes.io/config.hash": "abc"})).uid == "abc"


def test_ended_pods_are_not_active(table):
    table.put(pods_on_node.describe(pod("b")))
    table.put(pods_on_node.describe(pod("a", "u-2")))
    table.put(pods_on_node.describe(pod("c", "u-3", phase="Succeeded")))
    assert [each.name for each in table.active()] == ["a", "b"]
    assert table.by_uid().keys() == {"u-1", "u-2"}


def test_a_recreated_pod_of_the_same_name_replaces_the_old_one(table):
    table.put(pods_on_node.describe(pod("a", "old")))
    table.put(pods_on_node.describe(pod("a", "new")))
    assert table.by_uid().keys() == {"new"}


def test_a_complete_list_drops_what_it_does_not_name_and_marks_the_table_synced(table):
    table.put(pods_on_node.describe(pod("a")))
    assert not table.synced
    table.keep_only(frozenset({("ns", "other")}))
    assert table.active() == []
    assert table.synced
    table.drop("ns", "never seen")
