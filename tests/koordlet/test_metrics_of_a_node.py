"""Values of the metrics page that come from the node's observer: samples, pods without a name, predicted peaks."""

import pytest
from prometheus_client import CollectorRegistry

from koordlet.cluster import spec_in_force
from koordlet.metrics import agent as metrics
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.samples import Resource
from tests.koordlet.one_node import START, OneNode, StaticCluster, bound_pod


@pytest.fixture
def node(tmp_path):
    made = OneNode(tmp_path, StaticCluster(bound_pod("a"), bound_pod("b")))
    made.node_cores, made.pod_cores = 1.0, {"a": 0.25, "b": 0.5}
    yield made
    made.observer.collector.close()


@pytest.fixture
def value(node):
    registry = CollectorRegistry()
    made = metrics.AgentCollector(
        node.reports, metrics.Counts(), metrics.TickTimes(), {}, Checkpointer("", "n1", node.observer.server),
        cluster=node.cluster,
    )  # fmt: skip
    registry.register(made)
    return lambda name, **labels: registry.get_sample_value(name, labels)


def test_the_time_of_the_newest_sample_is_shown_once_there_is_one(node, value):
    assert value("koordlet_sample_timestamp_seconds") is None
    node.run(3)
    assert value("koordlet_sample_timestamp_seconds") == START + 3
    (node.host.host_root.proc_root / "stat").unlink()
    node.observer.observe(node.now + 1, node.cluster)
    assert value("koordlet_sample_timestamp_seconds") == START + 3


def test_nothing_is_measured_or_refused_before_the_first_tick(value):
    for name in ("tracked_cgroups", "pods_in_system", "orphan_pod_groups", "tracked_series", "refused_pods"):
        assert value(f"koordlet_{name}") == 0.0, name
    assert value("koordlet_expired_pods_total") == 0.0


@pytest.mark.parametrize(("cold_start_seconds", "history", "other"), [(3600, "cold", "warm"), (0, "warm", "cold")])
def test_the_predicted_peak_and_its_pods_are_those_of_the_last_prediction(
    node, value, cold_start_seconds, history, other
):
    policy = node.policy.model_copy(update={"predictor": "percentile", "cold_start_period_seconds": cold_start_seconds})
    assert value("koordlet_prod_pods", history=history) is None
    node.run(30)
    node.observer.train(node.now, spec_in_force.predict_parameters(policy))
    node.reports.predict(node.now, node.cluster, policy)
    assert value("koordlet_prod_pods", history=history) == 2
    assert value("koordlet_prod_pods", history=other) == 0
    peaks = node.reports.prediction.prod
    assert value("koordlet_prod_peak_cpu_cores", predictor="percentile") == peaks[Resource.CPU].peak
    assert value("koordlet_prod_peak_memory_bytes", predictor="percentile") == peaks[Resource.MEMORY].peak
    assert (peaks[Resource.CPU].peak >= 2.0) == (history == "cold")  # cold pods count with their requests
    assert value("koordlet_refused_pods") == 0
