"""Koordinator's own koord-scheduler and this project's plugin, asked about the same pods in the same state.

Only LoadAwareScheduling filters and scores. koord-scheduler logs the score of each node that passed, and binds the pod.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.support import koord_manager, lone_scheduler, upstream_crd
from e2e.support.fake_fleet import now
from e2e.support.lone_scheduler import PODS, SCHEDULER, LoneScheduler
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODE_METRICS, NODES
from tools.localcluster.content_cache import REPOSITORY
from tools.localcluster.host import ports

pytestmark = [pytest.mark.long, pytest.mark.timeout(900, func_only=True)]
LASTING: Mapping[str, Any] = {"nodeMetricExpirationSeconds": 86400}
BOUNDS = {"cpu": 65, "memory": 95}
WINDOWS: Mapping[str, Any] = {
    "usageAggregationType": "p95",
    "usageAggregatedDuration": "5m",
    "scoreAggregationType": "p90",
    "scoreAggregatedDuration": "10m",
}
PROFILES: Mapping[str, Mapping[str, Any]] = {
    "defaults": {},
    "thresholds": LASTING | {"usageThresholds": BOUNDS},
    "prod": LASTING
    | {"prodUsageThresholds": {"cpu": 55, "memory": 75}, "scoreAccordingProdUsage": True, "prodUsageIncludeSys": True},
    "windows": LASTING | {"aggregated": {"usageThresholds": BOUNDS, **WINDOWS}},
    "dominant": LASTING
    | {"dominantResourceWeight": 2, "resourceWeights": {"cpu": 2, "memory": 1}, "allowCustomizeEstimation": True},
    "shipped": {"filterExpiredNodeMetrics": False, "nodeMetricExpirationSeconds": 300, "usageThresholds": {"cpu": 0}},
}
"""Arguments of both; the last are those of Koordinator's chart."""
PAGE = (REPOSITORY / "docs" / "reference" / "koordinator-compatibility.md").read_text()
NODE_COUNT, POD_COUNT, ROUND = 20, 60, 20
SETTLED_SECONDS = 0.3


@contextlib.contextmanager
def _both(program: Path, profile: str) -> Iterator[LoneScheduler]:
    values = {"mode": "extender", "plugin": {"pluginArgs": {"LoadAwareScheduling": dict(PROFILES[profile])}}}
    with lone_scheduler.running(values) as lone:
        koord_manager.install_crds(lone.api, but="nodemetrics.slo.koordinator.sh")
        for item in upstream_crd.priority_classes():
            lone.api.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", item)
        lone.start_plugin()
        _start(program, lone, PROFILES[profile])
        yield lone


@pytest.mark.parametrize("profile", PROFILES)
def test_both_filter_and_score_alike(koord_scheduler: Path, profile: str) -> None:
    draw, compared = random.Random(profile), 0
    sizes = {f"n{number:02}": draw.choice((8, 16, 32, 96)) for number in range(NODE_COUNT)}
    on: dict[str, list[str]] = {}
    with _both(koord_scheduler, profile) as lone:
        for name, cores in sizes.items():
            _add_node(lone, draw, name, cores)
        for number in range(POD_COUNT):
            if number % ROUND == 0:
                for name, cores in [*sizes.items()][1:]:  # the first has no report
                    _report(lone, draw, name, cores, on.get(name, []))
                time.sleep(2)
            name, mine, node, theirs = _decided(lone, _pod(draw, f"p{number}"), [*sizes])
            assert not theirs or mine == theirs, (name, mine, theirs)
            assert node in mine or not (node or mine), (name, node, mine)
            compared += len(theirs)
            if node:
                on.setdefault(node, []).append(name)
    assert compared > POD_COUNT


def test_without_a_window_the_newest_usage_counts_here_and_none_there(koord_scheduler: Path) -> None:
    assert "| a window that the report lacks | the estimates of the pods count alone | the newest usage counts" in PAGE
    with _both(koord_scheduler, "windows") as lone:
        lone.add_node("hot", used_percent=90)
        time.sleep(2)
        _, mine, node, _ = _decided(lone, _pod(random.Random(1), "p"), ["hot"])
    assert (mine, node) == ({}, "hot")


