"""The chapters of the demo: the first ten minutes, step by step, then a node that is too hot for more pods."""

from __future__ import annotations

import datetime as dt
import functools
import json
import shutil
import string
from collections.abc import Callable, Mapping
from pathlib import Path

from e2e.demo import checks, machine, workspace
from e2e.demo.checks import MIB, Amount
from e2e.demo.console import Console, NotYet
from e2e.demo.node_objects import NodeObjects
from e2e.demo.steps import STEPS, Line, Step
from e2e.support.names import SUITE_NAMESPACE, THRESHOLDS_ANNOTATION
from tools.localcluster import fake_nodes
from tools.localcluster.access import Cluster

HOT_PERCENT = 65
"""CPU usage above which the extender's LoadAware plugin rejects a node, by default."""
TOO_HOT = "cpu usage exceed threshold"
SUITE_REQUESTS = Amount(500, 1024 * MIB)
"""At least what the pods of the suite request on a node."""
_EVICTION = {"mode": "evict", "reports": 2, "nodeIntervalSeconds": 10, "readmitSeconds": 30}
_RISE_SHARE = 0.75
"""Part of the node's CPU that Prod rises to: more than its pods request, and little enough that a service is served."""
FAKE = f"{fake_nodes.PREFIX}0"
_LEFT = ("deployment/prod-web", "deployment/mid-worker", "pod/mid-too-large")


