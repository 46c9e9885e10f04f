"""Map the cases of Koordinator's reclaimable predictors to koordlet/prediction.

The percentiles of a case are the input of the `percentile` predictor, which is Koordinator's, and its peak is the
input of Reclaimable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from api_types.kubernetes import pods
from koordlet.cluster import pods as pods_on_node
from koordlet.cluster.pods import PodOnNode
from koordlet.prediction import allocation, histogram_bank
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction, ProdLoad
from koordlet.prediction.predictors import registry
from koordlet.prediction.server import PredictionServer
from koordlet.samples import RESOURCES, Resource

PROD_MODEL, SYSTEM_MODEL, NO_CLASS_MODEL = "__node-koord-prod__", "__node-sys__", "__node-__"
CONSUMED = ((95, "cpu_milli"), (98, "memory_bytes"))


# Pods


def pod_on_node(given: Mapping[str, Any]) -> PodOnNode:
    """Return the pod of a case, as the agent gets it from the apiserver."""
    requests = {
        "cpu": f"{given['requests']['cpu_milli']}m",
        "memory": str(given["requests"]["memory_bytes"]),
        **{name: str(value) for name, value in given.get("requests_extended", {}).items()},
    }
    wire = {
        "metadata": {"name": given["uid"], "namespace": "default", "uid": given["uid"], "labels": given.get("labels")},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": requests}}],
            "priority": given.get("priority"),
        },
        "status": {"qosClass": given.get("kube_qos", "Burstable"), "startTime": "2026-11-21T00:00:00Z"},
    }
    return pods_on_node.describe(msgspec.json.decode(msgspec.json.encode(wire), type=pods.Pod))


def _is_cold(given: Mapping[str, Any], case: Mapping[str, Any]) -> bool:
    return given["age_seconds"] < case.get("cold_start_seconds", 86_400)


def _prediction_of(given: Mapping[str, Any], case: Mapping[str, Any]) -> Any:
    return case.get("prediction_for_every_uid") or case.get("predictions", {}).get(given["uid"], "error")


# Predictors


@dataclass(frozen=True)
class GivenPercentiles:
    """Series whose percentiles a case states in milli-cores and bytes, instead of histograms."""

    resource: Resource
    outputs: tuple[Mapping[str, Any], ...]

    def mean(self) -> histogram_bank.FloatArray:
        raise NotImplementedError

    stdev = mean

    def percentile(self, percent: float) -> histogram_bank.FloatArray:
        """Return cores and bytes slightly above the stated value, which Koordinator obtained by truncation."""
        name, unit = ("cpu_milli", 1000) if self.resource is Resource.CPU else ("memory_bytes", 1)
        values = [float(output[f"p{percent:g}"][name]) / unit for output in self.outputs]
        return np.nextafter(np.array(values, float), math.inf)


def _nothing() -> Mapping[str, Any]:
    return {f"p{percent}": {"cpu_milli": 0, "memory_bytes": 0} for percent in (95, 98)}


def _of_model(case: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    found = case.get("prediction_for_every_uid") or case.get("predictions", {}).get(name, "error")
    return None if found == "error" else found


def _answer(
    case: Mapping[str, Any], with_pods: bool, with_class: bool
) -> tuple[WholeAmounts, WholeAmounts] | NoPrediction:
    """Return Peak[Prod] and Allocated[Prod] of the parts of the predictor that a case covers."""
    given = {each["uid"]: each for each in case["pods"]}
    prod = allocation.charged_to_prod([pod_on_node(each) for each in given.values()])
    warm = [
        pod
        for pod in prod
        if not _is_cold(given[pod.uid], case) and _prediction_of(given[pod.uid], case) != "error" and with_pods
    ]
    cold = [pod for pod in prod if pod not in warm and with_pods]
    prod_output = _of_model(case, PROD_MODEL) if with_class else _nothing()
    system_output = _of_model(case, SYSTEM_MODEL) if with_class else _nothing()
    parameters = PredictParameters(predictor="percentile", safety_margin_percent=case["safety_margin_percent"])
    peaks: list[float] = []
    for resource in RESOURCES:
        load = ProdLoad(
            resource=resource,
            warm_pods=GivenPercentiles(resource, tuple(_prediction_of(given[pod.uid], case) for pod in warm)),
            warm_requests=allocation.requested_by(warm).in_cores_or_bytes(resource),
            cold_requests=allocation.requested_by(cold).in_cores_or_bytes(resource),
            prod=None if prod_output is None else GivenPercentiles(resource, (prod_output,)),
            system=None if system_output is None else GivenPercentiles(resource, (system_output,)),
            unreserved_system=None,
            prod_and_unreserved_system=None,
        )
        answer = registry.predict(load, parameters)
        if isinstance(answer, NoPrediction):
            return answer
        peaks.append(answer.peak)
    return allocation.whole_peak(*peaks), allocation.requested_by(prod)


def _wire(amounts: WholeAmounts) -> dict[str, int]:
    return {"cpu_milli": amounts.cpu_millis, "memory_bytes": amounts.memory_bytes}


def _check_predictor(*, with_pods: bool, with_class: bool) -> Any:
    def check(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
        if "pods" not in case:  # an unknown node, and nothing else
            case = {**case, "pods": [], "safety_margin_percent": 0, "node_allocatable": None}
        answer = _answer(case, with_pods, with_class)
        allocatable = case.get("node_allocatable")
        if "error" in expected or expected.get("result") == {}:
            server = PredictionServer(PredictParameters(predictor="percentile"))
            failed = isinstance(answer, NoPrediction) or (
                allocatable is None and isinstance(server.predict(0.0, [], None), NoPrediction)
            )
            wanted = expected.get("error", True)
            return None if failed == wanted else f"expected error {wanted}, came {answer}"
        if isinstance(answer, NoPrediction):
            return f"expected {expected}, came {answer}"
        peak, allocated = answer
        came = {"peak": _wire(peak)}
        if allocatable is not None:
            node = WholeAmounts(allocatable["cpu_milli"], allocatable["memory_bytes"])
            came["result"] = _wire(allocation.prod_reclaimable(allocated, peak, node))
        # `add_pod_error`: the product has no such error, a pod without a model is charged its request.
        wrong = {name: value for name, value in expected.items() if name in ("peak", "result") and came[name] != value}
        return f"expected {wrong}, came {came}" if wrong else None

    return check


# Predicates of the cases that differ on purpose


def _prod_pods(case: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for given in case["input"].get("pods", ()):
        if allocation.charged_to_prod([pod_on_node(given)]):
            yield given


def _has_deleted_pod(case: Mapping[str, Any]) -> bool:
    return any(given.get("terminating") for given in _prod_pods(case))


def _has_deleted_warm_pod(case: Mapping[str, Any]) -> bool:
    return any(given.get("terminating") and not _is_cold(given, case["input"]) for given in _prod_pods(case))


def _has_pod_without_model(case: Mapping[str, Any]) -> bool:
    return any(
        _prediction_of(given, case["input"]) == "error" and not _is_cold(given, case["input"])
        for given in _prod_pods(case)
    )


def _is_on_the_edge(case: Mapping[str, Any]) -> bool:
    return any(given["age_seconds"] == case["input"].get("cold_start_seconds") for given in _prod_pods(case))


def _exceeds_request(case: Mapping[str, Any]) -> bool:
    """Return whether a warm pod's own peak is above its request."""
    factor = 1 + case["input"].get("safety_margin_percent", 0) / 100
    for given in _prod_pods(case):
        found = _prediction_of(given, case["input"])
        if found == "error" or _is_cold(given, case["input"]):
            continue
        if any(found[f"p{p}"][name] * factor > given["requests"][name] for p, name in CONSUMED):
            return True
    return False


