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
from scheduler_plugin.config.loader import PluginConfiguration
from scheduler_plugin.decisions import pages
from scheduler_plugin.plugins.load_aware import plugin as load_aware
from scheduler_plugin.plugins.load_aware.args import LoadAwareArgs
from scheduler_plugin.state import estimator, pod_info
from scheduler_plugin.state.node_report import NodeMetric
from tests.conformance import adapters

NOW = 1_700_000_000
_NAME = load_aware.LoadAware.name
_MOMENTS = ("updateTime", "lastTransitionTime")
_NO_POD = {"metadata": {}, "spec": {"containers": []}}


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


def _pod(wire: Any) -> pods.Pod:
    """Decode a pod; a case without one is about a pod that requests nothing."""
    return _decode(pods.Pod, wire or _NO_POD)


def _args(inputs: Any) -> LoadAwareArgs:
    """Decode the effective arguments, or complete those as given; `resources` are tracked too."""
    if inputs.get("args") is not None:
        args = LoadAwareArgs.model_validate(inputs["args"])
    else:
        args = LoadAwareArgs.model_validate(inputs.get("rawArgs") or {}).with_defaults()
    named = [*args.supported_resources, *(inputs.get("resources") or ())]
    return args.model_copy(update={"supported_resources": named})


class _Product:
    """The parts of the product with the arguments of one case."""

    def __init__(self, inputs: Any) -> None:
        self.parts = assembly.Parts(
            PluginConfiguration({_NAME: _args(inputs)}, filters=(_NAME,), score_weights={_NAME: 1}),
        )
        self.cluster = self.parts.cluster
        self.resources = self.parts.resources
        self.lookups: list[Any] = []

    def assign(self, pod: Any, node: str, at: float) -> None:
        decoded = _pod(pod)
        if decoded.spec.node_name:
            self.cluster.pod_changed(decoded, NOW + at)
        else:
            self.cluster.assume_pod(decoded, node, NOW + at)

    def play(self, event: Any) -> None:
        """Run one event; an event without its object does nothing, as the watch of an informer without one."""
        op, at = event["op"], NOW + (event.get("at") or 0)
        if op == "lookup":
            self.lookups.append(self._lookup(event))
        elif op in ("node_metric_upsert", "node_metric_add", "node_metric_update"):
            if event["nodeMetric"]:
                self.cluster.metric_changed(_decode(NodeMetric, event["nodeMetric"]))
        elif op == "node_metric_delete":
            self.cluster.metric_deleted(event.get("node") or event["nodeMetric"]["metadata"]["name"])
        elif not event["pod"]:
            return
        elif op in ("pod_add", "pod_update"):
            self.cluster.pod_changed(_pod(event["pod"]), at)
        elif op == "reserve":
            self.cluster.assume_pod(_pod(event["pod"]), event["node"], at)
        elif op in ("pod_delete", "unreserve", "forget_pod"):
            gone = _pod(event["pod"]).metadata
            self.cluster.pod_deleted(gone.namespace, gone.name, gone.uid)
        else:
            raise ValueError(f"unknown event {op}")

    def _lookup(self, event: Any) -> Any:
        """Return what LoadAware reads of a node: its usage with the pods that the report does not show yet."""
        entry = self.cluster.entries.get(event["node"])
        if entry is None or entry.load.report is None:
            return {"found": False, "notFound": True}
        load, page = entry.load, pages.node_page(entry, self.resources)
        kind = "node"
        if event.get("prod"):
            kind, usage = "prod", load.prod()
        elif event.get("aggregationType"):
            usage = load.aggregated(event["aggregationType"], _nanos(event.get("aggregatedDuration")))
        else:
            usage = load.plain()
        counted = "nodeEstimatedPods" if page["nodeUsage"] is None and kind == "node" else f"{kind}DeltaPods"
        return {
            "found": True,
            "notFound": False,
            "estimated": pages.amounts(usage, self.resources),
            "pods": page[counted],
        }

    def with_node(self, inputs: Any) -> str:
        """Add the node, report and assigned pods of the case; return the name of the node."""
        node, metric = inputs.get("node"), inputs.get("nodeMetric")
        name = ((node or metric or {}).get("metadata") or {}).get("name") or "node"
        if node:
            named = {**node, "metadata": {**node.get("metadata", {}), "name": name}}
            self.cluster.node_changed(_decode(pods.Node, named))
        if metric:
            self.cluster.metric_changed(_decode(NodeMetric, {**metric, "metadata": {"name": name}}))
        for index, assigned in enumerate(inputs.get("assigned") or ()):
            own = {"uid": f"assigned-{index}", "name": f"assigned-{index}", **assigned["pod"]["metadata"]}
            self.assign({**assigned["pod"], "metadata": own}, name, assigned.get("timestamp") or 0)
        return name


