"""Map the cases of koordinator-loadaware.json to the code that the scheduler plugin runs.

Times in the cases are seconds relative to "now"; here they become RFC 3339 text around a fixed time. Filter and score
go through the requests and answers of the extender.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import msgspec
import numpy as np
import pydantic

from api_types import names
from api_types.kubernetes import pods, priority_and_qos, times
from scheduler_plugin import assembly
from scheduler_plugin.config.loader import Configuration
from scheduler_plugin.decisions import node_page
from scheduler_plugin.plugins.load_aware import args as load_aware_args
from scheduler_plugin.plugins.load_aware import plugin as load_aware
from scheduler_plugin.plugins.load_aware.args import LoadAwareArgs
from scheduler_plugin.state import estimator, pod_info
from scheduler_plugin.state.node_metric_decoder import NodeMetric
from tests.conformance import adapters

NOW = 1_700_000_000
_FOR_EVER = 10.0**9
_NAME = load_aware.LoadAware.name
_MOMENTS = ("updateTime", "lastTransitionTime")


def _text(offset: float) -> str:
    return dt.datetime.fromtimestamp(NOW + offset, dt.UTC).isoformat().replace("+00:00", "Z")


def _on_the_wire(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _text(item) if key in _MOMENTS and isinstance(item, int | float) else _on_the_wire(item)
            for key, item in value.items()
        }
    return [_on_the_wire(item) for item in value] if isinstance(value, list) else value


def _decode(kind: Any, value: Any) -> Any:
    return msgspec.json.decode(json.dumps(_on_the_wire(value)), type=kind)


def _args(inputs: Any) -> LoadAwareArgs:
    if "args" in inputs:
        return LoadAwareArgs.model_validate(inputs["args"])
    return LoadAwareArgs.model_validate(inputs.get("rawArgs", {})).with_defaults()


class _Product:
    """The parts of the product with the arguments of one case."""

    def __init__(self, inputs: Any) -> None:
        self.parts = assembly.Parts(
            Configuration({_NAME: _args(inputs)}, filters=(_NAME,), score_weights={_NAME: 1}),
            assumed_ttl_seconds=_FOR_EVER,
        )
        self.cluster = self.parts.cluster
        self.resources = self.parts.resources

    def assign(self, pod: Any, node: str, at: float) -> None:
        decoded = _decode(pods.Pod, pod)
        if decoded.spec.node_name:
            self.cluster.pod_changed(decoded, NOW + at)
        else:
            self.cluster.assume_pod(decoded, node, NOW + at)

    def play(self, event: Any) -> None:
        op, at = event["op"], event.get("at", 0)
        if op == "node_metric_upsert":
            self.cluster.metric_changed(_decode(NodeMetric, event["nodeMetric"]))
        elif op == "node_metric_delete":
            self.cluster.metric_deleted(event.get("node") or event["nodeMetric"]["metadata"]["name"])
        elif op in ("pod_add", "pod_update"):
            self.cluster.pod_changed(_decode(pods.Pod, event["pod"]), NOW + at)
        elif op == "reserve":
            self.cluster.assume_pod(_decode(pods.Pod, event["pod"]), event["node"], NOW + at)
        elif op in ("pod_delete", "unreserve"):
            gone = _decode(pods.Pod, event["pod"]).metadata
            self.cluster.pod_deleted(gone.namespace, gone.name, gone.uid)
        else:
            raise ValueError(f"unknown event {op}")

    def with_node(self, inputs: Any) -> str:
        """Add the node, report and assigned pods of the case; return the name of the node."""
        name = ((inputs.get("node") or inputs.get("nodeMetric") or {}).get("metadata") or {}).get("name", "node")
        if inputs.get("node"):
            self.cluster.node_changed(_decode(pods.Node, inputs["node"]))
        if inputs.get("nodeMetric"):
            metric = {**inputs["nodeMetric"], "metadata": {"name": name}}
            self.cluster.metric_changed(_decode(NodeMetric, metric))
        for index, assigned in enumerate(inputs.get("assigned") or ()):
            pod = assigned["pod"]
            pod["metadata"].setdefault("uid", f"assigned-{index}")
            self.assign(pod, name, assigned.get("timestamp", 0))
        return name


def _request(pod: Any, name: str) -> bytes:
    return json.dumps({"Pod": _on_the_wire(pod), "Nodes": None, "NodeNames": [name]}).encode()


def _filter(inputs: Any) -> Any:
    product = _Product(inputs)
    name = product.with_node(inputs)
    answer = json.loads(product.parts.extender.filter(_request(inputs["pod"], name), NOW))
    if answer.get("NodeNames") == [name]:
        return {"code": "Success", "reason": None}
    reason = answer["FailedAndUnresolvableNodes"][name]
    return {"code": "Unschedulable", "reason": reason}


def _score(inputs: Any) -> Any:
    product = _Product(inputs)
    name = product.with_node(inputs)
    if name not in product.parts.vectors.rows:
        return {"code": "Error", "score": 0}
    answer = json.loads(product.parts.extender.prioritize(_request(inputs["pod"], name), NOW))
    return {"code": "Success", "score": answer[0]["Score"]}


def _estimate(inputs: Any) -> Any:
    pod, policy = _decode(pods.Pod, inputs["pod"]), _args(inputs).estimator_args()
    of_class, requests = priority_and_qos.priority_class(pod), pods.requests(pod.spec)
    return {"estimated": estimator.estimate(pod, policy, of_class, requests)}


def _deadline(inputs: Any) -> Any:
    pod = _decode(pods.Pod, inputs["pod"])
    initialized_at = pod_info.true_since(pod, "Initialized")
    policy = _args(inputs).estimator_args()
    deadline = estimator.forced_until(pod, policy, NOW + inputs["assignTimestamp"], initialized_at)
    return {"deadline": None if deadline is None else deadline - NOW}


def _check_aggregated_usage(inputs: Any, expected: Any) -> str | None:
    product = _Product(inputs)
    entry = product.cluster.entries.get(product.with_node(inputs))
    if entry is None:
        return _mismatch(expected, {"usage": None})
    window = times.duration_nanos(inputs.get("aggregatedDuration") or "0s")
    usage = entry.load.aggregated(inputs["aggregationType"], window)
    return _mismatch(expected, {"usage": node_page.amounts(usage, product.resources)})


def _validate(inputs: Any) -> Any:
    try:
        fields = [".".join(map(str, problem.path)) for problem in load_aware_args.problems(_args(inputs))]
    except pydantic.ValidationError as error:
        fields = [".".join(map(str, item["loc"])) for item in error.errors()]
    # Koordinator's spelling of this field.
    fields = [field.replace("nodeMetricExpirationSeconds", "nodeMetricExpiredSeconds") for field in fields]
    return {"valid": not fields, "errorFields": fields}


def _check_defaults(inputs: Any, expected: Any) -> str | None:
    completed = LoadAwareArgs.model_validate(inputs["args"]).with_defaults()
    wanted = LoadAwareArgs.model_validate(expected["args"])
    return None if completed == wanted else f"expected {wanted}\n    came {completed}"


def _check_raw_allocatable(inputs: Any, expected: Any) -> str | None:
    """Compare annotations: the product ignores malformed and empty ones alike."""
    node = _decode(pods.Node, inputs["node"])
    text = pods.annotations_of(node.metadata).get(names.ANNOTATION_RAW_ALLOCATABLE)
    came = pods.raw_allocatable(text) if text else None
    wanted = pods.units({k: v for k, v in (expected.get("allocatable") or {}).items() if isinstance(v, str)})
    wanted |= {k: v for k, v in (expected.get("allocatable") or {}).items() if not isinstance(v, str)}
    return None if (came or {}) == wanted else f"expected {expected}\n    came {came}"


def _mismatch(expected: Any, came: Any, where: str = "") -> str | None:
    """Return the difference to `expected`; a zero vector equals none, and seconds may be fractional."""
    if isinstance(expected, dict) and isinstance(came, dict | None):
        for key, value in expected.items():
            if text := _mismatch(value, (came or {}).get(key), f"{where}.{key}"):
                return text
        return None
    if expected in (0, None, [], {}) and (came in (0, None, [], {}) or _is_zero(came)):
        return None
    return f"{where}: expected {expected}, came {came}" if adapters.differs(expected, came, 0, 0) else None


def _is_zero(came: Any) -> bool:
    return isinstance(came, dict) and not any(came.values())


def _node_state(product: _Product, name: str) -> Any:
    entry = product.cluster.entries.get(name)
    if entry is None:
        return None
    state = node_page.node_page(entry, product.resources)
    state["pods"] = {
        pod["uid"]: {
            "timestamp": pod["timestamp"] - NOW,
            "estimated": pod["estimated"],
            "estimatedDeadline": None if pod["estimatedDeadline"] is None else pod["estimatedDeadline"] - NOW,
        }
        for pod in state["pods"]
    }
    updated_at = state.get("updateTime")
    state["updateTime"] = None if updated_at is None else updated_at - NOW
    return state


def _check_assign_cache(inputs: Any, expected: Any) -> str | None:
    product = _Product(inputs)
    for event in inputs["events"]:
        product.play(event)
    for name, wanted in expected["nodes"].items():
        came = _node_state(product, name)
        if not wanted:
            if came:
                return f"{name}: expected nothing, came {came}"
        elif came is None or wanted.get("pods", came["pods"]).keys() != came["pods"].keys():
            return f"{name}: expected {wanted}, came {came}"
        elif text := _mismatch(wanted, came, name):
            return text
    return None


def _check_query_node(inputs: Any, expected: Any) -> str | None:
    product = _Product(inputs)
    for event in inputs["events"]:
        product.play(event)
    page = node_page.node_page(product.cluster.entries.get(inputs["query"]), product.resources)
    wanted = expected["response"]
    if not wanted:
        return f"expected nothing, came {page}" if page else None
    came = page | {"pods": [_queried_pod(pod) for pod in page["pods"]]}
    return _mismatch(wanted | {"pods": [_queried_pod(pod) for pod in wanted.get("pods", [])]}, came)


def _queried_pod(pod: Any) -> Any:
    identity = pod.get("pod", pod)
    if isinstance(identity, dict):
        metadata = identity.get("metadata", identity)
        identity = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
    return {"pod": identity}


ADAPTERS = {
    "filter": _filter,
    "score": _score,
    "estimate": _estimate,
    "estimated_deadline": _deadline,
    "args_validate": _validate,
    "estimate_node": lambda inputs: {"allocatable": pods.allocatable(_decode(pods.Node, inputs["node"]))},
    "least_used_score": lambda inputs: {
        "score": int(load_aware.least_used_score(np.int64(inputs["used"]), np.int64(inputs["capacity"])))
    },
    "weighted_score": lambda inputs: {
        "score": int(
            load_aware.weighted_score(
                inputs["dominantResourceWeight"],
                *(np.array(inputs[key], dtype=np.int64) for key in ("weights", "used", "allocatable")),
            )
        )
    },
    "vectorizer": lambda inputs: {"resources": list(_args(inputs).resources())},
    "priority_class": lambda inputs: {
        "priorityClass": priority_and_qos.priority_class(_decode(pods.Pod, inputs["pod"])).value
    },
    "priority_class_raw": lambda inputs: {
        "priorityClass": priority_and_qos.raw_priority_class(_decode(pods.Pod, inputs["pod"])).value
    },
    "qos_class": lambda inputs: {"qosClass": priority_and_qos.qos_class(_decode(pods.Pod, inputs["pod"])).value},
    "qos_class_raw": lambda inputs: {
        "qosClass": priority_and_qos.raw_qos_class(_decode(pods.Pod, inputs["pod"])).value
    },
}

CHECKS = {
    "aggregated_usage": _check_aggregated_usage,
    "args_default": _check_defaults,
    "raw_allocatable": _check_raw_allocatable,
    "assign_cache": _check_assign_cache,
    "query_node": _check_query_node,
}

DIFFERENT_ON_PURPOSE = [
    (
        "score",
        lambda case: case["expected"]["score"] > 100,
        "scores are 0..100; a negative factor of a pod can raise Koordinator's above it, without effect",
    ),
]