def _cold_requests_bound_by_node(case: Mapping[str, Any]) -> bool:
    node = case["input"].get("node_allocatable")
    given = list(_prod_pods(case))
    charged = [
        each for each in given if _is_cold(each, case["input"]) or _prediction_of(each, case["input"]) == "error"
    ]
    return bool(charged and node) and any(
        sum(each["requests"][name] for each in given) > node[name] for _p, name in CONSUMED
    )


def _none_class_weighs(case: Mapping[str, Any]) -> bool:
    found = _of_model(case["input"], NO_CLASS_MODEL)
    if found is None:  # Koordinator then returns nothing; the product needs no such model
        return all(_of_model(case["input"], name) for name in (PROD_MODEL, SYSTEM_MODEL))
    return any(found[f"p{p}"][name] for p, name in CONSUMED)


CHECKS = {
    "pod reclaimable predictor": _check_predictor(with_pods=True, with_class=False),
    "pod reclaimable predictor GetPeak": _check_predictor(with_pods=True, with_class=False),
    "priority reclaimable predictor": _check_predictor(with_pods=False, with_class=True),
    "min predictor (prod reclaimable)": _check_predictor(with_pods=True, with_class=True),
}
_OF_PODS = ("pod reclaimable predictor", "pod reclaimable predictor GetPeak", "min predictor (prod reclaimable)")
_OF_CLASS = ("priority reclaimable predictor", "min predictor (prod reclaimable)")
_DELETED = "Allocated[Prod] is of the pods bound to the node, and a pod that is being deleted is bound and runs"
_CHARGED = "the request of a pod without history is part of the peak, so it is subtracted from the node as well"
DIFFERENT_ON_PURPOSE = [
    *((function, _has_deleted_warm_pod, _DELETED) for function in _OF_PODS),
    *((function, _has_deleted_pod, _DELETED) for function in _OF_CLASS),
    *((function, _cold_requests_bound_by_node, _CHARGED) for function in _OF_PODS if "GetPeak" not in function),
    *(
        (function, _exceeds_request, "Allocated[Prod] - Peak[Prod] of all pods, not a sum of surpluses")
        for function in _OF_PODS
        if "GetPeak" not in function
    ),
    *((function, _is_on_the_edge, "cold is shorter than the period, not as long") for function in _OF_PODS),
    (
        "min predictor (prod reclaimable)",
        _has_pod_without_model,
        "a pod without history counts with its request, and is part of Allocated[Prod]",
    ),
    *(
        (function, _none_class_weighs, "pods without a class count as Prod and have no series of their own")
        for function in _OF_CLASS
    ),
]