def _nanos(duration: str | None) -> int:
    return times.duration_nanos(duration or "0s")


def _request(pod: Any, name: str) -> bytes:
    return json.dumps({"Pod": _on_the_wire(pod or _NO_POD), "Nodes": None, "NodeNames": [name]}).encode()


def _filter(inputs: Any) -> Any:
    product = _Product(inputs)
    name = product.with_node(inputs)
    answer = json.loads(product.parts.extender.filter(_request(inputs["pod"], name), NOW))
    if answer.get("NodeNames") == [name]:
        return {"code": "Success", "reason": None}
    reasons = {**(answer.get("FailedNodes") or {}), **(answer.get("FailedAndUnresolvableNodes") or {})}
    return {"code": "Unschedulable", "reason": reasons[name]}


def _score(inputs: Any) -> Any:
    product = _Product(inputs)
    name = product.with_node(inputs)
    answer = json.loads(product.parts.extender.prioritize(_request(inputs["pod"], name), NOW))
    return {"code": "Success", "score": answer[0]["Score"]}


def _estimate(inputs: Any) -> Any:
    pod, policy = _pod(inputs["pod"]), _args(inputs).estimator_args()
    of_class, requests = priority_and_qos.priority_class(pod), pods.requests(pod.spec)
    return {"estimated": estimator.estimate(pod, policy, of_class, requests)}


def _deadline(inputs: Any) -> Any:
    pod = _pod(inputs["pod"])
    initialized_at = pod_info.true_since(pod, "Initialized")
    policy = _args(inputs).estimator_args()
    deadline = estimator.forced_until(pod, policy, NOW + (inputs.get("assignTimestamp") or 0), initialized_at)
    return {"deadline": None if deadline is None else deadline - NOW}


def _check_aggregated_usage(inputs: Any, expected: Any) -> str | None:
    product = _Product(inputs)
    entry = product.cluster.entries.get(product.with_node(inputs))
    if entry is None:
        return _mismatch(expected, {"usage": None})
    usage = entry.load.aggregated(inputs["aggregationType"], _nanos(inputs.get("aggregatedDuration")))
    return _mismatch(expected, {"usage": pages.amounts(usage, product.resources)})


def _validate(inputs: Any) -> Any:
    try:
        fields = [".".join(map(str, problem.path)) for problem in _args(inputs).problems()]
    except pydantic.ValidationError as error:
        fields = [".".join(map(str, item["loc"])) for item in error.errors()]
    # Koordinator's spelling of this field.
    fields = [field.replace("nodeMetricExpirationSeconds", "nodeMetricExpiredSeconds") for field in fields]
    return {"valid": not fields, "errorFields": fields}


def _check_defaults(inputs: Any, expected: Any) -> str | None:
    """Compare the completed arguments as they are written; keys that the case leaves out are not set."""
    given = inputs["args"] if inputs.get("args") is not None else inputs.get("rawArgs") or {}
    completed = LoadAwareArgs.model_validate(given).with_defaults()
    written = completed.model_dump(mode="json", by_alias=True, exclude={"on_stale", "mode", "usage_source"})
    return None if _is_written(expected["args"], written) else f"expected {expected}\n    came {written}"


