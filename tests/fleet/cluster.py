"""Objects of a small cluster, as JSON of the apiserver, for tests of koordctl."""

import copy
import json

NOW = "2026-11-21T10:00:30Z"
POLICY = {"enable": True, "degradeTimeMinutes": 15}


def node(name="worker-1", cpu="16", memory="64Gi", mid_cpu="9423", annotations=None, labels=None):
    amounts = {"cpu": cpu, "memory": memory}
    if mid_cpu is not None:
        amounts |= {"kubernetes.io/mid-cpu": mid_cpu, "kubernetes.io/mid-memory": "10Gi"}
    return {
        "metadata": {
            "name": name,
            "resourceVersion": "5",
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def mid_status(reason="Calculated", status="True", **terms):
    line = {"published": 9423, "allocatedProd": 14750, "allocatedMid": 7200, "source": "peak", **terms}
    wire = {
        "time": "2026-11-21T10:00:00Z",
        "reason": reason,
        "status": status,
        "text": "calculated from the predicted peak of the Prod pods",
        "sample": "2026-11-21T10:00:20Z",
        "requestsFrom": "report",
        "resources": {"kubernetes.io/mid-cpu": line},
    }
    return {"koordinator.sh/mid-resource-status": json.dumps(wire)}


def metric(name="worker-1", time="2026-11-21T10:00:20Z", policy=None, pods=(), **status):
    full = {
        "updateTime": time,
        "nodeMetric": {"nodeUsage": {"resources": {"cpu": "7680m", "memory": "26Gi"}}},
        "podsMetric": list(pods),
        "prodPeakMetric": {"resource": {"resources": {"cpu": "5550m", "memory": "30Gi"}}},
        "allocated": {
            "prod": {"cpu": "14750m", "memory": "40Gi"},
            "mid": {"kubernetes.io/mid-cpu": "7200", "kubernetes.io/mid-memory": "8Gi"},
        },
        "usage": {
            "prod": {"cpu": "4", "memory": "20Gi"},
            "mid": {"cpu": "3", "memory": "4Gi"},
            "batchAndFree": {"cpu": "0", "memory": "0"},
            "system": {"cpu": "680m", "memory": "2Gi"},
        },
        "prediction": {"predictor": "n-sigma-v2", "warmPods": 29, "coldPods": 2, "since": "2026-11-20T00:00:00Z"},
        **status,
    }
    return {
        "metadata": {"name": name, "resourceVersion": "9", "creationTimestamp": "2026-11-01T00:00:00Z"},
        "spec": {"midColocationPolicy": POLICY if policy is None else policy},
        "status": {key: value for key, value in full.items() if value is not None},
    }


def pod(name="web-0", namespace="shop", node="worker-1", priority=9000, requests=None, **metadata):
    wanted = requests if requests is not None else {"cpu": "4", "memory": "8Gi"}
    return {
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"nodeName": node, "priority": priority, "containers": [{"resources": {"requests": wanted}}]},
        "status": {"phase": "Running", "startTime": "2026-11-20T00:00:00Z"},
    }


def usage_of(name="web-0", namespace="shop", cpu="600m", memory="2Gi"):
    return {"name": name, "namespace": namespace, "podUsage": {"resources": {"cpu": cpu, "memory": memory}}}


def workload(name, version="0.1.0", replicas=2, ready=2):
    status = {"replicas": replicas, "readyReplicas": ready, "numberReady": ready, "desiredNumberScheduled": replicas}
    return {"metadata": {"name": name, "labels": {"app.kubernetes.io/version": version}}, "status": status}


def installed(name, *counts, **more):
    """Return the list of the workloads with the label of a part."""
    return listing(workload(name, *counts, **more))


def listing(*items, more=""):
    return {"metadata": {"resourceVersion": "7", "continue": more}, "items": copy.deepcopy(list(items))}


def forbidden(what):
    return {"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": f"no {what} for you", "code": 403}
