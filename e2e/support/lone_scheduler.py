"""The real kube-scheduler and the scheduler plugin over a control plane of their own; nodes are plain objects.

There is no kubelet and no controller: usage is what a case writes into NodeMetrics, nothing changes by itself, and an
evicted pod is gone at once. Both programs run with what the chart renders, also with its service account and roles.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from prometheus_client.parser import text_string_to_metric_families

from e2e.support import chart_rendering
from e2e.support.host_components import CRD_FILE
from e2e.support.installation import PATIENT_MILLISECONDS
from e2e.support.names import MID_CPU, MID_MEMORY, SUITE_NAMESPACE
from tools.localcluster import control_plane, go_binaries, standalone_control_plane
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODE_METRICS, NODES, Connection, RequestError
from tools.localcluster.host import ports
from tools.localcluster.standalone_control_plane import ControlPlane, Running

SCHEDULER: Final = "koord-scheduler"
ACCOUNT: Final = "koord-scheduler"
"""Name of the service account of both programs."""
PLUGIN: Final = "scheduler-plugin"
"""Name of the process."""
ELECTED: Final = (
    *("--leader-elect=true", "--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s"),
    "--leader-elect-retry-period=1s",
)
PODS: Final = "/api/v1/namespaces/default/pods"
CORES: Final = 100
_NOT_FOUND: Final = 404
_DEADLINE_SECONDS: Final = 120.0
_KNOWN_SECONDS: Final = 10.0


class Placed(NamedTuple):
    """What the control plane shows of a pod."""

    node: str
    seconds_since_epoch: float
    """Time at which it was bound; 0 before."""


class LoneScheduler:
    """Nodes, pods, kube-scheduler and the scheduler plugin of one case."""

    def __init__(self, plane: ControlPlane, values: Mapping[str, Any], *, replica: str = "") -> None:
        """Prepare them with `scheduler`'s values of the chart; a named replica may be elected."""
        self.plane = plane
        self._inside = values.get("mode", "plugin") == "plugin"
        self._replica = replica
        self.plugin, self.kube_scheduler = f"{PLUGIN}{replica}", f"kube-scheduler{replica}"
        """Names of the processes."""
        self.more_profiles: Mapping[str, Mapping[str, Any]] = {}
        """Arguments of LoadAwareScheduling by further profile."""
        self.socket = plane.places.state / f"plugin{replica}.sock"
        self.api: Connection = plane.connect()
        self.values = values
        """`scheduler`'s values of the chart; a program that starts reads them."""
        chart_rendering.apply(self.api, *self._render("scheduler/rbac", "scheduler/plugin-role"))
        self._kubeconfig = plane.account_kubeconfig(ACCOUNT, SUITE_NAMESPACE)
        self.extender_port, self.http_port = ports.free_ports(2)
        self._sidecar = f"--plugin-socket={self.socket}" if self._inside else f"--extender-port={self.extender_port}"

    # programs

    def start(self) -> None:
        """Start both programs with what the chart renders for the version of kube-scheduler."""
        self.start_plugin()
        self.start_kube_scheduler()

    def start_plugin(self, *flags: str) -> Running:
        """Start the scheduler plugin as a sidecar, or with other flags, and wait until it has read the cluster."""
        policies = self.plane.places.state / "scheduler-plugin.yaml"
        policies.write_text(self._configuration(self._rendered()["scheduler-plugin.yaml"]))
        self.plane.start_python(
            self.plugin,
            *("-m", "scheduler_plugin", "run", f"--config={policies}", f"--kubeconfig={self._kubeconfig}"),
            *("--http-address=127.0.0.1", f"--http-port={self.http_port}", "--debug-port=0"),
            *(flags or (self._sidecar,)),
            OPENBLAS_NUM_THREADS="1",
        )
        process = self.plane.process(self.plugin)
        self.plane.wait_for_page(process, self.http_port, "/startupz" if self._inside else "/readyz")
        return process

    def start_kube_scheduler(self, *, url: str = "", tls: Mapping[str, str] | None = None) -> None:
        """Start kube-scheduler; in mode extender it calls the sidecar's address, or another one."""
        document = yaml.safe_load(self._rendered()["kube-scheduler.yaml"])
        document["clientConnection"]["kubeconfig"] = str(self._kubeconfig)
        document["leaderElection"] = {"leaderElect": False}
        if self._inside:
            (plugin,) = document["profiles"][0]["pluginConfig"]
            plugin["args"] = {"socket": str(self.socket), "deadlineMilliseconds": PATIENT_MILLISECONDS}
            document["profiles"] += [document["profiles"][0] | {"schedulerName": name} for name in self.more_profiles]
        else:
            (extender,) = document["extenders"]
            extender["urlPrefix"] = url or f"http://127.0.0.1:{self.extender_port}"
            extender["httpTimeout"] = "30s"  # a busy machine does not influence placement
            if tls:
                extender |= {"enableHTTPS": True, "tlsConfig": dict(tls)}
        file = self.plane.places.state / f"{self.kube_scheduler}.yaml"
        file.write_text(yaml.safe_dump(document))
        program = control_plane.kube_scheduler(
            self.plane.places,
            self.plane.binaries,
            config=file,
            authorization_always_allow_paths="/healthz,/readyz,/livez,/metrics",
        )
        if self._inside:
            words = [str(go_binaries.scheduler_with_plugin()), *program.argv[1:]]
            program = dataclasses.replace(program, argv=words)
        if self._replica:
            elected = [word for word in program.argv if not word.startswith(("--leader-elect", "--secure-port"))]
            self.plane.start(self.kube_scheduler, *elected, "--secure-port=0", *ELECTED)
        else:
            control_plane.start_one(program, self.plane.places)
        if self._inside:
            self.plane.wait_for_page(self.plane.process(self.plugin), self.http_port, "/readyz")

    def service_flags(self, secrets: Path) -> list[str]:
        """Return the extender's flags as a Service over TLS; `secrets` has the files that the chart mounts."""
        values = {
            "enabled": True,
            "port": self.extender_port,
            "serverCertificateSecret": "extender-tls",
            "callersAuthoritySecret": "scheduler-ca",
        }
        templates = ("extender-service/deployment",)
        (deployment,) = chart_rendering.rendered(self.plane.binaries, {"extenderService": values}, *templates)
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        flags = [flag for flag in container["args"] if flag.startswith("--extender-")]
        return [flag.replace("/etc/koord-extender-tls", str(secrets)) for flag in flags]

    def _configuration(self, profile: str) -> str:
        """Return the configuration of the scheduler plugin: a profile, or with more profiles a whole one."""
        if not self.more_profiles:
            return profile
        profiles = [{"schedulerName": SCHEDULER, **yaml.safe_load(profile)}]
        for name, args in self.more_profiles.items():
            profiles.append({"schedulerName": name, "pluginConfig": [{"name": "LoadAwareScheduling", "args": args}]})
        kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        return yaml.safe_dump({**kind, "profiles": profiles})

    def _rendered(self) -> dict[str, str]:
        (config,) = self._render("scheduler/config")
        return dict(config["data"])

    def _render(self, *templates: str) -> list[dict[str, Any]]:
        return chart_rendering.rendered(self.plane.binaries, {"scheduler": self.values}, *templates)

    # nodes

    def add_node(self, name: str, *, used_percent: float | None = None, **labels: str) -> None:
        """Create a Ready node of 100 cores, and its report if there is a usage."""
        stamp = _now()
        resources = {"cpu": str(CORES), "memory": "400Gi", "pods": "1000"}
        node = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
            "status": {
                "capacity": resources,
                "allocatable": resources,
                "conditions": [
                    {"type": "Ready", "status": "True", "lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
                ],
            },
        }
        self.api.send("POST", NODES, node)
        if used_percent is not None:
            self.report(name, used_percent)

    def report(self, node: str, used_percent: float, *, age_seconds: float = 0, pods: Sequence[str] = ()) -> None:
        """Write the report of an agent: CPU in percent of the node, and little memory.

        `pods` are measured, at one core each; others on the node count by their estimates.
        """
        with contextlib.suppress(RequestError):
            metric = {
                "apiVersion": "slo.koordinator.sh/v1alpha1",
                "kind": "NodeMetric",
                "metadata": {"name": node},
                "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 1}},
            }
            self.api.send("POST", NODE_METRICS, metric)
        usage = {"cpu": f"{round(used_percent * CORES * 10)}m", "memory": "10Gi"}
        status = {
            "updateTime": _now(age_seconds),
            "nodeMetric": {"nodeUsage": {"resources": usage}, "systemUsage": {"resources": {}}},
            "podsMetric": [
                {"namespace": "default", "name": name, "podUsage": {"resources": {"cpu": "1", "memory": "1Gi"}}}
                for name in pods
            ],
        }
        self.api.send("PATCH", f"{NODE_METRICS}/{node}/status", {"status": status}, content=MERGE_PATCH)

    def state_mid(self, node: str, *, cores: int, memory: str = "64Gi", **others: str) -> None:
        """Let a node have Mid, and other resources, in its status."""
        amounts = {MID_CPU: str(1000 * cores), MID_MEMORY: memory, **others}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        self.api.send("PATCH", f"{NODES}/{node}/status", status, content=MERGE_PATCH)

    def offer_mid(self, node: str, *, cores: int) -> None:
        """Let the NodeMetric of a node offer Mid."""
        spec = {"metricCollectPolicy": {"reportIntervalSeconds": 1}, "midColocationPolicy": {"enable": True}}
        self.api.send("PATCH", f"{NODE_METRICS}/{node}", {"spec": spec}, content=MERGE_PATCH)
        status = {
            "allocated": {"prod": {"cpu": "0", "memory": "0"}, "mid": {}},
            "prodReclaimableMetric": {"resource": {"resources": {"cpu": str(cores), "memory": "64Gi"}}},
        }
        self.api.send("PATCH", f"{NODE_METRICS}/{node}/status", {"status": status}, content=MERGE_PATCH)

    def configure(self, document: Mapping[str, Any]) -> None:
        """Write the configuration that the manager last accepted."""
        last_good = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "koord-manager-last-good-config", "namespace": SUITE_NAMESPACE},
            "data": {"colocation-config": json.dumps(document)},
        }
        chart_rendering.apply(self.api, last_good)

    # pods

    def create_pod(
        self,
        name: str,
        *,
        cpu: str = "4",
        priority: int = 0,
        node: str = "",
        nodes: Sequence[str] = (),
        preferred: str = "",
        claim: str = "",
        scheduler: str = SCHEDULER,
    ) -> float:
        """Create a pod; return the time. `node` binds it at once, `nodes` restricts it, to `preferred` it is drawn."""
        spec: dict[str, Any] = {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}],
        }
        if priority:
            spec["priorityClassName"] = self._priority_class(priority)
        if node:
            spec["nodeName"] = node
        if nodes:
            terms = {"nodeSelectorTerms": [_named(*nodes)]}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        if preferred:
            preference = {"weight": 100, "preference": _named(preferred)}
            spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
        if claim:
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        self._create({"metadata": {"name": name}, "spec": spec})
        return time.time()

    def _create(self, pod: Mapping[str, Any]) -> None:
        """Create a pod, again while the API server does not know its new PriorityClass yet."""
        deadline = time.monotonic() + _KNOWN_SECONDS
        while True:
            try:
                self.api.send("POST", PODS, pod)
            except RequestError as refused:
                if "no PriorityClass with name" not in str(refused) or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def _priority_class(self, priority: int) -> str:
        name = f"priority-{priority}"
        with contextlib.suppress(RequestError):
            body = {"metadata": {"name": name}, "value": priority}
            self.api.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        return name

    def annotate(self, pod: str, key: str, value: str) -> None:
        """Set an annotation of a pod: a change that wakes other pods."""
        body = {"metadata": {"annotations": {key: value}}}
        self.api.send("PATCH", f"{PODS}/{pod}", body, content=MERGE_PATCH)

    def pods(self) -> dict[str, Placed]:
        """Return every pod, with its node."""
        found = self.api.send("GET", PODS)["items"]
        return {
            each["metadata"]["name"]: Placed(each["spec"].get("nodeName", ""), _scheduled_at(each)) for each in found
        }

    def nodes_of(self, prefix: str) -> list[str]:
        """Return the node of each pod with this prefix, "" before it is bound."""
        return [placed.node for name, placed in sorted(self.pods().items()) if name.startswith(prefix)]

    def wait_bound(self, *names: str, within_seconds: float = _DEADLINE_SECONDS) -> float:
        """Wait until pods are bound, and return the time at which the last one was seen so."""
        self.until(
            f"{', '.join(names[:3])} bound",
            lambda: all(each in self.pods() and self.pods()[each].node for each in names),
            within_seconds,
        )
        return time.time()

    # metrics

    def attempts(self, result: str = "") -> int:
        """Return the number of scheduling attempts so far; with a result: scheduled, unschedulable, error."""
        samples = _samples(self.plane.scheduler_metrics(), "scheduler_schedule_attempts_total")
        return int(sum(value for labels, value in samples if not result or labels["result"] == result))

    def plugin_metric(self, name: str, **labels: str) -> float:
        """Return a metric of the scheduler plugin, summed over the samples with these labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        samples = _samples(text, f"koord_scheduler_plugin_{name}")
        return sum(value for found, value in samples if labels.items() <= found.items())

    @staticmethod
    def until(what: str, condition: Callable[[], object], within_seconds: float = _DEADLINE_SECONDS) -> None:
        """Wait for a condition. Raises TimeoutError."""
        deadline = time.monotonic() + within_seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not so within {within_seconds:.0f} s: {what}")
            time.sleep(0.05)


@contextlib.contextmanager
def running(values: Mapping[str, Any] | None = None, *, audited: bool = False) -> Iterator[LoneScheduler]:
    """Start a control plane with the CRD; the case adds nodes and starts the programs. `values` are `scheduler`'s."""
    with standalone_control_plane.running(audited=audited) as plane:
        plane.install(CRD_FILE, SUITE_NAMESPACE)
        lone = LoneScheduler(plane, values or {})
        with contextlib.closing(lone.api):
            yield lone


def minimal_pod(name: str, resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod with one container, whose resources are as in its spec."""
    container = {"name": "c", "image": "none", "resources": resources}
    spec = {"schedulerName": SCHEDULER, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"name": name}, "spec": spec}


def mid_pod(name: str, *, cores: int, memory: str = "1Gi") -> dict[str, Any]:
    """Return a Mid pod."""
    mid = {MID_CPU: str(1000 * cores), MID_MEMORY: memory}
    return minimal_pod(name, {"requests": mid, "limits": mid})


def _named(*nodes: str) -> dict[str, Any]:
    """Return the term of a node selector for some nodes."""
    return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}]}


def _now(age_seconds: float = 0) -> str:
    return (dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age_seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _scheduled_at(pod: Mapping[str, Any]) -> float:
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "True":
            return dt.datetime.fromisoformat(condition["lastTransitionTime"]).timestamp()
    return 0.0


def _samples(text: str, name: str) -> list[tuple[dict[str, str], float]]:
    families = text_string_to_metric_families(text)
    return [(each.labels, each.value) for family in families for each in family.samples if each.name == name]