def _is_written(wanted: Any, written: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(written, dict):
        unset = [value for key, value in written.items() if key not in wanted]
        return not any(value and value != "0s" for value in unset) and all(
            key in written and _is_written(value, written[key]) for key, value in wanted.items()
        )
    return not adapters.differs(wanted, written, 0, 0)


def _check_raw_allocatable(inputs: Any, expected: Any) -> str | None:
    """Compare annotations: the product ignores malformed and empty ones alike."""
    node = _decode(pods.Node, inputs["node"] or {})
    text = pods.annotation_map(node.metadata).get(names.ANNOTATION_RAW_ALLOCATABLE)
    came = pods.allocatable(pods.Node(metadata=node.metadata))
    wanted = pods.units({k: v for k, v in (expected.get("allocatable") or {}).items() if isinstance(v, str)})
    wanted |= {k: v for k, v in (expected.get("allocatable") or {}).items() if not isinstance(v, str)}
    has_no_error = expected.get("error", False) and not text
    return None if came == wanted and not has_no_error else f"expected {expected}\n    came {came}"


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


def _offset(moment: float | None) -> float | None:
    """Return a moment as cases state it: seconds relative to "now", to the microsecond."""
    return None if moment is None else round(moment - NOW, 6)


def _node_state(product: _Product, name: str, events: Any) -> Any:
    entry = product.cluster.entries.get(name)
    if entry is None:
        return None
    load, state = entry.load, pages.node_page(entry, product.resources)
    state["pods"] = {
        pod["uid"]: {
            "timestamp": _offset(pod["timestamp"]),
            "estimated": pod["estimated"],
            "estimatedDeadline": _offset(pod["estimatedDeadline"]),
            **_object_of(product, pod, events),
        }
        for pod in state["pods"]
    }
    aggregated = load.report.aggregated if load.report else {}
    state["aggregated"] = [
        {
            "type": statistic,
            "duration": times.format_duration(window // times.NANOS_PER_SECOND),
            "usage": pages.amounts(usage, product.resources),
        }
        for (statistic, window), usage in aggregated.items()
    ]
    state["aggregated"].sort(key=lambda each: (each["type"], each["duration"]))
    return state | {"updateTime": _offset(load.update_time), "hasNodeMetric": load.report is not None}


def _object_of(product: _Product, shown: Any, events: Any) -> Any:
    """Return the sizes of the newest object of a pod from which its record can be made: the product keeps no object."""
    policy = product.parts.estimator_args
    (record,) = [
        pod
        for entry in product.cluster.entries.values()
        for pod in entry.load.pods.values()
        if (pod.uid, pod.key.removeprefix("/")) == (shown["uid"], shown["pod"])
    ]
    for event in reversed(events):
        if (event.get("pod") or {}).get("metadata", {}).get("uid") == record.uid:
            pod = _pod(event["pod"])
            if pod_info.assigned(pod, policy, record.timestamp, observed=record.observed) == record:
                labels, conditions = event["pod"]["metadata"].get("labels"), pod.status.conditions
                return {"labels": len(labels or {}), "conditions": len(conditions or ())}
    return {}


def _check_assign_cache(inputs: Any, expected: Any) -> str | None:
    product = _Product(inputs)
    for event in inputs["events"]:
        product.play(event)
    for name, wanted in expected["nodes"].items():
        came = _node_state(product, name, inputs["events"])
        if wanted is None:
            if came:
                return f"{name}: expected nothing, came {came}"
        elif came is None or ("pods" in wanted and (wanted["pods"] or {}).keys() != came["pods"].keys()):
            return f"{name}: expected {wanted}, came {came}"
        elif text := _mismatch(wanted, came, name):
            return text
    return _mismatch_each(expected.get("lookups") or (), product.lookups, "lookups")


def _mismatch_each(expected: Any, came: Any, where: str) -> str | None:
    """Compare the stated keys of each entry of two lists."""
    if len(expected) != len(came):
        return f"{where}: expected {expected}, came {came}"
    pairs = enumerate(zip(expected, came, strict=True))
    return next((text for index, (a, b) in pairs if (text := _mismatch(a, b, f"{where}.{index}"))), None)


def _check_query_node(inputs: Any, expected: Any) -> str | None:
    product = _Product(inputs)
    for event in inputs["events"]:
        product.play(event)
    page = pages.node_page(product.cluster.entries.get(inputs["query"]), product.resources)
    wanted = expected["response"]
    if not wanted:
        return f"expected nothing, came {page}" if page else None
    listed = [pod | {"timestamp": _offset(pod["timestamp"])} for pod in page["pods"]]
    sums = {key: _units(value) for key, value in wanted.items() if key != "pods"}
    return _mismatch(sums, page) or _mismatch_each(
        [_queried_pod(pod) for pod in wanted.get("pods", [])], listed, "pods"
    )


def _units(value: Any) -> Any:
    """Read quantities; the page shows integers."""
    if isinstance(value, dict) and any(isinstance(amount, str) for amount in value.values()):
        return pods.units(value)
    return value


def _queried_pod(pod: Any) -> Any:
    identity = pod.get("pod", pod)
    if isinstance(identity, dict):
        metadata = identity.get("metadata", identity)
        identity = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
    return {"pod": identity} | ({"timestamp": pod["timestamp"]} if "timestamp" in pod else {})


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
    "priority_class": lambda inputs: {"priorityClass": priority_and_qos.priority_class(_pod(inputs["pod"])).value},
    "priority_class_raw": lambda inputs: {
        "priorityClass": priority_and_qos.class_of_priority(_pod(inputs["pod"]).spec.priority).value
    },
    "qos_class": lambda inputs: {"qosClass": priority_and_qos.qos_class(_pod(inputs["pod"])).value},
    "qos_class_raw": lambda inputs: {"qosClass": priority_and_qos.raw_qos_class(_pod(inputs["pod"])).value},
}

CHECKS = {
    "aggregated_usage": _check_aggregated_usage,
    "args_default": _check_defaults,
    "raw_allocatable": _check_raw_allocatable,
    "assign_cache": _check_assign_cache,
    "query_node": _check_query_node,
}
