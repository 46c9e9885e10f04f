"""Managers over a control plane of their own, with nodes, reports and pods that are plain objects.

There is no kubelet and no controller: reports are what a case writes, a pod that is deleted terminates until the case
removes it, and the status of a PodDisruptionBudget is written by hand. The managers have the service account, the roles
and the admission policies that the chart renders, and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from e2e.support import chart_rendering, waiting
from e2e.support.host_components import CRD_FILE
from e2e.support.names import CONFIG_MAP, MID_CPU, MID_MEMORY, STATUS_ANNOTATION, SUITE_NAMESPACE
from tools.localcluster import standalone_control_plane
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODE_METRICS, NODES, Connection, RequestError
from tools.localcluster.host import ports
from tools.localcluster.standalone_control_plane import ControlPlane

TEMPLATES: Final = ("manager/rbac", "manager/admission-policies", "manager/last-good-config", "priority-classes")
EVICTION_TEMPLATE: Final = "manager/eviction-rbac"
MANAGER: Final = "koord-manager"
MID: Final = (MID_CPU, MID_MEMORY)
ANNOTATION: Final = "koordinator.sh/mid-eviction"
CORES, GIB = 10, 2**30
_CONFIG: Final = f"/api/v1/namespaces/{SUITE_NAMESPACE}/configmaps"


def create_node(api: Connection, name: str) -> None:
    """Create a node of 10 cores and 20 GiB: Kubernetes 1.37 resizes no pod that its node does not have room for."""
    amounts = {"cpu": str(CORES), "memory": str(20 * GIB), "pods": "110"}
    api.send("POST", NODES, {"metadata": {"name": name}, "status": dict.fromkeys(("capacity", "allocatable"), amounts)})


class LoneManager:
    """Managers, nodes and pods of one control plane; `values` are those of the chart."""

    def __init__(self, plane: ControlPlane, values: Mapping[str, Any]) -> None:
        self.plane = plane
        self.api: Connection = plane.connect()
        self._ports: dict[str, int] = {}
        plane.install(CRD_FILE, SUITE_NAMESPACE)
        self.create(*chart_rendering.rendered(plane.binaries, values, *TEMPLATES))

    def create(self, *documents: Mapping[str, Any]) -> None:
        """Create rendered objects. A control plane alone runs no Job: those are left out."""
        chart_rendering.apply(self.api, *(document for document in documents if document["kind"] != "Job"))

    def delete(self, *documents: Mapping[str, Any]) -> None:
        """Delete rendered objects."""
        for document in documents:
            self.api.send("DELETE", chart_rendering.path(document))

    def right_to_evict(self, *namespaces: str) -> list[dict[str, Any]]:
        """Return what the chart renders for `manager.eviction.namespaces`."""
        values = {"manager": {"eviction": {"namespaces": list(namespaces)}}}
        return chart_rendering.rendered(self.plane.binaries, values, EVICTION_TEMPLATE)

    # managers

    def start(self, name: str = "manager", **settings: object) -> None:
        """Start a manager and wait until it is healthy."""
        port = self._ports[name] = ports.free_port()
        chosen = {
            "http_address": "127.0.0.1", "http_port": port, "namespace": SUITE_NAMESPACE, "lease_duration_seconds": 4,
            "renew_deadline_seconds": 3, "retry_period_seconds": 0.5, "kubeconfig": self.kubeconfig(), **settings,
        }  # fmt: skip
        flags = [f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}") for key, value in chosen.items()]
        self.plane.start_python(name, "-m", "manager", "run", *flags)
        self.plane.wait_for_page(self.plane.process(name), port, "/healthz")

    def kill(self, name: str) -> None:
        """Kill a manager: it releases no Lease."""
        self.plane.process(name).process.kill()

    def kubeconfig(self, account: str = MANAGER, namespace: str = SUITE_NAMESPACE) -> str:
        """Write a kubeconfig with a token of a service account; return the file."""
        return str(self.plane.account_kubeconfig(account, namespace))

    def send_as_manager(self, path: str, body: Mapping[str, Any]) -> int:
        """Post with the token of the manager; return the status of the answer."""
        trust = ssl.create_default_context(cafile=str(self.plane.places.certificates / "ca.crt"))
        headers = {
            "Authorization": f"Bearer {self.plane.token(MANAGER, SUITE_NAMESPACE)}",
            "Content-Type": "application/json",
        }
        url = f"https://127.0.0.1:{self.plane.places.addresses.apiserver_port}{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, context=trust, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def start_extender(self) -> Callable[[Sequence[str]], set[str]]:
        """Start the scheduler plugin; return what of some nodes it passes for a Mid pod of one core."""
        verbs, pages = ports.free_ports(2)
        self.plane.start_python(
            "extender",
            *("-m", "scheduler_plugin", "run", f"--kubeconfig={self.plane.kubeconfig}", "--debug-port=0"),
            *("--http-address=127.0.0.1", f"--http-port={pages}", f"--extender-port={verbs}"),
            f"--manager-namespace={SUITE_NAMESPACE}",
            OPENBLAS_NUM_THREADS="1",
        )
        self.plane.wait_for_page(self.plane.process("extender"), pages, "/readyz")
        requests = {MID[0]: "1000", MID[1]: str(GIB)}
        pod = {
            "metadata": {"name": "asked", "namespace": "default", "uid": "asked"},
            "spec": {"priority": 7000, "containers": [{"name": "c", "resources": {"requests": requests}}]},
        }

        def passing(nodes: Sequence[str]) -> set[str]:
            body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}).encode()
            with urllib.request.urlopen(f"http://127.0.0.1:{verbs}/filter", body, timeout=10) as answer:
                return set(json.loads(answer.read()).get("NodeNames") or ())

        return passing

    def metric(self, name: str, manager: str = "manager", **labels: str) -> float:
        """Return a metric of a manager, summed over its samples with these labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[manager]}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        of_name = [line for line in lines if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(line.split()[-1]) for line in of_name if all(each in line for each in wanted))

    def configure(self, **keys: object) -> None:
        """Set the configuration; reports of a second are fresh for 32 s."""
        document = {"enable": True, "metricReportIntervalSeconds": 1, "updateTimeThresholdSeconds": 1, **keys}
        data = {"data": {"colocation-config": json.dumps(document)}}
        try:
            self.api.send("PATCH", f"{_CONFIG}/{CONFIG_MAP}", data, content=MERGE_PATCH)
        except RequestError:
            self.api.send("POST", _CONFIG, {"metadata": {"name": CONFIG_MAP}, **data})

    # nodes

    def add_node(self, name: str, within_seconds: float = 60.0) -> None:
        """Create a node, and wait for its NodeMetric, which is made by the manager."""
        create_node(self.api, name)
        self.until(f"NodeMetric of {name}", lambda: self._has_metric(name), within_seconds)

    def _has_metric(self, name: str) -> bool:
        with contextlib.suppress(RequestError):
            return bool(self.api.send("GET", f"{NODE_METRICS}/{name}"))
        return False

    def report(self, node: str, *, calculated_cores: int, age_seconds: float = 0.0) -> None:
        """Write a report: Prod requests 8 cores, of which its peak leaves some; Mid requests what its pods do."""
        nothing = {"cpu": "0", "memory": "0"}
        mid = {resource: str(sum(self._requests(node, resource))) for resource in MID}
        status = {
            "updateTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - age_seconds)),
            "allocated": {"prod": {"cpu": "8", "memory": str(16 * GIB)}, "mid": mid},
            "usage": dict.fromkeys(("prod", "mid", "batchAndFree", "system"), nothing),
            "prodPeakMetric": {"resource": {"resources": {"cpu": str(8 - calculated_cores), "memory": "0"}}},
        }  # fmt: skip
        self.api.send("PATCH", f"{NODE_METRICS}/{node}/status", {"status": status}, content=MERGE_PATCH)

    def report_until(
        self,
        what: str,
        condition: Callable[[], object],
        calculated_cores: Mapping[str, int],
        within_seconds: float = 60.0,
    ) -> None:
        """Let nodes report each second until a condition holds."""

        def step() -> object:
            for node, cores in calculated_cores.items():
                self.report(node, calculated_cores=cores)
            return condition()

        waiting.until(what, step, within_seconds=within_seconds, every_seconds=1.0)

    def report_for(self, seconds: float, calculated_cores: Mapping[str, int]) -> None:
        """Let nodes report each second for a time."""
        end = time.monotonic() + seconds
        self.report_until("the time is over", lambda: time.monotonic() >= end, calculated_cores, seconds + 30)

    def _requests(self, node: str, resource: str) -> Iterator[int]:
        for pod in self.api.send("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={node}")["items"]:
            yield int(pod["spec"]["containers"][0]["resources"]["requests"].get(resource, "0").replace("k", "000"))

    def node(self, name: str) -> dict[str, Any]:
        """Return a node."""
        return dict(self.api.send("GET", f"{NODES}/{name}"))

    def annotation(self, node: str) -> dict[str, Any] | None:
        """Return the eviction annotation of a node."""
        text = (self.node(node)["metadata"].get("annotations") or {}).get(ANNOTATION)
        return json.loads(text) if text else None

    def status(self, node: str) -> dict[str, Any]:
        """Return the status annotation of a node."""
        return dict(json.loads(self.node(node)["metadata"]["annotations"][STATUS_ANNOTATION]))

    def mid_cores(self, node: str) -> float:
        """Return the published mid-cpu, in cores."""
        text = self.node(node)["status"]["allocatable"].get(MID[0], "0")
        return int(text.replace("k", "000")) / 1000

    # pods

    def add_namespace(self, name: str) -> None:
        """Create a namespace."""
        self.api.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def add_pod(
        self,
        name: str,
        *,
        node: str,
        namespace: str,
        priority: str = "",
        requests: Mapping[str, str] | None = None,
        **annotations: str,
    ) -> None:
        """Create a running pod, by default a Mid pod of one core and 1 GiB; `eviction_priority` is an annotation."""
        amounts = requests or {MID[0]: "1000", MID[1]: str(GIB)}
        pod = {
            "metadata": {
                "name": name,
                "labels": {"app": name},
                "annotations": {f"koordinator.sh/{key.replace('_', '-')}": value for key, value in annotations.items()},
            },
            "spec": {
                "nodeName": node,
                "priorityClassName": priority or "koord-mid",
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "c", "image": "none", "resources": {"requests": amounts, "limits": amounts}}],
            },
        }
        path = f"/api/v1/namespaces/{namespace}/pods"
        self.api.send("POST", path, pod)
        bound = "2026-01-01T00:00:00Z"
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": bound} for kind in ("PodScheduled", "Ready")
        ]
        status = {"phase": "Running", "startTime": bound, "conditions": conditions}
        self.api.send("PATCH", f"{path}/{name}/status", {"status": status}, content=MERGE_PATCH)

    def leaving(self, node: str) -> list[str]:
        """Return the pods of a node that terminate, in the order in which that began."""
        found = self.api.send("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={node}")["items"]
        gone = [pod["metadata"] for pod in found if "deletionTimestamp" in pod["metadata"]]
        return [each["name"] for each in sorted(gone, key=lambda each: each["deletionTimestamp"])]

    def add_budget(self, name: str, *, namespace: str, allowed: int) -> None:
        """Create a PodDisruptionBudget for the pod of this name; `allowed` is written as the controller would."""
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        spec = {"selector": {"matchLabels": {"app": name}}, "maxUnavailable": 0}
        with contextlib.suppress(RequestError):
            self.api.send("POST", path, {"metadata": {"name": name}, "spec": spec})
        status = {
            "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1 - allowed,
            "expectedPods": 1,
        }  # fmt: skip
        self.api.send("PATCH", f"{path}/{name}/status", {"status": status}, content=MERGE_PATCH)

    def events(self, reason: str, about: str) -> list[str]:
        """Return the messages of the Events about an object, in all namespaces."""
        found = self.api.send("GET", f"/api/v1/events?fieldSelector=reason={reason},involvedObject.name={about}")
        return [str(each["message"]) for each in found["items"]]

    @staticmethod
    def until(what: str, condition: Callable[[], object], within_seconds: float = 60.0) -> None:
        """Wait for a condition."""
        waiting.until(what, condition, within_seconds=within_seconds)


@contextlib.contextmanager
def running(values: Mapping[str, Any] | None = None) -> Iterator[LoneManager]:
    """Start the control plane with what the managers need, by values of the chart; end everything afterwards."""
    with standalone_control_plane.running() as plane:
        made = LoneManager(plane, values or {})
        try:
            yield made
        finally:
            made.api.close()
