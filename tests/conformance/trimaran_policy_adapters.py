"""Map the cases of the Trimaran plugins to the plugins that the extender runs, with `upstream` or `kep`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from api_types.kubernetes import pods
from scheduler_plugin import assembly
from scheduler_plugin.config.loader import PluginConfiguration
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import remote_watcher
from scheduler_plugin.load_watcher.providers.provider import ProviderFailed
from scheduler_plugin.load_watcher.records import Metric, Snapshot, Windows
from scheduler_plugin.plugins.load_aware.args import LoadAwareArgs
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from scheduler_plugin.plugins.trimaran import (
    load_variation_risk_balancing,
    low_risk_over_commitment,
    measurements,
    node_columns,
    target_load_packing,
)
from scheduler_plugin.plugins.trimaran.args import DEFAULT_WEIGHT
from scheduler_plugin.plugins.trimaran.low_risk_over_commitment import declared
from scheduler_plugin.simulation.kube_scheduler_model import KubeSchedulerModel
from scheduler_plugin.state import pod_info
from scheduler_plugin.state.pod_info import ContainerCpu, PodAmounts
from tests.conformance import trimaran_config_adapters

NOW = 1_556_985_422.0
_UNITS = dict(zip(node_columns.RESOURCES, ("milliCPU", "memory"), strict=True))
_SOURCE = frozenset({"watcherAddress", "WatcherAddress", "metricProvider"})
"""Arguments about the source of measurements, which a case states itself."""


class _Cluster:
    """One plugin of the product with the nodes, pods and watcher document of a case. Raises Refused."""

    def __init__(self, name: str, args: Mapping[str, Any] | None) -> None:
        kept = {key: value for key, value in (args or {}).items() if key not in _SOURCE}
        own = trimaran_config_adapters.completed(name, {**kept, "formula": "upstream"})
        everything = {LoadAware.name: LoadAwareArgs().with_defaults(), name: own}
        self.parts = assembly.Parts(PluginConfiguration(everything, (), {name: 1}))
        (self.policy,) = self.parts.measured

    def add(self, node: Any, watcher: Any, placed: Sequence[Any] = ()) -> None:
        self.parts.cluster.node_changed(msgspec.convert(node, type=pods.Node))
        for index, pod in enumerate(placed):
            self.place(pod, node["metadata"]["name"], f"placed-{index}", NOW - 3600)
        self._measure(watcher)

    def place(self, pod: Any, node_name: str, uid: str, at: float) -> None:
        self.parts.cluster.pod_changed(_pod(pod, uid, node_name), at)

    def _measure(self, watcher: Any) -> None:
        """Use a document as the extender does, whatever its age: Trimaran has no bound."""
        snapshot = records.decode(json.dumps(watcher or {}).encode())
        window = records.window_ending_at("15m", snapshot.window.end or NOW)
        windows = Windows(math.inf)
        windows.store(Snapshot(snapshot.timestamp, window, "", snapshot.data))
        self.parts.measurements.select(windows, window.end)
        for entry in self.parts.cluster.entries.values():
            self.parts.vectors.write(entry)
        self.parts.measurements.confirm_rows()

    def raw(self, pod: Any, names: Sequence[str]) -> Any:
        facts = pod_info.read(_pod(pod, "incoming", ""), _policy(self.parts))
        return self.policy.score(facts, self.parts.vectors.find(list(names)), self.parts.vectors, NOW)

    def scores(self, pod: Any, names: Sequence[str]) -> Any:
        return self.policy.normalize(self.raw(pod, names))


def _policy(parts: assembly.Parts) -> Any:
    return parts.estimator_args


def _pod(wire: Any, uid: str, node_name: str) -> pods.Pod:
    pod = msgspec.convert(wire, type=pods.Pod)
    metadata = msgspec.structs.replace(
        pod.metadata, uid=uid, namespace="default", name=uid
    )  # several nodes of a case have the same name
    return msgspec.structs.replace(pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, node_name=node_name))


def _score_of(policy: str) -> Any:
    def adapter(inputs: Any) -> Any:
        try:
            cluster = _Cluster(policy, inputs.get("args"))
        except trimaran_config_adapters.Refused as error:
            return {"error": str(error)}
        watcher, name = inputs.get("watcher") or {}, inputs["node"]["metadata"]["name"]
        cluster.add(inputs["node"], watcher, inputs.get("podsOnNode") or ())
        end = _window_end(watcher)
        recent = [pod for key, own in inputs.items() if key.endswith("Pods") for pod in own or ()]
        for index, cached in enumerate(recent):
            cluster.place(cached.get("pod", cached), name, f"recent-{index}", _placed_at(cached, end))
        return {"score": float(cluster.raw(inputs["pod"], [name])[0])}

    return adapter


def _window_end(watcher: Any) -> float | None:
    return ((watcher or {}).get("window") or {}).get("end")


def _placed_at(cached: Any, end: float | None) -> float:
    """Return when a recent pod was placed. Without an end of the window, which is then 0, it is after the window."""
    moment = next((cached[key] for key in ("timestamp", "boundAt") if cached.get(key) is not None), None)
    if moment is None or not end:
        return float(end or NOW) - float(cached.get("ageSeconds") or 0.0)
    return float(moment)


def _place_sequentially(inputs: Any) -> Any:
    """Place each pod on the best of the nodes that kube-scheduler's own filter passes."""
    cluster = _Cluster(inputs["plugin"], inputs.get("args"))
    names = [node["metadata"]["name"] for node in inputs["nodes"]]
    for node in inputs["nodes"]:
        cluster.add(node, inputs["watcher"])
    resource_fit = KubeSchedulerModel([msgspec.convert(node, type=pods.Node) for node in inputs["nodes"]])
    placements: list[str | None] = []
    for index, pod in enumerate(inputs["pods"]):
        requests = pods.requests(msgspec.convert(pod, type=pods.Pod).spec)
        misfits = list(resource_fit.misfits(requests).values())
        fitting = [names[place] for place in np.flatnonzero(~np.any(misfits or [np.zeros(len(names), bool)], axis=0))]
        best = fitting[int(np.argmax(cluster.scores(pod, fitting)))] if fitting else None
        placements.append(best)
        if best is not None:
            resource_fit.add(names.index(best), requests)
            cluster.place(pod, best, f"arrived-{index}", _placed_at({}, _window_end(inputs["watcher"])))
    return {"placements": placements}


