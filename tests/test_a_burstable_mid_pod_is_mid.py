"""A Mid pod with native limits is Burstable for Kubernetes, as most Prod pods are. Every part counts it as Mid."""

import msgspec
import pytest

from api_types.kubernetes import pods
from api_types.kubernetes import priority_and_qos as pq
from koordctl.backtest import cluster_history
from koordlet.cluster import pods as pods_on_node
from koordlet.collectors.host import CollectStatistics
from koordlet.collectors.pod_pressure import PodPressure, PodWaits
from koordlet.report import builder
from manager.mid_resource import target
from scheduler_plugin.state import pod_info
from scheduler_plugin.state.estimator import EstimatorArgs
from tests import factories
from tests.host_trees.plain_files import V1, V2
from tests.koordlet.one_node import GIB, OneNode, StaticCluster, bound_pod

MID_MEMORY = 256 << 20
ARGS = EstimatorArgs(("cpu", "memory"), {"cpu": 85, "memory": 70}, with_demand=True)


def decoded(**overrides):
    return msgspec.json.decode(msgspec.json.encode(factories.limited_mid_pod(**overrides)), type=pods.Pod)


MID = decoded()
BY_LABEL = decoded(metadata={"labels": {"koordinator.sh/priority-class": "koord-mid"}}, spec={"priority": 0})
LABEL_REMOVED = decoded(spec={"priority": None})
CALLS_ITSELF_PROD = decoded(metadata={"labels": {"koordinator.sh/priority-class": "koord-prod"}})
BATCH_LABEL = decoded(metadata={"labels": {"koordinator.sh/qosClass": "BE"}})
MID_CLASS = factories.limited_mid_pod()["spec"]["priorityClassName"]
SAYS_GUARANTEED = decoded(status={"qosClass": "Guaranteed"})


@pytest.mark.parametrize("pod", [MID, BY_LABEL, LABEL_REMOVED, CALLS_ITSELF_PROD, BATCH_LABEL, SAYS_GUARANTEED])
def test_its_class_follows_priority_and_not_the_qos_class(pod):
    assert pq.kube_qos(MID) is pq.KubeQoS.BURSTABLE
    assert pq.priority_class(pod) is pq.PriorityClass.MID


def test_of_a_prod_priority_the_same_pod_is_prod():
    """Control: only the priority makes the difference."""
    assert pq.priority_class(decoded(spec={"priority": 9000})) is pq.PriorityClass.PROD


def observed(tmp_path, version, *bound):
    """Return the status of a node after a minute with a Prod pod and the given pods, all in kubepods/burstable."""
    node = OneNode(tmp_path, StaticCluster(bound_pod("web"), *bound, spec={}), version)
    node.pod_cores = {"web": 1.0, **{each.uid: 0.5 for each in bound}}
    node.pod_bytes = {each.uid: MID_MEMORY for each in bound}
    node.node_cores += 0.5 * len(bound)
    node.used_bytes += MID_MEMORY * len(bound)
    assert all(str(node.host.pod(uid)).startswith("kubepods/burstable/") for uid in node.pod_cores)
    node.run(60)
    return node.report()


@pytest.mark.parametrize("version", [V1, V2])
def test_the_agent_counts_its_usage_and_requests_as_mid(tmp_path, version):
    status = observed(tmp_path, version, pods_on_node.describe(MID))
    assert status["usage"]["mid"] == {"cpu": "500m", "memory": str(MID_MEMORY)}
    assert status["usage"]["prod"]["cpu"] == "1"
    assert status["allocated"]["mid"] == {"kubernetes.io/mid-cpu": "500", "kubernetes.io/mid-memory": str(MID_MEMORY)}
    assert status["allocated"]["prod"] == {"cpu": "1", "memory": str(GIB)}
    (entry,) = (each for each in status["podsMetric"] if each["name"] == "mid-0")
    assert entry["priority"] == "koord-mid"


@pytest.mark.parametrize("pod", [MID, LABEL_REMOVED, CALLS_ITSELF_PROD])
def test_the_agent_predicts_the_same_prod_peak_with_and_without_it(tmp_path, pod):
    alone = observed(tmp_path / "alone", V2)
    beside = observed(tmp_path / "beside", V2, pods_on_node.describe(pod))
    assert beside["prodPeakMetric"] == alone["prodPeakMetric"]
    assert beside["prodReclaimableMetric"] == alone["prodReclaimableMetric"]


def test_it_is_throttled_by_design_and_no_condition_names_it(tmp_path):
    mid = pods_on_node.describe(MID)
    statistics = CollectStatistics()
    collector = PodPressure(statistics)
    collector.pods = {mid.uid: PodWaits(0.9)}
    assert builder.throttled_prod_pods([collector], {mid.uid: mid}) == []


@pytest.mark.parametrize("pod", [MID, LABEL_REMOVED, CALLS_ITSELF_PROD])
def test_the_manager_counts_its_mid_requests_and_none_for_prod(pod):
    summed = target.summed([pod])
    assert summed.prod == {}
    assert summed.requests().mid == {"kubernetes.io/mid-cpu": 500, "kubernetes.io/mid-memory": MID_MEMORY}


def test_the_scheduler_estimates_it_by_its_mid_requests_and_not_as_prod():
    info = pod_info.read(MID, ARGS)
    assert not info.is_prod
    assert info.estimate == (425, round(MID_MEMORY * 0.7))
    assert (info.mid_cpu_millis, info.mid_memory_bytes) == (500, MID_MEMORY)


def test_trimaran_counts_its_limits_and_no_requests():
    demand = pod_info.read(MID, ARGS).demand
    assert (demand.request, demand.limit) == ((0, 0), (500, MID_MEMORY))


def test_the_back_test_knows_it_by_its_priority_class():
    assert cluster_history.priority_class_by_name(MID_CLASS, {}) is pq.PriorityClass.MID
