"""Measurements disappear and return: the fallback levels of nodes in the metric and in each decision.

Measurements come from a load watcher of the case's own, which reads the reports of three fake nodes. They are too old
after 20 seconds instead of five minutes.
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import time
from collections.abc import Callable, Iterator

import pytest

from e2e.support import fake_fleet, fallback_levels, host_scheduler, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.fake_fleet import WindowLoad
from e2e.support.fallback_levels import FallbackLevel
from e2e.support.host_load_watcher import HostWatcher
from e2e.support.host_scheduler import HostScheduler
from e2e.support.scheduling import SchedulingHelper
from tools.localcluster.access import Cluster

POLICY = "TargetLoadPacking"
LOADS = {"busy": WindowLoad(35), "calm": WindowLoad(5), "idle": WindowLoad(2)}
AGE_SECONDS = 20
FLAGS = (f"--measurement-max-age-seconds={AGE_SECONDS}", "--measurement-interval-seconds=1")
FILLED_CPU = "10"
"""Requested on `calm`, which best fit then prefers."""
SEEN_SECONDS = AGE_SECONDS + 40.0  # scores are kept for ten seconds, and the machine may be busy


@pytest.fixture(scope="module")
def nodes(cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[dict[str, str]]:
    with fake_fleet.registered(cluster_client, [f"fallback-{name}" for name in LOADS]) as names:
        yield dict(zip(LOADS, names, strict=True))


@pytest.fixture(scope="module")
def report(cluster_client: ClusterClient, nodes: dict[str, str]) -> Callable[..., None]:
    def write(*keys: str) -> None:
        for key in keys or nodes:
            fake_fleet.report(cluster_client, nodes[key], fake_fleet.window_status(LOADS[key]))

    return write


@pytest.fixture(scope="module")
def watcher(
    cluster: Cluster, report: Callable[..., None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HostWatcher]:
    report()
    folder = tmp_path_factory.mktemp("watcher")
    made = HostWatcher(folder, cluster.kubeconfig, {"METRICS_PROVIDER_NAME": "NodeMetric"})
    made.start()
    try:
        made.first_document()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def scheduler(cluster: Cluster, watcher: HostWatcher) -> Iterator[HostScheduler]:
    values = {
        "plugins": {"filter": {"disabled": [{"name": "*"}]}, "score": {"enabled": [{"name": POLICY, "weight": 1}]}},
        "pluginArgs": {POLICY: {"watcherAddress": watcher.url, "targetUtilization": 40}},
        "weight": 20,
    }
    made = HostScheduler(cluster, "case-fallback", values, flags=FLAGS)
    with host_scheduler.started(made):
        yield made


class FallbackWalk:
    """Creates pods until a decision is made on the expected levels."""

    def __init__(self, scheduling: SchedulingHelper, scheduler: HostScheduler, nodes: dict[str, str]) -> None:
        self._scheduling = scheduling
        self._scheduler = scheduler
        self._nodes = nodes
        self._names = (f"step-{number}" for number in itertools.count())

    def decision(self) -> tuple[str, dict[str, FallbackLevel]]:
        """Create a pod; return its node and the levels of all nodes in the decision; delete the pod."""
        name, key_of = next(self._names), {name: key for key, name in self._nodes.items()}
        self._scheduling.submit(name, self._scheduler.name, [*self._nodes.values()])
        (node,) = self._scheduling.bound([name])
        levels = fallback_levels.decided_by(
            self._scheduler, POLICY, f"{self._scheduling.namespace}/{name}", self._nodes.values()
        )
        self._scheduling.dismiss(name)
        return key_of[node], {key_of[name]: level for name, level in levels.items()}

    def comes_to(self, node: str, report: Callable[[], None] = lambda: None, **levels: FallbackLevel) -> None:
        """Wait until the nodes have these levels and pods go to `node`, and check the metric.

        `report` is called before each decision, because a report is too old after AGE_SECONDS.
        """

        def decision() -> tuple[str, dict[str, FallbackLevel]]:
            report()
            return self.decision()

        waiting.until(f"{levels}, pods go to {node}", decision, (node, levels).__eq__, within_seconds=SEEN_SECONDS)
        reported = fallback_levels.counts(self._scheduler)
        for level in set(levels.values()):
            assert reported[level] >= [*levels.values()].count(level), reported


@pytest.fixture
def walk(scheduling: SchedulingHelper, scheduler: HostScheduler, nodes: dict[str, str]) -> FallbackWalk:
    return FallbackWalk(scheduling, scheduler, nodes)


@pytest.mark.timeout(600, func_only=True)
def test_nodes_change_their_fallback_level_and_return(
    scheduling: SchedulingHelper,
    cluster_client: ClusterClient,
    nodes: dict[str, str],
    report: Callable[..., None],
    watcher: HostWatcher,
    scheduler: HostScheduler,
    walk: FallbackWalk,
) -> None:
    requests = {"cpu": FILLED_CPU, "memory": "1Gi"}
    filler = workloads.pod(
        "filler", scheduling.image, requests=requests, scheduler=scheduler.name, nodes=[nodes["calm"]]
    )
    cluster_client.create("Pod", filler, scheduling.namespace)
    scheduling.bound(["filler"])
    measured = dict.fromkeys(LOADS, FallbackLevel.MEASURED)
    walk.comes_to("busy", report, **measured)

    # the agents of two nodes fail: one node is empty, the other has a pod without measurement
    for key in ("calm", "idle"):
        silent = fake_fleet.window_status(LOADS[key]) | {"updateTime": fake_fleet.now(ahead=-dt.timedelta(minutes=10))}
        fake_fleet.report(cluster_client, nodes[key], silent)
    only_busy = functools.partial(report, "busy")
    silenced = {"busy": FallbackLevel.MEASURED, "calm": FallbackLevel.UNKNOWN, "idle": FallbackLevel.PREDICTED}
    walk.comes_to("busy", only_busy, **silenced)
    walk.comes_to("busy", report, **measured)

    # the provider ends
    served = watcher.first_document()
    watcher.kill()
    killed_at = time.time()
    walk.comes_to("calm", **dict.fromkeys(LOADS, FallbackLevel.BY_REQUESTS))
    assert fallback_levels.counts(scheduler)[FallbackLevel.MEASURED] == 0
    assert time.time() - killed_at > AGE_SECONDS - 2

    # the provider is back: it serves its file at once, and the nodes are measured again
    report()
    watcher.start()
    recalled = watcher.first_document()
    assert recalled["window"]["end"] <= killed_at
    assert recalled["data"]["NodeMetricsMap"].keys() == served["data"]["NodeMetricsMap"].keys()
    walk.comes_to("busy", report, **measured)
    assert fallback_levels.counts(scheduler)[FallbackLevel.BY_REQUESTS] == 0