def _utilization(inputs: Any) -> measurements.Utilization:
    metrics = [Metric(**{**metric, "value": float(metric["value"])}) for metric in inputs["metrics"] or ()]
    return measurements.utilization(metrics, inputs["metricType"])


def _resource_data(inputs: Any) -> Any:
    of = _utilization(inputs)
    return {"avg": of.mean, "std": of.deviation, "isValid": of.is_valid}


def _resource_stats(inputs: Any) -> Any:
    of = _utilization(inputs)
    if not of.is_valid:
        return {"isValid": False, "stats": None}
    is_cpu = inputs["resourceName"] == "cpu"
    unit = 1.0 if is_cpu else 1024.0 * 1024.0
    capacity = pods.units(inputs["node"]["status"]["allocatable"]).get("cpu" if is_cpu else "memory", 0)
    percents = np.array([of.mean, of.deviation])
    used, deviation = load_variation_risk_balancing.used(percents, np.array([float(capacity)])) / unit
    request = inputs["podRequest"]["milliCPU" if is_cpu else "memory"]
    stats = {"capacity": capacity / unit, "req": request / unit, "usedAvg": used, "usedStdev": deviation}
    return {"isValid": True, "stats": stats}


def _amounts(amounts: PodAmounts) -> Any:
    return {"milliCPU": amounts.cpu_millis, "memory": amounts.memory_bytes}


def _demand(pod: Any) -> pod_info.PodResources:
    return pod_info.read_resources(msgspec.convert(pod, type=pods.Pod).spec)


def _node_requests_and_limits(inputs: Any) -> Any:
    """Return the sums of the plugin's columns and score."""
    cluster = _Cluster("LowRiskOverCommitment", {})
    cluster.add(inputs["node"], {}, inputs["podsOnNode"])
    own = declared(_demand(inputs["pod"]), "upstream")
    capacity = cluster.policy.columns.allocatable[:, 0]
    request, limit = (column[:, 0] for column in (cluster.policy.request, cluster.policy.limit))
    return {
        "nodeRequest": _pair(np.minimum(request + own.request, capacity)),
        "nodeLimit": _pair(limit + own.limit),
        "nodeRequestMinusPod": _pair(np.minimum(request, capacity)),
        "nodeLimitMinusPod": _pair(limit),
        "nodeCapacity": _pair(capacity),
    }


def _pair(values: Any) -> Any:
    return {"milliCPU": int(values[0]), "memory": int(values[1])}


