"""The story: usage is measured and predicted, the safe difference is offered as Mid, pods are placed by real load."""

from __future__ import annotations

import datetime as dt
import json
import string
from pathlib import Path
from typing import Any

from e2e.demo.narration import Narrator
from tools.localcluster import fake_nodes

CHART = "charts/koord-suite"
NAMESPACE = "koordinator-system"
CONFIG = {
    "enable": True,
    "metricReportIntervalSeconds": 30,
    "metricAggregateDurationSeconds": 60,
    "predictPolicy": {"resourceDiffThresholdPercent": 5, "coldStartPeriodSeconds": 60, "n": 2},
    "midCPUThresholdPercent": 60,
    "midMemoryThresholdPercent": 70,
    "midUnallocatedPercent": 30,
}
_MIB = 1 << 20


class Walkthrough:
    """One telling. Each method is a chapter; what it leaves behind, the next finds."""

    def __init__(self, narrator: Narrator, images: dict[str, str]) -> None:
        self.narrator = narrator
        self.cluster = narrator.cluster
        self.images = images
        self.node = self.cluster.real_nodes()[0]

    def manifest(self, template: str, /, **values: Any) -> str:
        """A manifest with its blanks filled."""
        text = (Path(__file__).parent / "manifests" / f"{template}.yaml").read_text(encoding="utf-8")
        return string.Template(text).substitute({"workload": self.images["workload"], "node": self.node, **values})

    def node_metric(self) -> dict[str, Any]:
        """Status of the node's NodeMetric, empty while there is none."""
        found = self.cluster.get("nodemetrics", "--ignore-not-found", self.node) if self._exists() else {}
        return found.get("status", {}) if found else {}

    def _exists(self) -> bool:
        return bool(self.cluster.run("get", "nodemetrics", self.node, "--ignore-not-found", "--output=name").strip())

    def mid(self) -> tuple[int, int] | None:
        """Mid CPU in milli-cores and memory in MiB the node offers; None while it offers none."""
        offered = self.cluster.get("node", self.node)["status"]["allocatable"]
        if "kubernetes.io/mid-cpu" not in offered:
            return None
        return _units(offered["kubernetes.io/mid-cpu"]), _units(offered["kubernetes.io/mid-memory"]) // _MIB

    def install(self) -> None:
        """Install the chart with the images of this checkout."""
        tell = self.narrator
        tell.step("Install the suite", "One chart: an agent on every node, the manager, a scheduler with our extender.")
        parts = {
            "koordlet": "koordlet",
            "manager": "manager",
            "scheduler.plugin": "scheduler-plugin",
            "scheduler": "kube-scheduler",
        }
        settings = [f"{value}={text}" for value, image in parts.items() for value, text in self._image(value, image)]
        tell.run(
            *("helm", "upgrade", "--install", "koord-suite", CHART),
            *("--namespace", NAMESPACE, "--create-namespace", "--wait", "--timeout=5m"),
            *(f"--set={setting}" for setting in settings),
            show=False,
            timeout_seconds=320,
        )
        tell.run("rollout", "status", "daemonset/koordlet", "--namespace", NAMESPACE, "--timeout=120s", show=False)
        tell.run("get", "pods", "--namespace", NAMESPACE)

    def _image(self, value: str, image: str) -> list[tuple[str, str]]:
        repository, _, tag = self.images[image].rpartition(":")
        return [(f"{value}.image.repository", repository), (f"{value}.image.tag", tag)]

    def run_prod(self) -> None:
        """Run a Prod workload that requests a lot and uses little."""
        tell = self.narrator
        tell.step(
            "A Prod workload asks for a lot and uses little", "1 core and 6 GiB requested; 0.1 core, 0.2 GiB used."
        )
        tell.run("delete", "pods", "--namespace", "demo", "--selector=!app", "--ignore-not-found", show=False)
        tell.run("apply", "--filename", "-", stdin=self.manifest("prod"))
        tell.run("rollout", "status", "deployment/shop", "--namespace", "demo", "--timeout=120s")

    def edit_config(self) -> None:
        """Switch colocation on."""
        tell = self.narrator
        tell.step(
            "Switch colocation on",
            "As the proposal's example edits it, with numbers for a small machine in a hurry: pods are cold for one "
            "minute instead of five, N of N-sigma is 2 instead of 5, a report every 30 s.",
        )
        patch = {"data": {"colocation-config": json.dumps(CONFIG, indent=2)}}
        tell.run("patch", "configmap", "slo-controller-config", "--namespace", NAMESPACE, "--patch", json.dumps(patch))
        tell.wait(
            "the manager has put the policy into the node's NodeMetric",
            lambda: (
                self.cluster.get("nodemetrics", self.node).get("spec", {}).get("predictPolicy", {}).get("n") == 2
                or None
            ),
        )
        tell.run(
            "get", "events", "--namespace", NAMESPACE, "--field-selector=involvedObject.name=slo-controller-config"
        )

    def watch_prediction(self) -> None:
        """See the prediction of the Prod pods become warm."""
        tell = self.narrator
        tell.step("The agent measures and predicts", "Usage each second, histograms each 30 s, a report each 30 s.")
        tell.wait("the first report", lambda: self.node_metric().get("updateTime"))
        tell.run("get", "nodemetrics")
        tell.wait(
            "shop is predicted from its history", lambda: self.node_metric().get("prediction", {}).get("warmPods"), 240
        )
        tell.run("get", "nodemetrics")
        tell.show(json.dumps({key: self.node_metric()[key] for key in ("allocated", "prodPeakMetric")}, indent=2))

    def see_mid(self) -> None:
        """See the Mid resources and their receipt."""
        tell = self.narrator
        tell.step(
            "The safe difference is on the node as Mid resources", "With a receipt for every term of the formula."
        )
        tell.wait("Mid resources are offered", lambda: self.mid() if (self.mid() or (0, 0))[1] > 0 else None, 240)
        tell.run("get", "node", self.node, "--output=jsonpath={.status.allocatable}")
        annotation = "{.metadata.annotations.koordinator\\.sh/mid-resource-status}"
        receipt = tell.run("get", "node", self.node, f"--output=jsonpath={annotation}", show=False)
        tell.show(json.dumps(json.loads(receipt), indent=1))

    def run_mid(self) -> None:
        """Run Mid pods on what is offered."""
        tell = self.narrator
        offered = self.mid() or (0, 0)
        wanted = {"mid_cpu": max(offered[0] // 6, 1), "mid_memory_mib": min(4096, offered[1] // 6)}
        tell.step("Mid pods run on it", "The proposal's own example, scaled to this node: mid-cpu counts milli-cores.")
        tell.wait(
            "starting all this has stopped to keep the node above its threshold of 65 % CPU",
            lambda: self._used_cpu_millis() * 100 < 60 * self._allocatable_cpu_millis() or None,
            300,
        )
        tell.run("apply", "--filename", "-", stdin=self.manifest("mid", **wanted))
        tell.run("rollout", "status", "deployment/mid-worker", "--namespace", "demo", "--timeout=120s")
        tell.run("get", "pods", "--namespace", "demo", "--output=wide")
        tell.wait(
            "the agent counts their requests",
            lambda: (
                _units(self.node_metric().get("allocated", {}).get("mid", {}).get("kubernetes.io/mid-memory", "0"))
                or None
            ),
        )

    def refuse_too_large(self) -> None:
        """See a Mid pod that does not fit stay Pending, with the reason."""
        tell = self.narrator
        offered = self.mid() or (0, 0)
        tell.step("A Mid pod that is too large stays Pending, and its events say why")
        wanted = {"mid_cpu": offered[0] * 2 + 1000, "mid_memory_mib": 64}
        self._pending("too-large", self.manifest("mid-pod", name="too-large", **wanted))

    def _pending(self, pod: str, manifest: str) -> None:
        tell = self.narrator
        tell.run("apply", "--filename", "-", stdin=manifest, show=False)
        selector = f"--field-selector=involvedObject.name={pod},reason=FailedScheduling"
        tell.wait(
            f"{pod} is refused",
            lambda: self.cluster.get("events", "--namespace", "demo", selector)["items"] or None,
        )
        tell.run("get", "pod", pod, "--namespace", "demo")
        tell.run("get", "events", "--namespace", "demo", selector, "--output=custom-columns=MESSAGE:.message")
        self.cluster.run("delete", "pod", pod, "--namespace", "demo", "--wait=false")

    def avoid_hot_node(self) -> None:
        """Make the node hot and see pods go elsewhere."""
        tell = self.narrator
        tell.step(
            "An overloaded node is passed over for a cooler one",
            "A noisy pod requests 0.1 core and burns 1.4: by requests the node is nearly empty, by load it is hot. The "
            "cooler node is a simulated one, whose report this demo writes.",
        )
        fake_nodes.set_count(self.cluster, 1)
        tell.run("apply", "--filename", "-", stdin=self.manifest("load"), show=False)
        tell.wait(
            "the report shows the node above 65 % of its CPU",
            lambda: self._used_cpu_millis() * 100 > 66 * self._allocatable_cpu_millis() or None,
            240,
        )
        tell.run("get", "nodemetrics")
        self._report_idle("fake-0")
        self._pending("only-here", self.manifest("choosy", name="only-here", nodes=self.node))
        tell.run("apply", "--filename", "-", stdin=self.manifest("choosy", name="either", nodes=f"{self.node}, fake-0"))
        chosen = tell.wait(
            "a pod that may go to either is bound",
            lambda: self.cluster.get("pod", "either", "--namespace", "demo")["spec"].get("nodeName"),
        )
        tell.run(
            "get",
            "pod",
            "either",
            "--namespace",
            "demo",
            "--output=custom-columns=POD:.metadata.name,NODE:.spec.nodeName",
        )
        if chosen != "fake-0":
            raise AssertionError(f"the pod went to {chosen}, which is hot; want fake-0")
        self.cluster.run("delete", "pod", "either", "noisy", "--namespace", "demo", "--wait=false")
        fake_nodes.set_count(self.cluster, 0)

    def _used_cpu_millis(self) -> int:
        usage = self.node_metric().get("nodeMetric", {}).get("nodeUsage", {}).get("resources", {})
        return _millis(usage.get("cpu", "0"))

    def _allocatable_cpu_millis(self) -> int:
        return _millis(self.cluster.get("node", self.node)["status"]["allocatable"]["cpu"])

    def _report_idle(self, node: str) -> None:
        self.narrator.wait(
            f"the manager has made a NodeMetric for {node}",
            lambda: self.cluster.run("get", "nodemetrics", node, "--ignore-not-found", "--output=name").strip() or None,
        )
        usage = {"resources": {"cpu": "500m", "memory": "2Gi"}}
        stamp = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {"status": {"updateTime": stamp, "nodeMetric": {"nodeUsage": usage, "systemUsage": {}}}}
        self.cluster.run(
            *("patch", "nodemetrics", node, "--subresource=status", "--type=merge", "--patch", json.dumps(status))
        )

    def chapters(self) -> list[Any]:
        """The chapters, in order."""
        return [
            self.install,
            self.run_prod,
            self.edit_config,
            self.watch_prediction,
            self.see_mid,
            self.run_mid,
            self.refuse_too_large,
            self.avoid_hot_node,
        ]


def _units(text: str | int) -> int:
    scale = {"k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
    value = str(text)
    for suffix, factor in scale.items():
        if value.endswith(suffix) and value.removesuffix(suffix).isdigit():
            return int(value.removesuffix(suffix)) * factor
    return int(value)


def _millis(text: str | int) -> int:
    value = str(text)
    return int(value.removesuffix("m")) if value.endswith("m") else int(value) * 1000