def _decided(
    lone: LoneScheduler, pod: dict[str, Any], nodes: list[str]
) -> tuple[str, dict[str, int], str, dict[str, int]]:
    """Return the name of a new pod, the scores of this project, and the node and the scores of koord-scheduler."""
    made = lone.api.send("POST", PODS, pod)
    time.sleep(SETTLED_SECONDS)
    mine = _asked(lone, made, nodes)
    return made["metadata"]["name"], mine, *_scheduled(lone, made["metadata"]["name"])


def _add_node(lone: LoneScheduler, draw: random.Random, name: str, cores: int) -> None:
    lone.add_node(name)
    amounts = {"cpu": str(cores), "memory": f"{4 * cores}Gi", "kubernetes.io/mid-cpu": "100000"}
    amounts |= {"kubernetes.io/mid-memory": "400Gi", "kubernetes.io/batch-cpu": "100000"}
    amounts |= {"kubernetes.io/batch-memory": "400Gi"}
    status = {"status": {"capacity": amounts, "allocatable": amounts}}
    lone.api.send("PATCH", f"{NODES}/{name}/status", status, content=MERGE_PATCH)
    own = draw.choice(({"usageThresholds": {"cpu": 40}}, {"prodUsageThresholds": {"cpu": 30}}, None, None, None, None))
    annotations = {"scheduling.koordinator.sh/usage-thresholds": json.dumps(own)} if own else {}
    if draw.random() < 0.1:
        annotations["node.koordinator.sh/raw-allocatable"] = json.dumps({"cpu": cores // 2})
    lone.api.send("PATCH", f"{NODES}/{name}", {"metadata": {"annotations": annotations}}, content=MERGE_PATCH)


def _report(lone: LoneScheduler, draw: random.Random, node: str, cores: int, pods: list[str]) -> None:
    """Report a drawn usage, and that of most of the pods."""

    def share(most: float) -> dict[str, Any]:
        cpu, memory = (draw.uniform(0, most) * 1000 * cores, draw.uniform(0, most) * 4096 * cores)
        return {"resources": {"cpu": f"{int(cpu)}m", "memory": f"{int(memory)}Mi"}}

    lone.report(node, 0)
    windows = [
        {"duration": window, "usage": {each: share(0.9) for each in ("avg", "p50", "p90", "p95", "p99")}}
        for window in ("5m0s", "10m0s", "30m0s")
    ]
    measured = [name for name in pods if draw.random() < 0.7]
    status = {
        "updateTime": now(),
        "nodeMetric": {"nodeUsage": share(0.85), "systemUsage": share(0.05), "aggregatedNodeUsages": windows},
        "podsMetric": [
            {"namespace": "default", "name": name, "podUsage": share(0.05), "priority": "koord-prod", "qos": "LS"}
            for name in measured
        ],
    }
    lone.api.send("PATCH", f"{NODE_METRICS}/{node}/status", {"status": status}, content=MERGE_PATCH)


def _pod(draw: random.Random, name: str) -> dict[str, Any]:
    """Return a pod of any class, which waits for its gate to go."""
    band = draw.choice(("prod", "prod", "prod", "mid", "batch", "free", ""))
    kinds = {"mid": "kubernetes.io/mid-", "batch": "kubernetes.io/batch-"} if draw.random() < 0.5 else {}
    kind, unit = kinds.get(band, ""), "" if band in kinds else "m"
    containers = []
    for number in range(draw.choice((1, 1, 1, 2, 3))):
        requests = {f"{kind}cpu": f"{draw.randint(10, 3000)}{unit}", f"{kind}memory": f"{draw.randint(16, 6000)}Mi"}
        if not kind and draw.random() < 0.2:
            requests.pop(draw.choice(("cpu", "memory")))
        limits = dict(requests) if kind or draw.random() < 0.3 else {}
        resources = {"requests": requests, "limits": limits}
        containers.append({"name": f"c{number}", "image": "none", "resources": resources})
    spec = {"schedulerName": SCHEDULER, "schedulingGates": [{"name": "wait"}], "containers": containers}
    if band:
        spec["priorityClassName"] = f"koord-{band}"
    factors = json.dumps({"cpu": draw.randint(10, 100)})
    key = "scheduling.koordinator.sh/load-estimated-scaling-factors"
    return {"metadata": {"name": name, "annotations": {key: factors} if draw.random() < 0.1 else {}}, "spec": spec}


def _start(program: Path, lone: LoneScheduler, arguments: Mapping[str, Any]) -> None:
    only = {"enabled": [{"name": "LoadAwareScheduling"}]}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1"}
    profile = {
        "schedulerName": SCHEDULER,
        "plugins": {
            "preFilter": only,
            "filter": only | {"disabled": [{"name": "NodeResourcesFit"}]},
            "postFilter": {"disabled": [{"name": "*"}]},
            "reserve": only,
            "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "LoadAwareScheduling", "weight": 1}]},
        },
        "pluginConfig": [
            {"name": "LoadAwareScheduling", "args": kind | {"kind": "LoadAwareSchedulingArgs", **arguments}}
        ],
    }
    document = kind | {
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(lone.plane.kubeconfig)},
        "percentageOfNodesToScore": 100,
        "profiles": [profile],
    }
    file = lone.plane.places.state / "koord-scheduler.yaml"
    file.write_text(yaml.safe_dump(document))
    insecure, secure = ports.free_ports(2)
    kubeconfigs = [f"--{each}-kubeconfig={lone.plane.kubeconfig}" for each in ("authentication", "authorization")]
    flags = ("--bind-address=127.0.0.1", f"--port={insecure}", f"--secure-port={secure}", "--v=5", "--debug-scores=999")
    environment = {"KUBECONFIG": str(lone.plane.kubeconfig)}
    lone.plane.start("koord-scheduler", program, f"--config={file}", *kubeconfigs, *flags, **environment)


def _asked(lone: LoneScheduler, pod: Mapping[str, Any], nodes: list[str]) -> dict[str, int]:
    """Return the score of each node that passes the extender."""
    body = {**pod, "spec": {key: value for key, value in pod["spec"].items() if key != "schedulingGates"}}
    passed = _call(lone, "filter", {"Pod": body, "NodeNames": nodes})["NodeNames"] or []
    scores = _call(lone, "prioritize", {"Pod": body, "NodeNames": passed}) if passed else []
    return {score["Host"]: score["Score"] for score in scores}


def _call(lone: LoneScheduler, verb: str, body: Mapping[str, Any]) -> Any:
    url = f"http://127.0.0.1:{lone.extender_port}/{verb}"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def _scheduled(lone: LoneScheduler, name: str) -> tuple[str, dict[str, int]]:
    """Let koord-scheduler try the pod; return its node, and the score of each node that passed where there are two."""
    log = lone.plane.log("koord-scheduler")
    seen = log.stat().st_size
    lone.api.send("PATCH", f"{PODS}/{name}", {"spec": {"schedulingGates": None}}, content=MERGE_PATCH)

    def tried() -> dict[str, Any]:
        pod: dict[str, Any] = lone.api.send("GET", f"{PODS}/{name}")
        reasons = [each.get("reason") for each in pod["status"].get("conditions", ())]
        return pod if pod["spec"].get("nodeName") or "Unschedulable" in reasons else {}

    lone.until(f"{name} tried", tried, 60)
    node = str(tried()["spec"].get("nodeName", ""))
    if not node:
        lone.api.send("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    time.sleep(SETTLED_SECONDS)
    with log.open() as text:
        text.seek(seen)
        rows = re.findall(rf"^\| \d+ \| default/{name} \| (\S+) \| +(\d+) \|", text.read(), re.MULTILINE)
    return node, {place: int(score) for place, score in rows}
