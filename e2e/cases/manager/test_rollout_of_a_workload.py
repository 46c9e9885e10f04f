"""A Deployment is rolled out while agent and manager are restarted, and the Mid resources of its node stay.

Real are API server, controllers, manager and agent. The kubelet and the files of the node are played, and so are the
hours before the roll-out: the agent's own observer states them, and the process continues its checkpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api_types.kubernetes import pods as api_pods
from e2e.support import chart_rendering, command_lines, lone_manager, waiting
from e2e.support.lone_manager import GIB, LoneManager
from e2e.support.names import SUITE_NAMESPACE
from koordlet.cluster import pods as pods_on_node
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.samples import UsageSample
from manager.node_metric.workload_history import stored
from tests.host_trees.plain_files import BURSTABLE, PlainHost
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import StaticCluster
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODE_METRICS, RequestError

pytestmark = pytest.mark.timeout(600, func_only=True)

NODE, NAMESPACE, DEPLOYMENT, REPLICAS = "n1", "shop", "web", 8
CONTROLLERS = ("deployment-controller", "replicaset-controller", "garbage-collector-controller", "namespace-controller")
HOURS, STEP_SECONDS = 8, 30
START_CORES, CORES, SYSTEM_CORES = 0.35, 0.3, 0.2
"""Usage of a pod of one core in its first minutes and later."""
USED_BYTES = GIB // 2
MOST_FALL = 0.2
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
HISTORIES = f"/api/v1/namespaces/{SUITE_NAMESPACE}/configmaps?labelSelector={stored.SELECTOR}"


class Kubelet:
    """Starts and ends no containers: it writes statuses, and the files that an agent reads."""

    def __init__(self, lone: LoneManager, root: Path) -> None:
        self._plane = lone.plane
        self._host = PlainHost(root)
        self._used: dict[str, float] = {}
        self._node_seconds = 1000.0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it."""
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        before = time.monotonic()
        with contextlib.closing(self._plane.connect()) as api:
            while not self._ends.wait(0.3):
                now = time.monotonic()
                with contextlib.suppress(RequestError):  # a controller was faster
                    self._step(api, now - before)
                before = now

    def _step(self, api: Any, seconds: float) -> None:
        pods = api.send("GET", PODS)["items"]
        running = [pod["metadata"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        for uid in self._used.keys() - {metadata["uid"] for metadata in running}:
            self._host.remove_group(self._host.pod(uid, BURSTABLE))
            del self._used[uid]
        for metadata in running:
            used = self._used[metadata["uid"]] = self._used.get(metadata["uid"], 0.0) + START_CORES * seconds
            self._host.set_group(self._host.pod(metadata["uid"], BURSTABLE), used, USED_BYTES)
        self._node_seconds += (SYSTEM_CORES + START_CORES * len(running)) * seconds
        used_bytes = GIB + len(running) * USED_BYTES
        self._host.set_node(round(100 * self._node_seconds), used_bytes, total_bytes=20 * GIB, cpus=lone_manager.CORES)
        for pod in pods:
            path = f"{PODS}/{pod['metadata']['name']}"
            if "deletionTimestamp" in pod["metadata"]:
                api.send("DELETE", path, {"gracePeriodSeconds": 0})
            elif pod["status"]["phase"] == "Pending":
                api.send("PATCH", f"{path}/status", {"status": _running(pod)}, content=MERGE_PATCH)


def _running(pod: dict[str, Any]) -> dict[str, Any]:
    since = pod["metadata"]["creationTimestamp"]
    container = {
        "name": "c", "image": "none", "imageID": "", "ready": True, "started": True, "restartCount": 0,
        "containerID": f"containerd://{pod['metadata']['uid']}", "state": {"running": {"startedAt": since}},
    }  # fmt: skip
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": since} for kind in ("PodScheduled", "Ready")]
    return {"phase": "Running", "startTime": since, "conditions": conditions, "containerStatuses": [container]}


class Stage:
    """The Deployment on its node, with an agent that may be restarted."""

    def __init__(self, lone: LoneManager, folder: Path) -> None:
        self.lone = lone
        self._folder = folder
        self._agents = 0
        self.managers = 1

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods that do not terminate and run."""
        items = self.lone.api.send("GET", PODS)["items"]
        return [
            pod for pod in items if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] == "Running"
        ]

    def deploy(self) -> None:
        """Create the Deployment and wait for its pods."""
        container = {
            "name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": str(2 * GIB)}}
        }  # fmt: skip
        labels = {"app": DEPLOYMENT}
        spec = {"nodeName": NODE, "priorityClassName": "koord-prod", "containers": [container]}
        deployment = {
            "metadata": {"name": DEPLOYMENT},
            "spec": {
                "replicas": REPLICAS,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        self.lone.api.send("POST", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", deployment)
        waiting.until("all pods run", lambda: len(self.pods()) == REPLICAS, within_seconds=60)

    def live_through_the_hours_before(self) -> None:
        """Let the observer see some hours, state each of them to the manager, and write its checkpoint."""
        described = [pods_on_node.describe(msgspec.convert(pod, type=api_pods.Pod), NODE) for pod in self.pods()]
        cluster = StaticCluster(*described)
        cluster.capacity = cluster.allocatable = WholeAmounts(1000 * lone_manager.CORES, 20 * GIB)
        node = FedNode(cluster, STEP_SECONDS)
        node.now = time.time() - HOURS * 3600
        node.boot_seconds = 1000.0

        def usage(step: int) -> tuple[dict[str, UsageSample], UsageSample]:
            is_new = step * STEP_SECONDS < 600
            cores = START_CORES if is_new else CORES + 0.01 * (step % 2)
            return {pod.uid: UsageSample(cores, USED_BYTES) for pod in described}, UsageSample(SYSTEM_CORES, GIB)

        stated = node.observer.server.workloads
        counted = 0
        for _ in node.run(HOURS * 3600, usage):
            if stated.stated and stated.stated_seconds == node.now:
                counted += len(stated.stated)
                self._state(node.report(), counted)
        assert counted >= HOURS - 4
        checkpointer = Checkpointer(str(self._folder), NODE, node.observer.server, node.observer.evaluation)
        asyncio.run(checkpointer.save())

    def _state(self, status: dict[str, Any], counted: int) -> None:
        """Report, each time as a new report, until the manager has merged it."""

        def is_merged() -> bool:
            status["updateTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self.lone.api.send("PATCH", f"{NODE_METRICS}/{NODE}/status", {"status": status}, content=MERGE_PATCH)
            return self.lone.metric("koord_manager_workload_statements_total", outcome="merged") >= counted

        waiting.until(f"statement {counted} is merged", is_merged, within_seconds=60, every_seconds=1)

    def start_agent(self) -> None:
        """Start the agent, or its successor."""
        name = f"agent-{self._agents}"
        if self._agents:
            self.lone.kill(f"agent-{self._agents - 1}")
        self._agents += 1
        self.lone.plane.start_python(
            name, "-m", "koordlet", "run", f"--node-name={NODE}", f"--kubeconfig={self.lone.kubeconfig('koordlet')}",
            f"--host-root={self._folder / 'host'}", f"--state-dir={self._folder}", "--http-address=127.0.0.1",
            "--http-port=0", OPENBLAS_NUM_THREADS="1",
        )  # fmt: skip

    def restart_manager(self) -> None:
        """Kill the manager; start another one."""
        self.lone.kill("manager" if self.managers == 1 else f"manager-{self.managers}")
        self.managers += 1
        self.lone.start(f"manager-{self.managers}")

    def prediction(self) -> dict[str, Any]:
        """Return the prediction of the newest report."""
        status = self.lone.api.send("GET", f"{NODE_METRICS}/{NODE}").get("status") or {}
        return dict(status.get("prediction") or {})


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("node")
    with lone_manager.running() as lone:
        lone.plane.start_controllers(*CONTROLLERS)
        lone.create(*chart_rendering.rendered(lone.plane.binaries, {}, "koordlet/rbac"))
        lone.configure()
        lone.start()
        lone.add_node(NODE)
        lone.add_namespace(NAMESPACE)
        kubelet = Kubelet(lone, folder / "host")
        try:
            stage = Stage(lone, folder)
            stage.deploy()
            stage.live_through_the_hours_before()
            stage.start_agent()
            yield stage
        finally:
            kubelet.stop()


def roll_out(stage: Stage) -> tuple[float, list[float]]:
    """Restart the Deployment, and the manager, and the agent; return the Mid of the node before, and each second."""
    lone = stage.lone
    waiting.until("all pods are warm", lambda: stage.prediction().get("warmPods") == REPLICAS, within_seconds=120)
    waiting.until("Mid is published", lambda: lone.mid_cores(NODE) > 0, within_seconds=60)
    before, old = lone.mid_cores(NODE), {pod["metadata"]["uid"] for pod in stage.pods()}
    stage.restart_manager()
    kubectl = [
        str(lone.plane.binaries / "kubectl"),
        f"--kubeconfig={lone.plane.kubeconfig}",
        f"--namespace={NAMESPACE}",
    ]
    subprocess.run([*kubectl, "rollout", "restart", f"deployment/{DEPLOYMENT}"], check=True, capture_output=True)
    seen: list[float] = []
    replaced_at: list[float] = []

    def is_over() -> bool:
        seen.append(lone.mid_cores(NODE))
        uids = {pod["metadata"]["uid"] for pod in stage.pods()}
        if len(uids) != REPLICAS or uids & old:
            return False
        if not replaced_at:
            replaced_at.append(time.monotonic())
            stage.start_agent()
        return time.monotonic() - replaced_at[0] > 45

    waiting.until("the roll-out is over", is_over, within_seconds=240, every_seconds=1)
    return before, seen


def test_the_offer_stays_while_agent_and_manager_are_restarted(stage: Stage) -> None:
    waiting.until("the history is stored", lambda: stage.lone.api.send("GET", HISTORIES)["items"], within_seconds=90)
    before, seen = roll_out(stage)
    prediction = stage.prediction()
    assert (prediction.get("borrowedPods"), prediction.get("coldPods", 0)) == (REPLICAS, 0)
    assert min(seen) > (1 - MOST_FALL) * before, f"{before} cores before, then {seen}"
    stage.lone.configure(nodePredictPolicy={"coldStart": "strict"})
    waiting.until(
        "without the history most of it is gone",
        lambda: stage.lone.mid_cores(NODE),
        lambda cores: cores < before / 2,
        within_seconds=90,
    )


def test_the_history_goes_with_its_namespace(stage: Stage) -> None:
    stage.lone.api.send("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
    waiting.until("the history is gone", lambda: not stage.lone.api.send("GET", HISTORIES)["items"], within_seconds=120)


def test_an_uninstallation_deletes_what_is_stored(stage: Stage) -> None:
    lone = stage.lone
    lone.create(*chart_rendering.rendered(lone.plane.binaries, {}, "manager/uninstall-hook"))
    metadata = {"name": "workload-history-priors", "labels": {**stored.LABELS}}
    lone.api.send("POST", HISTORIES.partition("?")[0], {"metadata": metadata})
    kubeconfig = lone.kubeconfig("koord-suite-uninstall")
    options = (f"--kubeconfig={kubeconfig}", f"--namespace={SUITE_NAMESPACE}", "--no-restore-limits")
    ended = command_lines.run("manager", "uninstall", *options, within_seconds=120)
    assert ended.code == 0, ended.text
    assert lone.api.send("GET", HISTORIES)["items"] == []