def _compute_risk(inputs: Any) -> Any:
    """Return the risk of one resource: the plugin has no column of another one, which then adds none."""
    name = inputs["resourceName"]
    if (unit := _UNITS.get(name)) is None:
        return {"risk": 0.0}
    of, totals = _utilization(inputs), inputs["nodeRequestsAndLimits"]
    keys = ("nodeRequest", "nodeLimit", "nodeRequestMinusPod", "nodeLimitMinusPod", "nodeCapacity")
    request, limit, before, limit_before, capacity = (np.array([float(totals[key][unit])]) for key in keys)
    limit_risk = low_risk_over_commitment.limit_risk(request, limit, capacity)
    load = np.zeros(1)
    if of.is_valid:
        percents = (np.array([of.mean]), np.array([of.deviation]))
        used, deviation = (load_variation_risk_balancing.used(percent, capacity) for percent in percents)
        fractions = load_variation_risk_balancing.fractions(used, deviation, 0.0, capacity)
        sigma = low_risk_over_commitment.unsmoothed_sigma(fractions.mu, fractions.sigma, inputs["smoothingWindowSize"])
        load = low_risk_over_commitment.conditioned_load_risk(
            fractions.mu, sigma, before, limit_before, capacity, no_limits_are_certain=True
        )
    weight = (inputs.get("riskLimitWeights") or {}).get(name, DEFAULT_WEIGHT)
    return {"risk": float(low_risk_over_commitment.total_risk(limit_risk, load, weight)[0])}


def _predicted(inputs: Any) -> Any:
    resources = inputs["container"].get("resources") or {}
    requests, limits = (pods.units(resources.get(kind)) for kind in ("requests", "limits"))
    container = ContainerCpu(requests.get("cpu"), limits.get("cpu"))
    millis = target_load_packing.container_millis(
        container, inputs["defaultRequestsMultiplier"], inputs["defaultRequestsMilliCores"]
    )
    return {"milliCPU": millis}


def _set_max_limits(inputs: Any) -> Any:
    request, limit = (PodAmounts(own["milliCPU"], own["memory"]) for own in (inputs["podRequest"], inputs["podLimits"]))
    return _amounts(pod_info.raised(limit, request))


def _node_metrics(inputs: Any) -> Any:
    nodes = records.decode(json.dumps(inputs["watcher"] or {}).encode()).data.nodes
    return {
        name: [
            {key: value for key, value in msgspec.structs.asdict(metric).items() if key != "rollup"}
            for metric in node.metrics
        ]
        for name, node in nodes.items()
    }


def _updated(inputs: Any) -> Any:
    """Read a document as the client of another load watcher does."""
    try:
        remote_watcher.read(json.dumps(inputs["watcher"]).encode(), "http://watcher:2020", now=0)
    except ProviderFailed as error:
        return {"error": str(error)}
    return {"error": None}


def _of_node(inputs: Any) -> Any:
    has_any = inputs["watcher"] is not None and inputs["watcher"].get("data", {}).get("NodeMetricsMap") is not None
    return {
        "allMetricsPresent": has_any,
        "metrics": (_node_metrics(inputs).get(inputs["nodeName"]) or None) if has_any else None,
    }


def _request_fraction(inputs: Any) -> Any:
    names = {"cpu": "cpuCores", "memory": "memoryGB"}
    zero = np.zeros(1)
    return {
        name: float(
            load_variation_risk_balancing.fractions(
                zero, zero, inputs["podRequest"][key], np.array([float(inputs["nodeCapacity"][key])])
            ).mu[0]
        )
        for name, key in names.items()
    }


def _after_placement(inputs: Any) -> Any:
    before, fraction = inputs["before"][inputs["placedOn"]], inputs["podFraction"]
    one = np.ones(1)
    after = {
        name: load_variation_risk_balancing.fractions(
            np.array([before["mu"][name]]), np.array([before["sigma"][name]]), fraction[name], one
        )
        for name in fraction
    }
    return {
        inputs["placedOn"]: {
            "mu": {name: float(of.mu[0]) for name, of in after.items()},
            "sigma": {name: float(of.sigma[0]) for name, of in after.items()},
        }
    }


def _recent_pod(inputs: Any) -> Any:
    millis = pods.units({"cpu": inputs["bestEffortDefault"]})["cpu"]
    request = pods.units(inputs["requests"]).get("cpu")
    return {"milliCPU": target_load_packing.container_millis(ContainerCpu(request, None), 1.0, millis)}


