"""A Mid pod with native limits is Burstable for Kubernetes, as most Prod pods are. Every part counts it as Mid."""

import msgspec
import pytest

from api_types.colocation import controller_config as slo
from api_types.kubernetes import pods
from api_types.kubernetes import priority_and_qos as pq
from api_types.node_metric import mid_report
from koordctl.backtest import cluster_history
from koordlet.cluster import pods as pods_on_node
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


@pytest.mark.parametrize(
    ("own", "requested", "held"),
    [
        ({}, ("300m", "1Gi"), (300, MID_MEMORY)),  # CPU beyond its request is given back at once
        ({}, (0, 0), (0, MID_MEMORY)),
        ({"kubernetes.io/mid-cpu": "500"}, (0, "1Gi"), (0, MID_MEMORY)),
        ({"kubernetes.io/mid-memory": "1Gi"}, ("1", 0), (500, 0)),
    ],
)
def test_what_no_mid_request_covers_is_offered_to_nobody(tmp_path, own, requested, held):
    requests = {"cpu": requested[0], "memory": requested[1], **own}
    spec = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    wire = {**factories.limited_mid_pod(), "spec": {**factories.limited_mid_pod()["spec"], **spec}}
    pod = msgspec.convert(wire, pods.Pod)

    def terms(status, bound=None):
        policy = mid_report.mid_policy(slo.MidColocationPolicy(mid_unallocated_percent=100))
        usable = mid_report.usable_report(msgspec.convert(status, mid_report.MidReport), policy)
        sizes = {"cpu": 15_500, "memory": 15 * GIB}, {"cpu": 16_000, "memory": 16 * GIB}
        return mid_report.terms(usable, policy, *sizes, bound or usable.requests)

    alone = terms(observed(tmp_path / "alone", V2))
    status = observed(tmp_path / "beside", V2, pods_on_node.describe(pod))
    native = pods.units({"cpu": requested[0], "memory": requested[1]})
    listed = target.summed([decoded(spec={"priority": 9000}), pod]).requests()
    for name, amount in zip(("cpu", "memory"), held, strict=True):
        assert alone[name].unused - terms(status)[name].unused == amount
        assert alone[name].unallocated - terms(status)[name].unallocated == native[name]
        assert (terms(status, listed)[name].allocated_below_prod or 0) == native[name]


@pytest.mark.parametrize("pod", [MID, LABEL_REMOVED, CALLS_ITSELF_PROD])
def test_the_agent_predicts_the_same_prod_peak_with_and_without_it(tmp_path, pod):
    alone = observed(tmp_path / "alone", V2)
    beside = observed(tmp_path / "beside", V2, pods_on_node.describe(pod))
    assert beside["prodPeakMetric"] == alone["prodPeakMetric"]
    assert beside["prodReclaimableMetric"] == alone["prodReclaimableMetric"]


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
