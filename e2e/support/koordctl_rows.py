"""Command lines of koordctl with the exit codes of each: for an administrator, the viewer of the chart, a stranger.

They are typed in a folder that `write_files` has filled, against the cluster of `objects`. Commands and formats are
those of the program: a case compares them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from e2e.support import lone_manager
from e2e.support.lone_manager import LoneManager

NODES: Final = ("n1", "n2")
DOCUMENT: Final = {
    "enable": True, "metricReportIntervalSeconds": 300, "updateTimeThresholdSeconds": 1, "midCPUThresholdPercent": 60,
}  # fmt: skip
"""The configuration in force; a report stays fresh for ten minutes."""


PATIENT_SECONDS: Final = 300.0


class Ended(NamedTuple):
    """Exit code and both outputs of a command."""

    code: int
    out: str
    err: str


class Row(NamedTuple):
    """A command line and its exit codes."""

    line: str
    code: int
    """For an administrator, and for every identity where the command reads no cluster."""
    viewer: int | None = None
    stranger: int | None = None
    lacks: str = "nodes"
    """A resource that the command names to a caller without any right."""

    @property
    def reads(self) -> bool:
        """Return whether the command reads a cluster."""
        return self.viewer is not None


ROWS: Final = (
    Row("status", 0, 0, 3),
    Row("check", 1, 1, 3),  # no pod of the suite runs here
    Row("check --skip installation,rights,reports,scheduling", 0, 0, 3),
    Row("check --pre", 0, 1, 1, "create"),
    Row("top nodes", 0, 0, 3),
    Row("top pods", 0, 0, 3, "pods"),
    Row("top namespaces", 0, 0, 3, "configmaps"),
    Row("top nodes --above mid=1000", 1, 1, 3),
    Row("my -n shop", 0, 0, 3),
    Row("explain node n1", 0, 0, 3),
    Row("explain node absent", 1, 1, 3),
    Row("explain pod shop/mid-1", 0, 0, 3, "pods"),
    Row("explain pod shop/absent", 1, 1, 3, "pods"),
    Row("explain config", 0, 0, 3, "deployments"),
    Row("explain config n1", 0, 0, 3, "deployments"),
    Row("explain config absent", 1, 1, 3, "deployments"),
    Row("config check good.json", 0),
    Row("config check bad.json", 1),
    Row("config render --preset balanced", 0),
    Row("config diff good.json", 0, 0, 3, "deployments"),
    Row("config diff --preset conservative", 1, 1, 3, "deployments"),
    Row("config apply good.json --dry-run", 0, 0, 3, "configmaps"),
    Row("config apply bad.json --yes", 1),
    Row("scheduler check plugins.yaml", 0),
    Row("scheduler check unknown-plugin.yaml", 1),
    Row("simulate --pods pods.json --nodes nodes.json", 0),
    Row("simulate --live", 0, 0, 3, "pods"),
    Row("gain", 0, 0, 3),
    Row("estimate --now", 1, 1, 3),  # without metrics-server nothing is known to be on offer
    Row("backtest merge short.json", 1),  # of less than the seven days that a recommendation needs
    Row("bundle -f BUNDLE", 0, 0, 3),
    Row("convert good.yaml", 0),
    Row("convert refused.yaml", 1),
    Row("completion bash", 0),
    Row("version", 0, 0, 0, "daemonsets"),
    Row("version --client", 0),
    Row("reset-prediction n1 --dry-run", 0, 0, 3, "nodemetrics"),
    Row("reset-prediction n1 --yes", 0, 3, 3, "nodemetrics"),
    Row("reset-prediction absent --yes", 1, 1, 3, "nodemetrics"),
    Row("uninstall --dry-run", 0, 0, 3),
    Row("export k9s", 0),
)
"""At least one for each command but `console`, which serves until Ctrl-C. BUNDLE is a new file for each call."""
WRONG: Final = (
    "status --interval 0",
    "check --fail-on never",
    "top nodes --sort colour",
    "my --interval 0",
    "explain node",
    "explain pod a/b/c",
    "explain config --config absent.json",
    "config check absent.json",
    "config render --preset none",
    "config apply absent.json",
    "config diff",
    "scheduler check absent.yaml",
    "simulate",
    "simulate --live --kubeconfig absent --config absent.yaml",
    "gain --since long",
    "estimate --cpu-price many",
    "estimate --cpu-price nan",
    "console --port many",
    "backtest",
    "backtest --prometheus http://127.0.0.1:9 --cache good.json/folder",
    "bundle -f good.json",
    "convert absent.yaml",
    "completion tcsh",
    "version --output csvx",
    "reset-prediction n1",
    "uninstall",
    "export dashboards",
)
"""At least one for each command: a flag, a name or a file is wrong."""


def write_files(folder: Path) -> None:
    """Write the files that the command lines name."""
    pods, nodes = {"kind": "PodList", "items": [_pod()]}, {"kind": "NodeList", "items": [_node()]}
    text = {
        "good.json": json.dumps(DOCUMENT),
        "bad.json": json.dumps({**DOCUMENT, "midCPUThresholdPercent": 120}),
        "good.yaml": json.dumps(_pod()),
        "plugins.yaml": "pluginConfig: [{name: LoadAwareScheduling}]",
        "unknown-plugin.yaml": "pluginConfig: [{name: Unknown}]",
        "refused.yaml": "kind: Pod\nspec: {priorityClassName: koord-mid, containers: 3}\n",
        "pods.json": json.dumps(pods),
        "nodes.json": json.dumps(nodes),
    }
    for name, content in text.items():
        (folder / name).write_text(content, encoding="utf-8")


def _pod() -> dict[str, Any]:
    requests = {"kubernetes.io/mid-cpu": "1000", "kubernetes.io/mid-memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one", "namespace": "default", "uid": "one", "labels": {"koordinator.sh/qosClass": "BE"}},
        "spec": {
            "priority": 7000,
            "priorityClassName": "koord-mid",
            "schedulerName": "koord-scheduler",
            "containers": [{"name": "c", "image": "none", "resources": {"requests": requests, "limits": requests}}],
        },
    }


def _node() -> dict[str, Any]:
    amounts = {"cpu": "10", "memory": "20Gi", "pods": "110", "kubernetes.io/mid-cpu": "4000"}
    amounts["kubernetes.io/mid-memory"] = "4Gi"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def make_objects(lone: LoneManager) -> None:
    """Create nodes with reports and Mid resources, and a running Mid pod."""
    lone.configure(**DOCUMENT)
    lone.start()
    for name in NODES:
        lone.add_node(name, PATIENT_SECONDS)
        lone.report(name, calculated_cores=4)
    lone.add_namespace("shop")
    lone.until("Mid on each node", lambda: all(lone.mid_cores(name) for name in NODES), PATIENT_SECONDS)
    lone.add_pod("mid-1", node="n1", namespace="shop")


@contextlib.contextmanager
def running() -> Iterator[LoneManager]:
    """Run a manager on a lone API server that has the objects."""
    with lone_manager.running() as lone:
        make_objects(lone)
        yield lone
