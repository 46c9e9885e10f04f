"""Koordinator's own koordlet and this project's agent measure the same pods at the same time; the manager reads both.

The pods are control groups of this machine with processes, bound to two nodes: koordlet's list of pods names those of
the other node by their groups. The kubelet is played.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.support import chart_rendering, koord_manager, lone_manager, upstream_koordlet, waiting
from e2e.support.cluster_client import cores_or_bytes, moment
from e2e.support.lone_manager import GIB, LoneManager
from tests.host_trees import live_cgroups
from tests.host_trees.live_cgroups import LiveCgroups
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODE_METRICS, NODES
from tools.peers import programs

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900, func_only=True),
    pytest.mark.skipif(live_cgroups.why_not("v1") is not None, reason=str(live_cgroups.why_not("v1"))),
]
UPSTREAM, HERE = "n1", "n2"
PODS = "/api/v1/namespaces/default/pods"
WINDOW_SECONDS, MOST_SHARE = 60, 0.15
FOLDERS = {"Guaranteed": "", "Burstable": "burstable/", "BestEffort": "besteffort/"}
SPIN = "import sys; kept = b'1' * (int(sys.argv[1]) << 20)\nwhile True: pass"


class Pod(NamedTuple):
    """A pod that uses CPU up to its quota, and memory."""

    requests: Mapping[str, str]
    cores: float
    mebibytes: int
    priority: str = ""
    qos: str = ""
    is_burstable: bool = False


PROD = {"cpu": "2500m", "memory": str(5 * GIB)}
REQUESTED = 0.5
"""Cores of Mid."""
MID = {"kubernetes.io/mid-cpu": f"{1000 * REQUESTED:.0f}", "kubernetes.io/mid-memory": str(GIB)}
BATCH = {"kubernetes.io/batch-cpu": "1000", "kubernetes.io/batch-memory": str(GIB)}
EXAMPLES = {
    "web": Pod(PROD, 0.15, 16, "koord-prod", "LS", is_burstable=True),
    "db": Pod(PROD, 0.05, 96, "koord-prod"),
    "mid": Pod(MID, 0.1, 32, "koord-mid"),
    "batch": Pod(BATCH, 0.1, 8, "koord-batch", "BE"),
    "plain": Pod({"cpu": "100m"}, 0.05, 8, is_burstable=True),
}


class Stage:
    """Both agents, the manager, and the pods of both nodes."""

    def __init__(self, lone: LoneManager, folder: Path) -> None:
        self.lone = lone
        self._folder = folder
        self.groups = LiveCgroups(folder / "host/sys/fs/cgroup")
        self.listed: list[dict[str, Any]] = []

    def add_pod(self, name: str, pod: Pod) -> None:
        """Create it on both nodes, and its group, which is named by the identity of the second."""
        resources = {"requests": pod.requests, "limits": {} if pod.is_burstable else pod.requests}
        spec: dict[str, Any] = {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "none", "resources": resources}],
            **({"priorityClassName": pod.priority} if pod.priority else {}),
        }
        labels = {"koordinator.sh/qosClass": pod.qos} if pod.qos else {}
        for node in (UPSTREAM, HERE):
            metadata = {"name": f"{name}-{node}", "labels": labels}
            made = self.lone.api.send("POST", PODS, {"metadata": metadata, "spec": spec | {"nodeName": node}})
        uid, since = made["metadata"]["uid"], made["metadata"]["creationTimestamp"]
        identity = uid.replace("-", "").ljust(64, "0")
        group = f"kubepods/{FOLDERS[made['status']['qosClass']]}pod{uid}/{identity}"
        self.groups.group(group)
        self.groups.limit_cpu(group, pod.cores)
        self.groups.run(group, sys.executable, "-c", SPIN, str(pod.mebibytes))
        container = {
            "name": "c", "image": "none", "imageID": "", "ready": True, "started": True, "restartCount": 0,
            "containerID": f"containerd://{identity}", "state": {"running": {"startedAt": since}},
        }  # fmt: skip
        status = {"status": {"phase": "Running", "startTime": since, "containerStatuses": [container]}}
        for node in (HERE, UPSTREAM):
            made = self.lone.api.send("PATCH", f"{PODS}/{name}-{node}/status", status, content=MERGE_PATCH)
        self.listed.append({**made, "metadata": {**made["metadata"], "uid": uid}})

    def start_agents(self, kubelet_port: int) -> None:
        """Start both."""
        plane = self.lone.plane
        upstream_koordlet.start(
            plane, UPSTREAM, self._folder / "koordlet", self._folder / "host/sys/fs/cgroup", kubelet_port,
            prediction_cold_start_duration="1s", prediction_training_interval="5s",
        )  # fmt: skip
        plane.start_python(
            "agent", "-m", "koordlet", "run", f"--node-name={HERE}", f"--kubeconfig={self.lone.kubeconfig('koordlet')}",
            f"--host-root={self._folder / 'host'}", f"--state-dir={self._folder}", "--http-address=127.0.0.1",
            "--http-port=0", OPENBLAS_NUM_THREADS="1",
        )  # fmt: skip

    def status(self, node: str) -> dict[str, Any]:
        """Return the newest report of a node."""
        return dict(self.lone.api.send("GET", f"{NODE_METRICS}/{node}").get("status") or {})

    def report_after(self, node: str, since: dt.datetime, within_seconds: float) -> dict[str, Any]:
        """Wait for a report that was taken later."""
        return waiting.until(
            f"a report of {node} after {since}",
            lambda: self.status(node),
            lambda status: "updateTime" in status and moment(status["updateTime"]) > since,
            within_seconds=within_seconds,
        )

    def is_started(self) -> bool:
        """Return whether all parts of koordlet run."""
        return upstream_koordlet.STARTED in self.lone.plane.log(upstream_koordlet.NAME).read_text()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    programs.program("koordlet")
    folder = tmp_path_factory.mktemp("node")
    (folder / "host/sys/fs/cgroup").mkdir(parents=True)
    (folder / "host/proc").symlink_to("/proc")
    with lone_manager.running({"manager": {"createNodeSLOs": True}}) as lone:
        koord_manager.install_crds(lone.api, but="nodemetrics.slo.koordinator.sh")
        lone.create(*chart_rendering.rendered(lone.plane.binaries, {}, "koordlet/rbac"))
        policy = {"checkIntervalSeconds": 1, "resourceDiffThresholdPercent": 1}
        lone.configure(metricAggregateDurationSeconds=WINDOW_SECONDS, nodePredictPolicy=policy)
        lone.start()
        address = {"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}}
        for node in (UPSTREAM, HERE):
            lone.add_node(node)
            lone.api.send("PATCH", f"{NODES}/{node}/status", address, content=MERGE_PATCH)
        stage = Stage(lone, folder)
        with contextlib.closing(stage.groups):
            for name, pod in EXAMPLES.items():
                stage.add_pod(name, pod)
            with upstream_koordlet.kubelet(stage.listed) as port:
                stage.start_agents(port)
                yield stage


def test_koordlet_predicts_nothing_without_a_node_slo(stage: Stage) -> None:
    since = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=60)
    status = stage.report_after(UPSTREAM, since, within_seconds=150)
    assert not stage.is_started()
    assert not (status.get("prodReclaimableMetric") or {}).get("resource"), status
    assert not (status["nodeMetric"].get("systemUsage") or {}).get("resources"), status
    assert stage.lone.mid_cores(UPSTREAM) <= REQUESTED  # the floor is all that is published


def test_with_the_one_of_this_manager_it_predicts_and_mid_is_published(stage: Stage) -> None:
    lone = stage.lone
    lone.kill("manager")
    lone.start("manager-2", create_node_slos=True)
    waiting.until("koordlet is started", stage.is_started, within_seconds=60)
    cores = waiting.until(
        "more Mid is published", lambda: lone.mid_cores(UPSTREAM), lambda cores: cores > REQUESTED, within_seconds=120
    )
    resources = stage.status(UPSTREAM)["prodReclaimableMetric"]["resource"]["resources"]
    assert cores == pytest.approx(float(cores_or_bytes(resources)[0]), rel=0.1)


def test_both_agents_measure_the_same(stage: Stage) -> None:
    time.sleep(WINDOW_SECONDS)  # both have all of a window
    share, upstream, here = next(pair for pair in _pairs(stage) if pair[0] < MOST_SHARE)
    for name, (there, this) in _rows(upstream, here).items():
        most = EXAMPLES[name].cores if name in EXAMPLES else os.cpu_count() or 1
        # On a busy machine koordlet's seconds have unequal lengths, and it weighs them alike.
        assert this[0] == pytest.approx(there[0], abs=share * most + 0.05 * there[0]), name
        assert this[1] == pytest.approx(there[1], rel=0.001 if name in EXAMPLES else 0.05), name
        assert this[2:] == there[2:], name


def _pairs(stage: Stage) -> Iterator[tuple[float, dict[str, Any], dict[str, Any]]]:
    """Yield reports of both, and how much of a window, of times cut to seconds, is not of the other.

    In that part all of the CPU may be used, or none.
    """
    for number in range(6):
        upstream = stage.report_after(UPSTREAM, dt.datetime.now(dt.UTC), within_seconds=60)
        taken = moment(upstream["updateTime"])
        # More requests of Prod move the peak, which is below what the node has, so that this agent reports at once.
        name = f"more-{number}"
        stage.lone.add_pod(name, node=HERE, namespace="default", priority="koord-prod", requests={"cpu": "300m"})
        here = stage.report_after(HERE, taken - dt.timedelta(seconds=1), within_seconds=60)
        yield (abs((moment(here["updateTime"]) - taken).total_seconds()) + 1) / WINDOW_SECONDS, upstream, here


def _rows(upstream: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Return what both report of the node, the system and each pod."""
    rows = [_usage(status, f"-{node}") for status, node in ((upstream, UPSTREAM), (here, HERE))]
    assert {*rows[0]} == {*rows[1]} == {"node", "system", *EXAMPLES}
    return {name: (rows[0][name], rows[1][name]) for name in rows[0]}


def _usage(status: Mapping[str, Any], suffix: str) -> dict[str, tuple[Any, ...]]:
    metric = status["nodeMetric"]
    rows: dict[str, tuple[Any, ...]] = {
        name: tuple(map(float, cores_or_bytes(metric[f"{name}Usage"]["resources"]))) for name in ("node", "system")
    }
    for pod in status["podsMetric"]:
        usage = map(float, cores_or_bytes(pod["podUsage"]["resources"]))
        rows[pod["name"].removesuffix(suffix)] = (*usage, pod.get("priority"), pod.get("qos"))
    return rows