class Walkthrough:
    """One run of the demo in a folder. The chapters run in order, each on the result of the earlier ones."""

    def __init__(
        self,
        console: Console,
        cluster: Cluster,
        folder: Path,
        images: Mapping[str, str],
    ) -> None:
        self.console = console
        self.cluster = cluster
        self.folder = folder
        self.images = images
        self.node = cluster.real_nodes()[0]
        self.objects = NodeObjects(cluster, self.node)

    def chapters(self) -> list[Callable[[], None]]:
        """Return the chapters, in order."""
        steps = [functools.partial(self.console.perform, step) for step in STEPS]
        return [self.prepare, *steps, self.take_back, self.avoid_hot_node]

    def prepare(self) -> None:
        """Measure how busy the node is, remove what an earlier run has left, and fill the folder."""
        console = self.console
        console.explain(f"Measure node {self.node}")
        load = machine.measure(self.node)
        console.patience = load.patience()
        if load.cpu_percent >= checks.BUSY_PERCENT:
            console.warn(
                f"Node {self.node} is busy: programs outside of pods use {load.cpu_percent:.0f} % of its CPU. The demo "
                f"waits up to {console.patience:.0f} times as long, and less CPU can be reclaimed."
            )
        else:
            console.confirm(f"{load.cpu_percent:.0f} % of the CPU is in use: the node is quiet")
        self.clean()
        self._allow_load(cpu_percent=0)
        allocatable, requested = self.objects.allocatable(), self.objects.requested()
        with_suite = Amount(*(sum(each) for each in zip(requested, SUITE_REQUESTS, strict=True)))
        shop = checks.shop_request(allocatable, with_suite, load.used(allocatable))
        workspace.make(self.folder, workspace.values(self.images), self.images["workload"], shop)
        console.explain(
            f"The commands are those of docs/getting-started.md. Images, requests ({shop.cpu_millis}m CPU and "
            f"{shop.memory_bytes // MIB} MiB of Prod) and a cold start of one minute are those of this machine. Load "
            "keeps no pod off its node before the last step."
        )

    def clean(self) -> None:
        """Remove the pods of a run, and the suite."""
        self.cluster.run("delete", "namespace", "demo", "--ignore-not-found", "--wait", timeout_seconds=180)
        self.cluster.run("--namespace=default", "delete", "--ignore-not-found", *_LEFT, timeout_seconds=180)
        self.cluster.run(
            *("helm", "uninstall", "koord-suite", "--namespace", SUITE_NAMESPACE, "--ignore-not-found", "--wait"),
            timeout_seconds=320,
        )

    def take_back(self) -> None:
        """Let Prod use its node on which a Mid pod runs, and show that the Mid pod leaves."""
        self.cluster.run("create", "namespace", "demo")
        path = "--output=jsonpath={.items[0].spec.nodeName}"
        node = self.cluster.run("--namespace=default", "get", "pods", "--selector=app=mid-worker", path).strip()
        config = json.dumps({**workspace.CONFIG, "midUnallocatedPercent": 0, "midEviction": _EVICTION})
        patch = json.dumps({"data": {"colocation-config": config}})
        (self.folder / "eviction.yaml").write_text(patch, encoding="utf-8")
        rise_cores = round(self.objects.allocatable().cpu_millis * _RISE_SHARE) / 1000
        self._write("service", "load", name="service", node=node, request="100m", cores=0)
        self._write("rise", "load", name="rise", node=node, request="50m", cores=rise_cores)
        shutil.copy(Path(__file__).with_name("latency.py"), self.folder)
        wait = "kubectl --namespace demo wait --for=condition=Ready --timeout=120s"
        self.console.perform(
            Step(
                "Prod rises, Mid leaves",
                "Eviction is off until it is switched on; here only what Prod leaves is offered, nothing unallocated. "
                f"Then a Prod pod on {node} begins to use {rise_cores:g} cores: the Mid of the node falls with the "
                "next report, and where running Mid pods request more than is left after two reports, they are "
                "evicted one after another, and the node takes no new one until it was calm. Meanwhile 50 requests a "
                "second arrive at a small Prod pod there, for 5 s each time; the other Prod pod works until the end.",
                260,
                (
                    Line("kubectl apply --filename service.yaml"),
                    Line(f"{wait} pod/service"),
                    Line("python latency.py before Prod rises"),
                    Line(
                        "kubectl --namespace koordinator-system patch configmap slo-controller-config "
                        "--patch-file eviction.yaml"
                    ),
                    Line("kubectl apply --filename rise.yaml"),
                    Line(f"{wait} pod/rise"),
                    Line("python latency.py Prod rises beside Mid"),
                    Line(
                        "kubectl --namespace default get events --field-selector reason=MidPodEvicted",
                        shows=f"evicted from {node}",
                        repeats=True,
                    ),
                    Line(f"koordctl explain node {node}", shows="closed since"),
                    Line("python latency.py a Mid pod has left", shows=r"left +\d+ +\d.* \d"),
                    Line("kubectl delete --filename rise.yaml --filename service.yaml"),
                ),
            )
        )

    def avoid_hot_node(self) -> None:
        """Make the node hot and show that load decides where pods go."""
        self._allow_load(cpu_percent=None)
        fake_nodes.set_count(self.cluster, 1)
        missing = checks.noisy_cores(self.objects.allocatable(), self.objects.used())
        self._write("noisy", "load", name="noisy", request="50m", cores=missing)
        here = {"preferred": self.node, "nodes": self.node}
        both = {"preferred": self.node, "nodes": f"{self.node}, {FAKE}"}
        self._write("only-here", "choosy", name="only-here", scheduler="koord-scheduler", **here)
        self._write("stock", "choosy", name="stock", scheduler="default-scheduler", **both)
        self._write("by-load", "choosy", name="by-load", scheduler="koord-scheduler", **both)
        self._report_idle()
        self.console.perform(
            Step(
                "Load decides: an overloaded node gets no more pods",
                f"A noisy pod requests 0.05 core and burns CPU, until the node uses more than {HOT_PERCENT} % of it. "
                f"The other node, {FAKE}, is simulated: this demo writes its report, which is idle. A pod that must "
                "run on the hot node waits.",
                300,
                (
                    Line("kubectl apply --filename noisy.yaml"),
                    Line(f"koordctl top nodes --above used={HOT_PERCENT}", shows=self.node, repeats=True),
                    Line("kubectl apply --filename only-here.yaml"),
                    Line("koordctl explain pod demo/only-here", shows=TOO_HOT, repeats=True),
                ),
            )
        )
        self._report_idle()
        self.console.perform(
            Step(
                "The same pod, by both schedulers",
                f"Both prefer {self.node} and may run on {FAKE}. The default scheduler puts its pod onto {self.node}, "
                f"the suite's scheduler onto {FAKE}, because {self.node} is hot.",
                120,
                (
                    Line("kubectl apply --filename stock.yaml --filename by-load.yaml"),
                    Line("koordctl explain pod demo/stock", shows=f" on {self.node}: ", repeats=True),
                    Line("koordctl explain pod demo/by-load", shows=f" on {FAKE}: ", repeats=True),
                ),
            )
        )
        self.cluster.run("delete", "namespace", "demo", "--wait=false")
        fake_nodes.set_count(self.cluster, 0)

    def _allow_load(self, *, cpu_percent: int | None) -> None:
        """Set the load threshold of the real node: 0 is none, None is the scheduler's default."""
        limits = json.dumps({"usageThresholds": {"cpu": cpu_percent, "memory": cpu_percent}})
        change = f"{THRESHOLDS_ANNOTATION}-" if cpu_percent is None else f"{THRESHOLDS_ANNOTATION}={limits}"
        self.cluster.run("annotate", "--overwrite", "node", self.node, change)

    def _write(self, file: str, template: str, **values: object) -> None:
        """Write a manifest into the folder, with its placeholders replaced."""
        text = (Path(__file__).parent / "manifests" / f"{template}.yaml").read_text(encoding="utf-8")
        known = {"workload": self.images["workload"], "node": self.node, **values}
        (self.folder / f"{file}.yaml").write_text(string.Template(text).substitute(known), encoding="utf-8")

    def _report_idle(self) -> None:
        """Write an idle report for the fake node, once the manager has created its NodeMetric."""

        def check_exists() -> None:
            if not self.cluster.run("get", "nodemetrics", FAKE, "--ignore-not-found", "--output=name").strip():
                raise NotYet("no NodeMetric")

        self.console.wait(f"the manager has created a NodeMetric for {FAKE}", check_exists)
        usage = {"resources": {"cpu": "500m", "memory": "2Gi"}}
        status = {"status": {"updateTime": _now(), "nodeMetric": {"nodeUsage": usage, "systemUsage": {}}}}
        self.cluster.run(
            *("patch", "nodemetrics", FAKE, "--subresource=status", "--type=merge", "--patch", json.dumps(status))
        )


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
