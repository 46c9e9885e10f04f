"""The chapters of the demo: usage is measured and predicted, Mid resources are published, pods are placed by load.

Every fact is checked (see `checks`) before it is printed. On a busy machine the walkthrough states what it measures and
adapts: it waits longer, and it switches the node's load threshold off where the machine's own load would block a step.
"""

from __future__ import annotations

import datetime as dt
import json
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.demo import checks, machine
from e2e.demo.checks import MIB, Amount
from e2e.demo.console import Console, DemoStopped, NotYet
from e2e.demo.node_objects import NodeObjects
from e2e.support.names import (
    CONFIG_MAP,
    MID_CPU,
    MID_MEMORY,
    STATE_HOST_PATH,
    STATUS_ANNOTATION,
    SUITE_NAMESPACE,
    THRESHOLDS_ANNOTATION,
)
from tools.localcluster import fake_nodes
from tools.localcluster.errors import ClusterProblem

CHART = "charts/koord-suite"
DEMO = ("--namespace", "demo")
CONFIG = {
    "enable": True,
    "metricReportIntervalSeconds": 30,
    "metricAggregateDurationSeconds": 60,
    "predictPolicy": {
        "resourceDiffThresholdPercent": 5,
        "coldStartPeriodSeconds": 60,
        "n": 2,
        "cpuHalfLifeSeconds": 60,
        "memoryHalfLifeSeconds": 60,
    },
    "midCPUThresholdPercent": 60,
    "midMemoryThresholdPercent": 70,
    "midUnallocatedPercent": 30,
}
HOT_PERCENT = 65
"""CPU usage above which the extender's LoadAware plugin rejects a node, by default."""
TOO_HOT = "cpu usage exceed threshold"
TOO_LARGE = f"Insufficient {MID_CPU}"
MID_WORKERS = 2
RECLAIMED_CPU_SECONDS = 150
_SUITE_IMAGES = {
    "koordlet": "koordlet",
    "manager": "manager",
    "scheduler.plugin": "scheduler-plugin",
    "scheduler": "kube-scheduler",
}


