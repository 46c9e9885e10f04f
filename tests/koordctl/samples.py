"""Commands of docs/how-to/koordctl.md on a fixed fleet, with what they print.

`python -m tests.koordctl.samples` writes the output into the page. Those of README.md are of a larger fleet
(`python -m e2e.console.pictures`).
"""

import contextlib
import datetime as dt
import io
import json
import pathlib
import re
import shlex
import tempfile
from unittest import mock

from component_base import clock
from koordctl import __main__ as koordctl
from tests.fakes import fake_kubectl
from tests.fleet import cluster
from tests.koordctl.serving import METRICS, SUITE, healthy, kubeconfig_of

ROOT = pathlib.Path(__file__).parents[2]
PAGE, README = ROOT / "docs" / "how-to" / "koordctl.md", ROOT / "README.md"
_BLOCK = re.compile(r"^```(?:text)?\n\$ (koordctl [^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOW = dt.datetime.fromisoformat(cluster.NOW)
_MID = "node(s) newest prediction leaves too little Mid"
_TERMS = {
    "allocatable": 15_500, "capacity": 16_000, "reclaimRatioPercent": 100, "peakProd": 5_550, "reclaimable": 9_200,
    "thresholdPercent": 60, "cap": 9_300, "unallocated": 750, "unallocatedPercent": 30, "unallocatedShare": 225,
    "unused": 10_800, "calculated": 9_423, "floor": 7_200,
}  # fmt: skip
_DOCUMENT = {"enable": True, "midCPUThresholdPercent": 60, "midUnallocatedPercent": 30}


def _usage(prod, mid, system, peak, requests, mid_requests):
    """Return the parts of a report about CPU, in milli-cores, with some memory."""
    return {
        "nodeMetric": {"nodeUsage": {"resources": {"cpu": f"{prod + mid + system}m", "memory": "22Gi"}}},
        "prodPeakMetric": {"resource": {"resources": {"cpu": f"{peak}m", "memory": "24Gi"}}},
        "allocated": {
            "prod": {"cpu": f"{requests}m", "memory": "36Gi"},
            "mid": {"kubernetes.io/mid-cpu": str(mid_requests), "kubernetes.io/mid-memory": "4Gi"},
        },
        "usage": {
            "prod": {"cpu": f"{prod}m", "memory": "18Gi"},
            "mid": {"cpu": f"{mid}m", "memory": "2Gi"},
            "batchAndFree": {"cpu": "0", "memory": "0"},
            "system": {"cpu": f"{system}m", "memory": "2Gi"},
        },
    }


def _busy():
    return cluster.metric("worker-2", **_usage(9_600, 900, 900, peak=9_900, requests=15_300, mid_requests=1_000))


def _old():
    found = _usage(1_300, 1_500, 500, peak=2_200, requests=12_400, mid_requests=6_400)
    return cluster.metric("worker-3", time="2026-11-21T09:39:00Z", **found)


def _waiting():
    requests = {"kubernetes.io/mid-cpu": "7k", "kubernetes.io/mid-memory": "8Gi"}
    pod = cluster.pod("etl-0", "shop", "", 7000, requests, uid="u-1", creationTimestamp="2026-11-21T09:54:00Z")
    message = f"0/3 nodes are available: 2 Insufficient kubernetes.io/mid-cpu, 1 {_MID}."
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod["spec"]["schedulerName"] = "koord-scheduler"
    pod["status"] = {"phase": "Pending", "conditions": [unscheduled]}
    return pod


def _limited():
    mid = {"kubernetes.io/mid-cpu": "2000", "kubernetes.io/mid-memory": "4Gi"}
    pod = cluster.pod("train-1", "shop", "worker-1", 7000, mid, uid="u-2")
    pod["spec"]["containers"][0] |= {"name": "c", "resources": {"requests": mid, "limits": {**mid, "cpu": "500m"}}}
    pod["status"] |= {"qosClass": "Burstable", "startTime": "2026-11-21T08:00:00Z"}
    fields = {"f:spec": {"f:containers": {'k:{"name":"c"}': {"f:resources": {"f:limits": {"f:cpu": {}}}}}}}
    pod["metadata"]["managedFields"] = [{"manager": "koordlet", "subresource": "resize", "fieldsV1": fields}]
    return pod


def _evicted():
    message = "evicted from worker-3: Mid pods request 1.2 cores more than is calculated"
    pod = {"kind": "Pod", "name": "train-0"}
    event = {"reason": "MidPodEvicted", "message": message, "lastTimestamp": "2026-11-21T09:48:00Z"}
    return event | {"involvedObject": pod, "metadata": {"namespace": "shop"}}


def _record():
    left = {"kubernetes.io/mid-cpu": 3_800, "kubernetes.io/mid-memory": 9 * 2**30}
    node = {
        "node": "worker-2", "result": "rejected", "reason": _MID, "plugin": "MidGuard", "score": None,
        "inputs": {"MidGuard": {"midLeft": left, "midClosed": False}}, "reportAgeSeconds": 20.0,
        "sentence": f"rejected by MidGuard: {_MID}",
    }  # fmt: skip
    decision = {
        "at": _NOW.timestamp() - 41, "uid": "u-1", "nodesAsked": 1, "nodesPassed": 0, "node": None, "estimate": {},
        "outcome": "no node passed, kube-scheduler will try again", "nodes": [node], "nodesLeftOut": 0,
    }  # fmt: skip
    return json.dumps({"pod": "shop/etl-0", "decisions": [decision]}).encode()


def routes():
    """Return the objects of the fleet: worker-3 has no agent, and one pod waits."""
    nodes = [
        cluster.node(f"worker-{number}", mid_cpu=mid_cpu, annotations=cluster.mid_status(**_TERMS))
        for number, mid_cpu in ((1, "9423"), (2, "9000"), (3, "9300"))
    ]
    metrics = [cluster.metric("worker-1", pods=[cluster.usage_of()]), _busy(), _old()]
    config = {"metadata": {"name": "slo-controller-config"}, "data": {"colocation-config": json.dumps(_DOCUMENT)}}
    rules = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/koord-suite-mid-limits"
    classes = [
        {"metadata": {"name": name}, "value": value} for name, value in (("koord-prod", 9000), ("koord-mid", 7000))
    ]
    return healthy(
        nodes=cluster.listing(*nodes),
        metrics=cluster.listing(*metrics),
        pods=cluster.listing(cluster.pod(), _waiting()),
        agent=cluster.installed("koordlet", replicas=3, ready=2),
        config=config,
        stored={"metadata": {"name": "koord-manager-last-good-config"}},
    ) | {
        "/api/v1/nodes/worker-1": nodes[0],
        "/api/v1/namespaces/shop": {
            "metadata": {"name": "shop", "annotations": {"koordinator.sh/mid-quota": '{"cpu": "8", "memory": "16Gi"}'}}
        },
        "/api/v1/namespaces/shop/pods": cluster.listing(cluster.pod(), _waiting(), _limited()),
        "/api/v1/namespaces/shop/events": cluster.listing(_evicted()),
        "/api/v1/events": cluster.listing(),
        "/apis/scheduling.k8s.io/v1/priorityclasses": cluster.listing(*classes),
        rules: {"webhooks": []},
        f"/apis/apps/v1/namespaces/{SUITE}/deployments?app.kubernetes.io/name=koord-admission": cluster.installed(
            "koord-admission"
        ),
        f"{METRICS}/worker-1": metrics[0],
        "/api/v1/namespaces/shop/pods/etl-0": _waiting(),
        f"/api/v1/namespaces/{SUITE}/configmaps/koord-scheduler": {
            "metadata": {"name": "koord-scheduler"},
            "data": {"scheduler-plugin.yaml": "plugins: {}"},
        },
        f"/apis/coordination.k8s.io/v1/namespaces/{SUITE}/leases/koord-scheduler": {
            "metadata": {"name": "koord-scheduler"},
            "spec": {"holderIdentity": "koord-scheduler-7c9f_1234"},
        },
    }


@contextlib.contextmanager
def fleet(folder, monkeypatch):
    """Serve the fleet at a fixed time, and yield a function that runs a command line of the page."""
    fake_kubectl.install(folder, monkeypatch, fake_kubectl.serving(_record()))
    monkeypatch.setattr(clock, "utc_now", lambda: _NOW)
    with kubeconfig_of(folder, **routes()) as file:

        def run(line):
            words = shlex.split(line)[1:]
            reads = words[:2] not in (["config", "check"], ["config", "render"], ["scheduler", "check"])
            return koordctl.main([*words, *(["--kubeconfig", str(file)] if reads else [])])

        yield run


def output_of(run, line, to=None):
    """Return what a command line prints to a pipe, or to the given stream."""
    out = to or io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        run(line)
    return re.sub(r"https?://127\.0\.0\.1:\d+", "https://api.example:6443", out.getvalue())


def samples(page=PAGE):
    """Yield each command line of a page with the output that the page shows."""
    for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield found[1], found[2]


def _write():
    import pytest

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch, mock.patch.object(
        koordctl.sys, "argv", ["koordctl"]
    ), fleet(pathlib.Path(folder), monkeypatch) as run:  # fmt: skip
        text = PAGE.read_text("utf-8")
        for line, old in samples():
            text = text.replace(f"$ {line}\n{old}```", f"$ {line}\n{output_of(run, line)}```")
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _write()
