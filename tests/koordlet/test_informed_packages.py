"""When the predictors of packages get what was trained."""

from __future__ import annotations

import pytest

from koordlet.cluster import spec_in_force
from koordlet.prediction import evaluation
from koordlet.samples import UsageSample
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import GIB, StaticCluster, bound_pod


@pytest.mark.parametrize("has_packages", [True, False])
@pytest.mark.parametrize(("generation", "synced"), [(1, True), (None, True), (1, False), (None, False)])
def test_packages_get_samples_once_pods_and_spec_are_known(has_packages, generation, synced):
    node = FedNode(StaticCluster(bound_pod("a")))
    node.cluster.generation, node.cluster.pods.synced = generation, synced
    node.sample({"a": UsageSample(1.0, float(GIB))}, UsageSample(1.0, float(GIB)))
    server, seen = node.observer.server, []
    server.packages = ["a package"] * has_packages
    server.inform_packages = lambda *given, **more: seen.append((given, more))
    parameters = spec_in_force.predict_parameters(node.policy)
    plan = evaluation.Plan.of(node.policy, parameters)
    node.observer.inform_packages(node.now, node.cluster, plan)
    cluster = node.cluster
    wanted = (node.now, cluster.pods.active(), cluster.capacity, plan.predictors), {"unmeasured": frozenset()}
    assert seen == [wanted] * (has_packages and generation is not None and synced)
