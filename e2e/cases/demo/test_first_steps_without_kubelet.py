"""The first ten minutes on a lone API server: every step that waits for no running pod.

The chart is installed by the step itself. The manager and both schedulers then run as processes of this machine, the
manager with the service account of the chart; this case writes the reports of two nodes in place of their agents.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from e2e.demo import terminal, workspace
from e2e.demo.checks import MIB, Amount
from e2e.demo.console import Console
from e2e.demo.steps import STEPS
from e2e.demo.terminal import Terminal
from e2e.support.lone_scheduler import LoneScheduler
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster import standalone_control_plane
from tools.localcluster.access import Cluster
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODE_METRICS, NODES, RequestError
from tools.localcluster.host import ports
from tools.localcluster.standalone_control_plane import ControlPlane

INSTALL: Final = "Install"
NAMES: Final = ("worker-1", "worker-2")
PATIENCE: Final = 3.0
"""Factor on the limits: this case has no quiet machine to itself."""
HERE: Final = ("--namespace", SUITE_NAMESPACE)
pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


class Suite:
    """What runs beside the API server once the chart is installed."""

    def __init__(self, plane: ControlPlane, cluster: Cluster) -> None:
        self._plane = plane
        self._cluster = cluster
        self._ended = threading.Event()
        self._agents = threading.Thread(target=self._report)
        self._scheduler = LoneScheduler(plane, {})

    def add_nodes(self) -> None:
        """Create two nodes of 10 cores."""
        amounts = {"cpu": "10", "memory": "32Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": _now(), "lastTransitionTime": _now()}
        for name in NAMES:
            status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
            self._scheduler.api.send("POST", NODES, {"metadata": {"name": name}, "status": status})

    def start(self) -> None:
        """Start the manager, the extender, kube-scheduler, and the reports of the nodes."""
        kubeconfig = self._plane.places.state / "manager.kubeconfig"
        document = yaml.safe_load(self._plane.kubeconfig.read_text())
        token = self._cluster.run("create", "token", "koord-manager", *HERE).strip()
        document["users"][0]["user"] = {"token": token}
        kubeconfig.write_text(yaml.safe_dump(document))
        port = ports.free_port()
        self._plane.start_python(
            "manager",
            *("-m", "manager", "run", f"--kubeconfig={kubeconfig}", f"--namespace={SUITE_NAMESPACE}"),
            *("--http-address=127.0.0.1", f"--http-port={port}"),
        )
        self._plane.wait_for_page(self._plane.process("manager"), port, "/healthz")
        self._agents.start()
        self._scheduler.start()

    def end(self) -> None:
        """Let the nodes report no more."""
        self._ended.set()
        if self._agents.ident:
            self._agents.join()
        self._scheduler.api.close()

    def _report(self) -> None:
        with contextlib.closing(self._plane.connect()) as api:
            while not self._ended.wait(2):
                for name in NAMES:
                    with contextlib.suppress(RequestError):  # before the manager has made the NodeMetric
                        path = f"{NODE_METRICS}/{name}/status"
                        api.send("PATCH", path, {"status": _status()}, content=MERGE_PATCH)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _status() -> dict[str, Any]:
    """Return the report of a node whose Prod pods request 8 cores and 16 GiB, and are expected to use a third."""
    peak = {"cpu": "2500m", "memory": "5Gi"}
    nothing = {"cpu": "0", "memory": "0"}
    used = {"cpu": "2", "memory": "4Gi"}
    return {
        "updateTime": _now(),
        "nodeMetric": {"nodeUsage": {"resources": used}, "systemUsage": {"resources": nothing}},
        "allocated": {
            "prod": {"cpu": "8", "memory": "16Gi"},
            "mid": {"kubernetes.io/mid-cpu": "0", "kubernetes.io/mid-memory": "0"},
        },
        "usage": {"prod": used, "mid": nothing, "batchAndFree": nothing, "system": nothing},
        "prodPeakMetric": {"resource": {"resources": peak}},
    }


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[tuple[Suite, Console]]:
    with standalone_control_plane.running() as plane:
        cluster = Cluster("lone", plane.kubeconfig, plane.binaries / "kubectl", plane.binaries / "helm")
        values = {"global": {"imageRegistry": "registry.example"}}
        workspace.make(tmp_path, values, "registry.example/workload:1", Amount(8_000, 16_384 * MIB))
        console = Console(Terminal(tmp_path, terminal.environment(cluster.environment)))
        console.patience = PATIENCE
        made = Suite(plane, cluster)
        try:
            made.add_nodes()
            yield made, console
        finally:
            made.end()


def test_each_step_has_its_result(suite: tuple[Suite, Console], tmp_path: Path) -> None:
    beside, console = suite
    for step in STEPS:
        if not step.needs_kubelet:
            console.perform(step)
        if step.title == INSTALL:
            beside.start()
    assert console.names["NODE"] in NAMES
    written = sorted(path.name for path in (tmp_path / "monitoring").iterdir())
    assert "alert-rules.yaml" in written
    assert all(json.loads((tmp_path / "monitoring" / name).read_text()) for name in written if name.endswith(".json"))