def _designed_defaults(_inputs: Any) -> Any:
    args = trimaran_config_adapters.completed("LowRiskOverCommitment", {"formula": "kep"})
    return {"smoothingWindowSize": args.smoothing_window_size, "riskLimitWeight": args.risk_limit_weights["cpu"]}


def _designed_score(inputs: Any) -> Any:
    inputs = {**_designed_defaults({}), **inputs}

    def one(name: str) -> Any:
        return np.array([float(inputs[name])])

    capacity = one("capacity")
    limit_risk = low_risk_over_commitment.limit_risk(one("totalRequest"), one("totalLimit"), capacity)
    if not inputs.get("metricsAvailable", True):
        return {"limitAware": bool(low_risk_over_commitment.risk_score(limit_risk[np.newaxis])[0] < 100)}
    of = load_variation_risk_balancing.fractions(one("usedAvg"), one("usedStd"), 0.0, capacity)
    sigma = low_risk_over_commitment.unsmoothed_sigma(of.mu, of.sigma, inputs["smoothingWindowSize"])
    load, fit = low_risk_over_commitment.load_risk(of.mu, sigma, one("requestWithoutPod"), capacity)
    total = low_risk_over_commitment.total_risk(limit_risk, load, inputs["riskLimitWeight"])
    return {
        "alpha": fit.alpha[0], "beta": fit.beta[0], "mean": of.mu[0], "variance": sigma[0] ** 2, "sigma": sigma[0],
        "allocThreshold": inputs["requestWithoutPod"] / inputs["capacity"], "allocProb": 1 - load[0],
        "riskLoad": load[0], "riskLimit": limit_risk[0], "totalRisk": total[0],
        "score": low_risk_over_commitment.risk_score(total[np.newaxis])[0],
    }  # fmt: skip


def _designed_score_check(inputs: Any, expected: Any) -> str | None:
    """Compare the fit to two decimals, risks to three, and the score exactly, as in the figure."""
    came = _designed_score(inputs)
    coarse = {"alpha", "beta", "mean", "variance", "sigma"}
    for key, value in expected.items():
        tolerance = 0.0 if key == "score" else 0.006 if key in coarse else 0.0006
        if isinstance(value, bool) or key == "score":
            if came[key] != value:
                return f"{key}: expected {value}, came {came[key]}"
        elif abs(came[key] - value) > tolerance:
            return f"{key}: expected {value}, came {came[key]}"
    return None


def _total_limit(inputs: Any) -> Any:
    limits, capacity = (np.array([float(amount)]) for amount in (sum(inputs["podLimits"]), inputs["capacity"]))
    has_best_effort = np.array([inputs["bestEffortPods"] > 0])
    return {"totalLimit": low_risk_over_commitment.with_best_effort(limits, capacity, has_best_effort)[0]}


ADAPTERS = {
    "trimaran.GetResourceData": _resource_data,
    "trimaran.CreateResourceStats": _resource_stats,
    "trimaran.GetResourceRequested": lambda inputs: _amounts(_demand(inputs["pod"]).shipped_request),
    "trimaran.GetResourceLimits": lambda inputs: _amounts(_demand(inputs["pod"]).shipped_limit),
    "trimaran.GetNodeRequestsAndLimits": _node_requests_and_limits,
    "trimaran.SetMaxLimits": _set_max_limits,
    "trimaran.getAllMetrics": lambda inputs: {"nodeMetrics": _node_metrics(inputs)},
    "trimaran.updateMetrics": _updated,
    "trimaran.GetNodeMetrics": _of_node,
    "lowriskovercommitment.computeRisk": _compute_risk,
    "targetloadpacking.PredictUtilisation": _predicted,
    "targetloadpacking.Score": _score_of("TargetLoadPacking"),
    "loadvariationriskbalancing.Score": _score_of("LoadVariationRiskBalancing"),
    "lowriskovercommitment.Score": _score_of("LowRiskOverCommitment"),
    "peaks.Score": _score_of("Peaks"),
    "scheduler.placeSequentially": _place_sequentially,
    "kep61.requestFraction": _request_fraction,
    "kep61.afterPlacement": _after_placement,
    "kep61.predictRecentPod": _recent_pod,
    "kep61.recentPodsRetention": lambda _inputs: {"seconds": records.OLDEST_SECONDS},
    "kep357.defaults": _designed_defaults,
    "kep357.totalLimit": _total_limit,
}

CHECKS = {"kep357.nodeScore": _designed_score_check}
