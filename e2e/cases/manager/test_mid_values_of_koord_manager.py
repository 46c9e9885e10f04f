"""The same nodes, reports and pods for Koordinator's own koord-manager and for this one: where Mid differs, and why."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import time
from collections.abc import Callable, Mapping

import pytest

from e2e.support import koord_manager, upstream_crd, waiting
from e2e.support.cluster_client import units
from e2e.support.fake_fleet import now
from e2e.support.mid_inputs import INPUTS, STRATEGY, Amounts, MidInput, MidPod
from e2e.support.names import CONFIG_MAP, MID_CPU, MID_MEMORY, SUITE_NAMESPACE
from tools.localcluster import standalone_control_plane
from tools.localcluster.apiserver_requests import NODE_METRICS, NODES, Connection, exists
from tools.localcluster.content_cache import REPOSITORY
from tools.localcluster.standalone_control_plane import ControlPlane

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1200, func_only=True),
    pytest.mark.usefixtures("koord_manager_program"),
]
BASE = "/api/v1/namespaces"
QUIET_SECONDS = 15
PAGE = (REPOSITORY / "docs" / "reference" / "koordinator-compatibility.md").read_text()

CAP, UNUSED, SHARE, RATIOS = "cap", "really unused resources", "unallocated", "ratios of labels"
DIFFERENT: Mapping[str, tuple[int | None, int | None, str]] = {
    "cap-10": (3200, 3000, CAP),
    "cap-20": (6400, 6000, CAP),
    "cap-in-another-case": (3200, 3000, CAP),
    "annotation-with-batch-keys": (6400, 6000, CAP),
    "share-100-cap-60": (19200, 20000, CAP),
    "share-50-cap-10": (3200, 9000, CAP),
    "busy-share-100": (30000, 4000, UNUSED),
    "usage-above-capacity": (6000, 0, UNUSED),
    "no-node-usage-share-50": (6000, 0, UNUSED),
    "no-pods": (32000, 28000, UNUSED),
    "prod-succeeded": (32000, 28000, UNUSED),
    "no-priority-besteffort": (32000, 28000, UNUSED),
    "overhead": (32000, 28000, UNUSED),
    "init-container": (26000, 26000, UNUSED),  # the memory differs
    "pod-level-resources": (28000, 28000, UNUSED),  # the memory differs
    "allocatable-is-capacity": (21200, 22000, SHARE),
    "system-above-the-reservation": (16000, 20000, SHARE),
    "host-application": (19200, 20000, SHARE),
    "raw-allocatable": (20000, 10000, SHARE),
    "amplified": (21200, 20000, SHARE),
    "prod-unknown-phase": (32000, 20000, SHARE),
    "batch-native-request": (32000, 20000, SHARE),
    "mid-native-request": (32000, 20000, SHARE),
    "free-native-request": (32000, 20000, SHARE),
    "qos-be-without-priority": (32000, 20000, SHARE),
    "mid-pods-above-what-is-calculated": (1000, 4000, "running Mid pods"),
    "static-label-0.29": (8960, 9280, RATIOS),
    "static-label-0.57": (17920, 18240, RATIOS),
    "annotation-with-an-unknown-key": (6400, 8000, "unknown key"),
    "clock-ahead": (8000, None, "a report of the future"),
}
"""Input -> CPU of koord-manager, CPU of this manager, and the row of the page on compatibility that states why."""


def _resources(amounts: Amounts) -> dict[str, str]:
    return {"cpu": f"{amounts[0]}m", "memory": f"{amounts[1]}Mi"}


def _create_node(api: Connection, name: str, given: MidInput) -> None:
    annotations = dict(given.annotations)
    if given.strategy is not None:
        annotations[STRATEGY] = json.dumps(given.strategy)
    whole, left = ({**_resources(amounts), "pods": "110"} for amounts in (given.capacity, given.allocatable))
    metadata = {"name": name, "labels": dict(given.labels), "annotations": annotations}
    ready = [{"type": "Ready", "status": "True", "lastHeartbeatTime": now(), "lastTransitionTime": now()}]
    status = {"capacity": whole, "allocatable": left, "conditions": ready}
    api.send("POST", NODES, {"metadata": metadata, "status": status})
    metric = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": name}}
    api.send("POST", NODE_METRICS, {**metric, "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}}})


def _create_pod(api: Connection, node: str, index: int, pod: MidPod) -> None:
    native = {"cpu": f"{pod.cpu}m", "memory": f"{pod.memory}Mi"} if pod.cpu else {}
    mid = {MID_CPU: str(pod.mid[0]), MID_MEMORY: str(pod.mid[1] * 2**20)} if pod.mid else {}
    container = {"name": "c", "image": "x", "resources": {"requests": native | mid, "limits": mid}}
    spec = {"nodeName": node, "containers": [container], **pod.spec}
    if pod.priority_class:
        spec["priorityClassName"] = pod.priority_class
    labels = {"koordinator.sh/qosClass": pod.qos} if pod.qos else {}
    path, name = f"{BASE}/default/pods", f"{node}-{index}"
    made = api.send("POST", path, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    made["status"] |= {"phase": pod.phase} | ({"startTime": now()} if pod.phase == "Running" else {})
    api.send("PUT", f"{path}/{name}/status", made)


def _report(api: Connection, name: str, given: MidInput) -> None:
    if not given.has_status:
        return
    metric = api.send("GET", f"{NODE_METRICS}/{name}")
    taken = now(ahead=dt.timedelta(seconds=-given.age_seconds))
    usage = {"nodeUsage": {"resources": _resources(given.usage)} if given.usage else {}}
    system = {"systemUsage": {"resources": _resources(given.system)}}
    metric["status"] = {"updateTime": taken, "nodeMetric": usage | system}
    if given.reclaimable is not None:
        metric["status"]["prodReclaimableMetric"] = {"resource": {"resources": _resources(given.reclaimable)}}
    if given.host_application is not None:
        application = {"name": "nginx", "priority": "koord-prod", "qos": "LS"}
        usage = {"resources": _resources(given.host_application)}
        metric["status"]["hostApplicationMetric"] = [application | {"usage": usage}]
    api.send("PUT", f"{NODE_METRICS}/{name}/status", metric)


def _published(api: Connection) -> dict[str, tuple[int | None, int | None]]:
    """Return CPU and memory of Mid by node, None where a node has none."""
    found = {}
    for node in api.send("GET", NODES)["items"]:
        of_node = node["status"]["allocatable"]
        cpu, memory = of_node.get(MID_CPU), of_node.get(MID_MEMORY)
        found[node["metadata"]["name"]] = (cpu and units(cpu), memory and units(memory))
    return found


def _mid_by(start: Callable[[ControlPlane], None]) -> dict[str, tuple[int | None, int | None]]:
    """Return what a manager publishes for each input, once it changes nothing any more."""
    with standalone_control_plane.running() as plane, contextlib.closing(plane.connect()) as api:
        koord_manager.install_crds(api)
        for item in upstream_crd.priority_classes():
            api.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", item)
        overhead = {
            "metadata": {"name": "overhead"},
            "handler": "oh",
            "overhead": {"podFixed": {"cpu": "1", "memory": "1Gi"}},
        }
        api.send("POST", "/apis/node.k8s.io/v1/runtimeclasses", overhead)
        api.send("POST", BASE, {"metadata": {"name": SUITE_NAMESPACE}})
        data = {"colocation-config": json.dumps({"enable": True})}
        api.send("POST", f"{BASE}/{SUITE_NAMESPACE}/configmaps", {"metadata": {"name": CONFIG_MAP}, "data": data})
        waiting.until("NodeMetrics are served", lambda: exists(api, NODE_METRICS), within_seconds=60)
        for name, given in INPUTS.items():
            _create_node(api, name, given)
            for index, pod in enumerate(given.pods):
                _create_pod(api, name, index, pod)
        time.sleep(max(given.age_seconds for given in INPUTS.values()) + 10)  # a sample is older than no object
        for name, given in INPUTS.items():
            _report(api, name, given)
        start(plane)
        seen, since = _published(api), time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS or all(cpu is None for cpu, _ in seen.values()):
            time.sleep(1)
            if (newer := _published(api)) != seen:
                seen, since = newer, time.monotonic()
        return seen


def _row(subject: str) -> bool:
    return any(line.startswith(f"| {subject} |") for line in PAGE.splitlines())


def test_mid_is_that_of_koord_manager_but_for_what_the_page_states() -> None:
    theirs, suite = _mid_by(koord_manager.start), _mid_by(koord_manager.start_this)
    different = {name: (theirs[name], suite[name]) for name in INPUTS if theirs[name] != suite[name]}
    shown = json.dumps({name: [*map(list, both)] for name, both in different.items()}, indent=1)
    assert {name: (of_theirs[0], of_suite[0]) for name, (of_theirs, of_suite) in different.items()} == {
        name: (of_theirs, of_suite) for name, (of_theirs, of_suite, _) in DIFFERENT.items()
    }, shown
    assert {row for *_, row in DIFFERENT.values() if not _row(row)} == set()
