"""Each Trimaran plugin places pods on one of three nodes, by the agents' reports and nothing else.

| node   | CPU, mean | deviation | preferred by, and why                                                               |
|--------|-----------|-----------|-------------------------------------------------------------------------------------|
| packed | 35 %      | 5 %       | TargetLoadPacking: nearest below the target of 40 %                                 |
| steady | 25 %      | 0 %       | LoadVariationRiskBalancing: 25 / 2 % of risk, others (35 + 5) / 2 and (15 + 50) / 2 |
| bursty | 15 %      | 50 %      | Peaks: a core more costs the least there by the models below                        |

LowRiskOverCommitment computes how likely the usage exceeds the requests of a node: with 30 % requested that is likely
on `packed`, possible on `bursty`, and impossible on `steady`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import fake_fleet, fallback_levels, host_scheduler, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.fake_fleet import WindowLoad
from e2e.support.fallback_levels import FallbackLevel
from e2e.support.host_scheduler import HostScheduler
from e2e.support.scheduling import SchedulingHelper
from tools.localcluster import fake_nodes as fakes
from tools.localcluster.access import Cluster

LOADS = {"packed": WindowLoad(35, 5), "steady": WindowLoad(25, 0), "bursty": WindowLoad(15, 50)}
STEEP, FLAT = {"k0": 100.0, "k1": 10.0, "k2": 0.05}, {"k0": 100.0, "k1": 1.0, "k2": 0.01}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "TargetLoadPacking": {"targetUtilization": 40},
    "LoadVariationRiskBalancing": {"safeVarianceMargin": 1, "safeVarianceSensitivity": 1},
    # With formula corrected the pods of this case would count as recent for the whole window, and raise every risk.
    "LowRiskOverCommitment": {
        "formula": "upstream",
        "smoothingWindowSize": 1,
        "riskLimitWeights": {"cpu": 0.0, "memory": 0.0},
    },
    "Peaks": {"nodePowerModel": {f"{fakes.PREFIX}{name}": FLAT if name == "bursty" else STEEP for name in LOADS}},
}
PREFERRED = {
    "TargetLoadPacking": "packed",
    "LoadVariationRiskBalancing": "steady",
    "LowRiskOverCommitment": "steady",
    "Peaks": "bursty",
}
REQUESTED, EVERYTHING = {"cpu": "4650m", "memory": "19046Mi"}, {"cpu": "16", "memory": "65536Mi"}
HEAVY = 20
"""Weight that outweighs kube-scheduler's own preferences, which depend on pods placed before."""


@pytest.fixture(scope="module")
def nodes(cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[dict[str, str]]:
    with fake_fleet.registered(cluster_client, list(LOADS)) as names:
        for name, load in zip(names, LOADS.values(), strict=True):
            fake_fleet.report(cluster_client, name, fake_fleet.window_status(load))
        yield dict(zip(LOADS, names, strict=True))


@pytest.fixture(scope="module")
def schedulers(cluster: Cluster, nodes: dict[str, str]) -> Iterator[dict[str, HostScheduler]]:
    configurations = {
        policy.lower(): {
            "plugins": {"filter": {"disabled": [{"name": "*"}]}, "score": {"enabled": [{"name": policy, "weight": 1}]}},
            "pluginArgs": {policy: arguments},
            "weight": HEAVY,
        }
        for policy, arguments in ARGUMENTS.items()
    }
    with host_scheduler.running(cluster, configurations) as started:
        yield started


@pytest.mark.parametrize("policy", ARGUMENTS)
def test_pods_go_to_the_preferred_node_of_the_plugin(
    scheduling: SchedulingHelper, nodes: dict[str, str], schedulers: dict[str, HostScheduler], policy: str
) -> None:
    scheduler, everywhere = schedulers[policy.lower()], [*nodes.values()]
    if policy == "LowRiskOverCommitment":
        _request_everywhere(scheduling, scheduler, everywhere)
    pods = [scheduling.submit(f"{policy.lower()}-{index}", scheduler.name, everywhere) for index in range(2)]
    assert scheduling.bound(pods) == [nodes[PREFERRED[policy]]] * 2
    levels = fallback_levels.decided_by(scheduler, policy, f"{scheduling.namespace}/{pods[0]}", everywhere)
    assert set(levels.values()) == {FallbackLevel.MEASURED}
    scheduling.dismiss(*pods)


def _request_everywhere(scheduling: SchedulingHelper, scheduler: HostScheduler, nodes: list[str]) -> None:
    """Create one pod on each node that requests 30 % and may use everything."""
    names = [f"there-{index}" for index in range(len(nodes))]
    for name, node in zip(names, nodes, strict=True):
        scheduling.cluster_client.create(
            "Pod",
            workloads.pod(
                name, scheduling.image, requests=REQUESTED, limits=EVERYTHING, scheduler=scheduler.name, nodes=[node]
            ),
            scheduling.namespace,
        )
    scheduling.bound(names)
