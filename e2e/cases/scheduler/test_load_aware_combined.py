"""Two plugins with opposite preferences, combined by weight: the weighted sum decides.

A pod requests 100m. LoadAwareScheduling gives the idle node (5 %) 94 points and the half full one (30 %) 69;
TargetLoadPacking (target 40 %) gives 49 and 86. They disagree by 25 points against 37.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.support import fake_fleet, host_scheduler
from e2e.support.cluster_client import ClusterClient
from e2e.support.host_scheduler import HostScheduler
from e2e.support.scheduling import SchedulingHelper
from tools.localcluster.access import Cluster

LOADS_PERCENT = {"idle": 5, "packed": 30}
ALONE, MORE_LOAD_AWARE, EQUAL, MORE_PACKING = "alone", "two-to-one", "one-to-one", "one-to-three"
WEIGHTS = {ALONE: {"LoadAwareScheduling": 1}} | {
    key: {"LoadAwareScheduling": load_aware, "TargetLoadPacking": packing}
    for key, (load_aware, packing) in {MORE_LOAD_AWARE: (2, 1), EQUAL: (1, 1), MORE_PACKING: (1, 3)}.items()
}
ARGUMENTS = {
    # CPU alone, because TargetLoadPacking knows nothing else.
    "LoadAwareScheduling": {"resourceWeights": {"cpu": 1}},
    "TargetLoadPacking": {"targetUtilization": 40},
}
PREFERRED = {ALONE: "idle", MORE_LOAD_AWARE: "idle", EQUAL: "packed", MORE_PACKING: "packed"}


@pytest.fixture(scope="module")
def nodes(cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[dict[str, str]]:
    with fake_fleet.registered(cluster_client, list(LOADS_PERCENT)) as names:
        for name, cpu_percent in zip(names, LOADS_PERCENT.values(), strict=True):
            fake_fleet.report(cluster_client, name, fake_fleet.load_status(cpu_percent=cpu_percent))
        yield dict(zip(LOADS_PERCENT, names, strict=True))


def _values(weights: dict[str, int]) -> dict:
    enabled = [{"name": name, "weight": weight} for name, weight in weights.items()]
    arguments = {name: ARGUMENTS[name] for name in weights}
    return {"plugins": {"score": {"enabled": enabled}}, "pluginArgs": arguments}


@pytest.fixture(scope="module")
def schedulers(cluster: Cluster, nodes: dict[str, str]) -> Iterator[dict[str, HostScheduler]]:
    configurations = {key: _values(weights) for key, weights in WEIGHTS.items()}
    with host_scheduler.running(cluster, configurations) as started:
        yield started


@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_weighted_sum_of_both_plugins_decides(
    scheduling: SchedulingHelper, nodes: dict[str, str], schedulers: dict[str, HostScheduler], weights: str
) -> None:
    pods = [scheduling.submit(f"{weights}-{index}", schedulers[weights].name, [*nodes.values()]) for index in range(3)]
    assert scheduling.bound(pods) == [nodes[PREFERRED[weights]]] * 3
    scheduling.dismiss(*pods)