class Walkthrough:
    """One run of the demo. The methods named by `chapters` run in order, each on the result of the earlier ones."""

    def __init__(
        self, console: Console, images: dict[str, str], busy_percent: Callable[[], float] = machine.busy_percent
    ) -> None:
        self.console = console
        self.cluster = console.cluster
        self.images = images
        self.node = self.cluster.real_nodes()[0]
        self.objects = NodeObjects(self.cluster, self.node)
        self._busy_percent = busy_percent
        self._shop = Amount(0, 0)
        self._warm_since = ""

    def chapters(self) -> list[Callable[[], None]]:
        """Return the chapters, in order."""
        return [
            self.measure_machine,
            self.install,
            self.edit_config,
            self.run_prod,
            self.watch_prediction,
            self.see_mid,
            self.run_mid,
            self.refuse_too_large,
            self.avoid_hot_node,
        ]

    def measure_machine(self) -> None:
        """Measure how busy the machine is, and remove what an earlier run has left."""
        self.console.step("Measure this machine")
        busy = self._busy_percent()
        self.console.patience = machine.patience(busy)
        if busy >= checks.BUSY_PERCENT:
            self.console.warn(
                f"This machine is busy: other programs and the control plane use {busy:.0f} % of its CPU. The demo "
                f"waits up to {self.console.patience:.0f} times as long, and less CPU can be reclaimed."
            )
        else:
            self.console.confirm(f"{busy:.0f} % of the CPU is in use: the machine is quiet")
        self.cluster.run("delete", "namespace", "demo", "--ignore-not-found", "--wait", timeout_seconds=180)
        self._switch_load_threshold(on=True)

    def install(self) -> None:
        """Install the chart with the images of this checkout."""
        console = self.console
        console.step(
            "Install the suite", "One chart: an agent on every node, the manager, a scheduler with an extender."
        )
        settings = [
            setting
            for value, image in _SUITE_IMAGES.items()
            for repository, _, tag in [self.images[image].rpartition(":")]
            for setting in (f"--set={value}.image.repository={repository}", f"--set={value}.image.tag={tag}")
        ]
        console.run(
            *("helm", "upgrade", "--install", "koord-suite", CHART),
            *("--namespace", SUITE_NAMESPACE, "--create-namespace", "--wait"),
            f"--timeout={300 * console.patience:.0f}s",
            *settings,
            f"--set=koordlet.stateHostPath={STATE_HOST_PATH}",
            show=False,
            timeout_seconds=320,
        )
        self._wait_rollout("daemonset/koordlet", SUITE_NAMESPACE)
        console.run("get", "pods", "--namespace", SUITE_NAMESPACE)

    def edit_config(self) -> None:
        """Switch colocation on."""
        console = self.console
        console.step(
            "Switch colocation on",
            "With numbers for a small machine and a short demo: pods are cold for one minute, N of N-sigma is 2, the "
            "history has a half-life of one minute, and the agent reports every 30 s.",
        )
        patch = {"data": {"colocation-config": json.dumps(CONFIG, indent=2)}}
        console.run("patch", "configmap", CONFIG_MAP, "--namespace", SUITE_NAMESPACE, "--patch", json.dumps(patch))
        console.wait("the manager has put this policy into the node's NodeMetric", self._check_policy)

    def _check_policy(self) -> None:
        spec = self.objects.node_metric().get("spec", {})
        wanted, found = CONFIG["predictPolicy"], spec.get("predictPolicy", {})
        assert isinstance(wanted, dict)
        if different := {key: found.get(key) for key, value in wanted.items() if found.get(key) != value}:
            raise NotYet(f"the NodeMetric's predictPolicy has {different}")

    def run_prod(self) -> None:
        """Run a Prod workload that requests a lot and uses little."""
        console = self.console
        since = _now()
        console.step(
            "A Prod workload requests a lot and uses little",
            "shop uses 0.1 core and 0.2 GiB. The demo makes its request larger than the usage of the whole node.",
        )
        used = console.wait("the agent reports the node's usage", lambda: checks.node_usage(self.objects.report(since)))
        allocatable = self.objects.allocatable()
        console.confirm(
            f"node {self.node}: {used.cpu_millis}m of {allocatable.cpu_millis}m CPU and {used.memory_bytes // MIB} of "
            f"{allocatable.memory_bytes // MIB} MiB in use"
        )
        self._shop = checks.shop_request(allocatable, self.objects.requested(), used)
        request = {"cpu_millis": self._shop.cpu_millis, "memory_mib": self._shop.memory_bytes // MIB}
        console.run("apply", "--filename", "-", stdin=self.manifest("prod", **request))
        self._wait_rollout("deployment/shop", "demo")

    def watch_prediction(self) -> None:
        """Wait until shop is predicted from its history."""
        console = self.console
        console.step(
            "The agent measures and predicts",
            "A pod is cold until it has one minute of history: its peak is then its full request.",
        )
        since = _now()
        report = console.wait(
            "shop is warm: its peak is predicted from its history",
            lambda: checks.warm_shop(self.objects.report(since), self._shop),
            240,
        )
        self._warm_since = report["updateTime"]
        console.run("get", "nodemetrics")
        usage, prediction = checks.shop_usage(report), report["prediction"]
        console.confirm(
            f"shop requests {self._shop.cpu_millis}m and {self._shop.memory_bytes // MIB} MiB, and uses "
            f"{usage.cpu_millis}m and {usage.memory_bytes // MIB} MiB; {prediction['warmPods']} Prod pods are warm, "
            f"{prediction.get('coldPods', 0)} are cold"
        )
        console.show(json.dumps({key: report[key] for key in ("allocated", "prodPeakMetric")}, indent=2))

    def see_mid(self) -> None:
        """Show the Mid resources and every term of their formula."""
        console = self.console
        console.step(
            "The reclaimed part is on the node as Mid resources",
            "Reclaimable is what Prod pods request and their predicted peak does not need. The status annotation has "
            "every term of the formula.",
        )
        terms = console.wait(
            "memory is reclaimed from the prediction and published as Mid resource",
            lambda: checks.reclaimed_memory(checks.predicted_mid(self.objects.mid_status(), self._warm_since)),
            240,
        )
        try:
            if self.objects.is_busy():
                checks.reclaimed_cpu(terms)
            else:
                terms = console.wait("CPU is reclaimed too", self._reclaimed_both, RECLAIMED_CPU_SECONDS)
        except (NotYet, DemoStopped) as seen:
            console.warn(f"No CPU is reclaimed on this machine: {seen}. Mid CPU is only the share of unrequested CPU.")
        annotation = STATUS_ANNOTATION.replace(".", "\\.")
        jsonpath = f"--output=jsonpath={{.metadata.annotations.{annotation}}}"
        status = json.loads(console.run("get", "node", self.node, jsonpath, show=False))
        console.show(checks.table(status))
        cpu, memory = (status["resources"][name] for name in (MID_CPU, MID_MEMORY))
        console.confirm(
            f"reclaimed from the prediction: {cpu.get('reclaimable', 0)}m CPU and "
            f"{memory.get('reclaimable', 0) // MIB} MiB memory; published as Mid: {cpu['published']}m and "
            f"{memory['published'] // MIB} MiB"
        )

    def _reclaimed_both(self) -> Any:
        terms = checks.predicted_mid(self.objects.mid_status(), self._warm_since)
        return checks.reclaimed_cpu(checks.reclaimed_memory(terms))

    def run_mid(self) -> None:
        """Run Mid pods on the Mid resources."""
        console = self.console
        console.step("Mid pods run on them", "mid-cpu counts milli-cores, mid-memory bytes.")
        if self.objects.is_busy():
            self._switch_load_threshold(on=False)
        cpu, memory = self.objects.mid()
        wanted = {"mid_cpu": max(cpu // 6, 1), "mid_memory_mib": max(min(4096, memory // MIB // 6), 1)}
        console.run("apply", "--filename", "-", stdin=self.manifest("mid", **wanted))
        try:
            self._wait_rollout("deployment/mid-worker", "demo")
        except ClusterProblem:
            if TOO_HOT not in json.dumps(self._events("reason=FailedScheduling")):
                raise
            self._switch_load_threshold(on=False)
            self._wait_rollout("deployment/mid-worker", "demo")
        console.run("get", "pods", *DEMO, "--output=wide")
        requests = {MID_CPU: MID_WORKERS * wanted["mid_cpu"], MID_MEMORY: MID_WORKERS * wanted["mid_memory_mib"] * MIB}
        console.wait(
            "the agent's report counts the requests of both Mid pods",
            lambda: checks.counted_mid(self.objects.node_metric().get("status", {}), requests),
        )

    def refuse_too_large(self) -> None:
        """Show that a Mid pod that does not fit stays Pending, with the reason."""
        self.console.step("A Mid pod that is too large stays Pending, and its Event states why")
        wanted = {"mid_cpu": self.objects.mid()[0] * 2 + 1000, "mid_memory_mib": 64}
        self._expect_pending("too-large", self.manifest("mid-pod", name="too-large", **wanted), TOO_LARGE)

    def avoid_hot_node(self) -> None:
        """Make the node hot and show that load decides where pods go."""
        console = self.console
        console.step(
            "Load decides: an overloaded node gets no more pods",
            f"A noisy pod requests 0.05 core and burns CPU, until the node uses more than {HOT_PERCENT} % of it. The "
            "other node, fake-0, is simulated: this demo writes its report, which is idle.",
        )
        self._switch_load_threshold(on=True)
        fake_nodes.set_count(self.cluster, 1)
        cores = checks.noisy_cores(
            self.objects.allocatable(), checks.node_usage(self.objects.node_metric().get("status", {}))
        )
        console.run("apply", "--filename", "-", stdin=self.manifest("load", cores=cores), show=False)
        console.wait(f"the report shows the node above {HOT_PERCENT} % of its CPU", self._check_hot, 240)
        console.run("get", "nodemetrics")
        self._report_idle("fake-0")
        here = {"preferred": self.node, "nodes": self.node}
        only_here = self.manifest("choosy", name="only-here", scheduler="koord-scheduler", **here)
        self._expect_pending("only-here", only_here, TOO_HOT)
        self._place("stock", "default-scheduler", self.node)
        self._report_idle("fake-0")
        self._place("by-load", "koord-scheduler", "fake-0")
        console.confirm(
            f"the same pod, which prefers {self.node} and may run on both nodes: the default scheduler puts it onto "
            f"{self.node}, the suite's scheduler onto fake-0, because {self.node} is hot"
        )
        self.cluster.run("delete", "pod", "stock", "by-load", "noisy", *DEMO, "--wait=false")
        fake_nodes.set_count(self.cluster, 0)

    def _place(self, pod: str, scheduler: str, wanted: str) -> None:
        """Create a pod that may run on both nodes and prefers the real one. Raises DemoStopped for another node."""
        both = {"preferred": self.node, "nodes": f"{self.node}, fake-0"}
        manifest = self.manifest("choosy", name=pod, scheduler=scheduler, **both)
        self.console.run("apply", "--filename", "-", stdin=manifest, show=scheduler != "default-scheduler")
        node = self.console.wait(
            f"{scheduler} has bound pod {pod}", lambda: checks.bound_node(self.cluster.get("pod", pod, *DEMO))
        )
        self.console.run("get", "pod", pod, *DEMO, "--output=custom-columns=POD:.metadata.name,NODE:.spec.nodeName")
        if node != wanted:
            raise DemoStopped(f"{scheduler} put pod {pod} onto {node}, expected {wanted}")

    def _expect_pending(self, pod: str, manifest: str, expected: str) -> None:
        """Create a pod and wait for the Event with the expected reason; show both; delete the pod."""
        console = self.console
        console.run("apply", "--filename", "-", stdin=manifest)
        selector = f"involvedObject.name={pod},reason=FailedScheduling"
        message = console.wait(
            f"pod {pod} is refused: {expected}", lambda: checks.refusal(self._events(selector), expected)
        )
        console.run("get", "pod", pod, *DEMO)
        console.show(f"Event FailedScheduling: {message}")
        self.cluster.run("delete", "pod", pod, *DEMO, "--wait=false")

    def _switch_load_threshold(self, *, on: bool) -> None:
        """Switch the load threshold of the real node on (the scheduler's default) or off."""
        if on:
            annotations = self.cluster.get("node", self.node)["metadata"].get("annotations", {})
            if THRESHOLDS_ANNOTATION not in annotations:
                return
            words = ("annotate", "node", self.node, f"{THRESHOLDS_ANNOTATION}-")
        else:
            self.console.warn(
                f"The node uses {self.objects.used_percent()} % of its CPU, so the extender may keep pods away: the "
                f"threshold is {HOT_PERCENT} %. The demo switches the threshold of this node off, by an annotation."
            )
            limits = json.dumps({"usageThresholds": {"cpu": 0, "memory": 0}})
            words = ("annotate", "--overwrite", "node", self.node, f"{THRESHOLDS_ANNOTATION}={limits}")
        self.console.run(*words)

    def _check_hot(self) -> None:
        if self.objects.used_percent() <= HOT_PERCENT:
            raise NotYet(f"{self.objects.used_percent()} % of the CPU in use")

    def manifest(self, template: str, /, **values: Any) -> str:
        """Return a manifest with its placeholders replaced."""
        text = (Path(__file__).parent / "manifests" / f"{template}.yaml").read_text(encoding="utf-8")
        return string.Template(text).substitute({"workload": self.images["workload"], "node": self.node, **values})

    def _wait_rollout(self, workload: str, namespace: str) -> None:
        limit = f"--timeout={120 * self.console.patience:.0f}s"
        self.console.run("rollout", "status", workload, "--namespace", namespace, limit, show=False)

    def _events(self, selector: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self.cluster.get("events", *DEMO, f"--field-selector={selector}")["items"]
        return events

    def _report_idle(self, node: str) -> None:
        """Write an idle report for a fake node, once the manager has created its NodeMetric."""

        def check_exists() -> None:
            if not self.cluster.run("get", "nodemetrics", node, "--ignore-not-found", "--output=name").strip():
                raise NotYet("no NodeMetric")

        self.console.wait(f"the manager has created a NodeMetric for {node}", check_exists)
        usage = {"resources": {"cpu": "500m", "memory": "2Gi"}}
        status = {"status": {"updateTime": _now(), "nodeMetric": {"nodeUsage": usage, "systemUsage": {}}}}
        self.cluster.run(
            *("patch", "nodemetrics", node, "--subresource=status", "--type=merge", "--patch", json.dumps(status))
        )


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
