"""Map the cases of Koordinator's manager to api_types and manager."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from api_types import names
from api_types.colocation import advice, node_reservation
from api_types.colocation import controller_config as slo
from api_types.colocation import document as colocation_document
from api_types.colocation import selector as node_selector
from api_types.colocation.problem import refuses
from api_types.colocation.selector import NodeSelector
from api_types.kubernetes import pods, times
from api_types.node_metric import mid_report
from manager.cache import store
from manager.mid_resource import decision, formula, patch, target
from manager.mid_resource.decision import Action
from manager.mid_resource.eviction import shortage
from manager.mid_resource.reasons import Reason
from manager.node_metric import spec as collect_policy
from manager.slo_config import evaluation, strategy

NOW = dt.datetime(2026, 11, 21, 12, 0, 0, tzinfo=dt.UTC)
MID_OF_BATCH = {names.BATCH_CPU: names.MID_CPU, names.BATCH_MEMORY: names.MID_MEMORY}
UPSTREAM_KEYS = {
    "enable", "metricAggregateDurationSeconds", "metricReportIntervalSeconds", "metricAggregatePolicy",
    "metricMemoryCollectPolicy", "cpuReclaimThresholdPercent", "memoryReclaimThresholdPercent", "cpuCalculatePolicy",
    "memoryCalculatePolicy", "degradeTimeMinutes", "updateTimeThresholdSeconds", "resourceDiffThreshold",
    "midReclaimMode", "midCPUThresholdPercent", "midMemoryThresholdPercent", "midUnallocatedPercent",
    "midStaticCPUReservedPercent", "midStaticMemoryReservedPercent", "batchCPUThresholdPercent",
    "batchMemoryThresholdPercent", "extensions",
}  # fmt: skip


# Strategies


def _document(config: Any) -> slo.ColocationConfig:
    found = colocation_document.read_config(json.dumps(config))
    assert found.config is not None, found.problems
    return found.config


def labels_of(node: Mapping[str, Any]) -> dict[str, str]:
    return node.get("labels") or {}


def annotations_of(node: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: text if isinstance(text, str) else json.dumps(text)
        for key, text in (node.get("annotations") or {}).items()
    }


def node_strategy(case: Mapping[str, Any]) -> dict[str, Any]:
    if case["config"] is None or case["node"] is None:
        return {"strategy": None}
    configured = strategy.configuration(_document(case["config"]))
    layers = strategy.node_strategy(configured, labels_of(case["node"]), annotations_of(case["node"])).layers[1:]
    return {"strategy": slo.merge(*(layer.strategy for layer in layers)).to_wire()}


def updated_strategy(case: Mapping[str, Any]) -> dict[str, Any]:
    if "label_value" in case:
        return {"percent": strategy.percent_of_ratio(case["label_value"])}
    node = case.get("node") or {}
    configured = strategy.configuration(_document(case["strategy"]))
    layers = strategy.node_strategy(configured, labels_of(node), annotations_of(node)).layers[1:]  # without defaults
    return {"strategy": _upstream(slo.merge(*(layer.strategy for layer in layers)).to_wire())}


def annotation_strategy(case: Mapping[str, Any]) -> dict[str, Any]:
    text = annotations_of(case).get(names.ANNOTATION_COLOCATION_STRATEGY)
    if text is None:
        return {"strategy": None, "error": False}
    found, _ = colocation_document.read_strategy(text)
    return {"strategy": found.to_wire() if found else None, "error": found is None}


def is_valid(case: Mapping[str, Any]) -> dict[str, Any]:
    found, _ = colocation_document.read_strategy(json.dumps(case["strategy"]))
    return {"valid": found is not None}


def merge_objects(case: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"merged": slo.merge_objects(case["old"], case["new"]), "error": False}
    except TypeError:
        return {"error": True}


# The document


def _upstream(wire: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in wire.items() if key in UPSTREAM_KEYS}


def _as_upstream_keeps_it(configured: strategy.Configuration) -> dict[str, Any]:
    """Return the document as Koordinator keeps it: entries merged with the cluster strategy, empty values dropped."""
    entries = [
        ({"name": entry.name} if entry.name else {})
        | ({"nodeSelector": entry.selector.to_wire()} if entry.selector else {})
        | _upstream(entry.strategy.to_wire())
        for entry in configured.entries
    ]
    return _upstream(configured.cluster.to_wire()) | ({"nodeConfigs": entries} if entries else {})


def _cached(config: Mapping[str, Any]) -> strategy.Configuration:
    """Return what Koordinator keeps, with the keys of this project at their defaults."""
    document = _document(config)
    own = {key: value for key, value in slo.DEFAULTS.to_wire().items() if key not in UPSTREAM_KEYS}
    below = slo.ColocationStrategy.model_validate(own)
    entries = tuple(
        strategy.Entry(entry.name or "", entry.node_selector, slo.merge(below, entry))
        for entry in document.node_configs or ()
    )
    return strategy.Configuration(slo.merge(below, document), entries, document)


def _synced(in_force: strategy.Configuration | None, data: Mapping[str, str] | None) -> evaluation.ConfigOutcome:
    return evaluation.evaluate(in_force, data, exists=data is not None)


def sync_config(case: Mapping[str, Any]) -> dict[str, Any]:
    cache = case["cache"] or {"config": {}, "available": False}
    outcome = _synced(_cached(cache["config"] or {}), case["configmap_data"])
    assert outcome.configuration is not None
    return {
        "changed": outcome.changed,
        "config": _as_upstream_keeps_it(outcome.configuration),
        "available": outcome.state is not evaluation.State.REFUSED or bool(cache["available"]),
        "error_status": outcome.state not in (evaluation.State.APPLIED, evaluation.State.KEY_ABSENT),
    }


def availability(case: Mapping[str, Any]) -> dict[str, Any]:
    cached = _cached(case["cache_config"]) if case.get("cache_config") else None
    if case["cache_available"]:  # the manager reads the ConfigMap once, and then follows its watch
        kept = cached or strategy.configuration(slo.ColocationConfig())
        return {"available": True, "config": _as_upstream_keeps_it(kept), "config_unchanged": True}
    outcome = _synced(cached, case["configmap_data"])
    if outcome.configuration is None:
        return {"available": False, "config": None}
    available = outcome.state is not evaluation.State.REFUSED
    return {
        "available": available,
        "config": _as_upstream_keeps_it(outcome.configuration),
        "config_unchanged": outcome.configuration == cached,
    }


def parameter_check(case: Mapping[str, Any]) -> dict[str, Any]:
    found = colocation_document.read_config(json.dumps(case["config"]))
    if found.config is None or refuses(found.problems):
        return {"error": True}
    layers = [found.config, *(found.config.node_configs or ())]
    return {"error": any(list(advice.strategy_advice(layer)) for layer in layers)}


def _selectors(case: Mapping[str, Any]) -> list[NodeSelector]:
    return [NodeSelector.model_validate(each) for each in case["selectors"] or ()]


def selector_required(case: Mapping[str, Any]) -> dict[str, Any]:
    config = _document({"nodeConfigs": case["nodeConfigs"]})
    return {"error": any(advice.selector_advice(config))}


def is_entry_valid(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether an entry has no problem, whatever its name, with colocation on in the cluster."""
    entry = case["nodeConfig"] and {**case["nodeConfig"], "name": "given"}
    found = colocation_document.read_config(json.dumps({"enable": True, "nodeConfigs": [entry]}))
    return {"valid": not found.problems}


def name_check(case: Mapping[str, Any]) -> dict[str, Any]:
    config = _document({"nodeConfigs": [{"name": name} for name in case["names"] or ()]})
    return {"error": any(advice.name_advice(config))}


# NodeMetric


def check_collect_policy(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    found, _ = colocation_document.read_strategy(json.dumps(case["strategy"]))
    try:
        came = collect_policy.collect_policy(found).to_wire() if found else None
    except collect_policy.ColocationDisabled:
        came = None
    wanted = [value for value in expected.values() if isinstance(value, Mapping)]
    fits = (came is None) == bool(expected["error"]) and (not wanted or came is None or came in wanted)
    return None if fits else f"expected {expected}, came {came}"


def node_metric_spec(case: Mapping[str, Any]) -> dict[str, Any]:
    if case["node"] is None:
        return {"spec": None, "error": True}  # a NodeMetric is planned for a Node
    outcome = _synced(None, case["configmap_data"])
    if outcome.configuration is None:
        spec = case["old_spec"] or collect_policy.DEFAULT_SPEC
    else:
        found = strategy.Strategies(outcome.configuration).merged(labels_of(case["node"]), annotations_of(case["node"]))
        spec = collect_policy.for_node(found).to_wire()
    return {"spec": {"metricCollectPolicy": spec["metricCollectPolicy"]}, "error": False}


def node_metric_reconcile(case: Mapping[str, Any]) -> dict[str, Any]:
    if "steps" not in case:
        plan, spec, _ = _reconciled(case, None, None)
        action = "delete NodeMetric" if plan.action is collect_policy.MetricAction.DELETE else plan.action.value
        return {"action": action, "spec": spec, "error": False, "requeue": False}
    specs: list[Any] = []
    configuration = None
    state = dict(case["steps"][0])
    for step in case["steps"]:
        state |= step
        _, spec, configuration = _reconciled(state, configuration, specs[-1] if specs else None)
        specs.append(spec)
        state["nodemetric_exists"] = spec is not None
    return {"spec_after_each_step": specs, "error": False}


def _reconciled(
    case: Mapping[str, Any], in_force: strategy.Configuration | None, before: Any
) -> tuple[collect_policy.MetricChange, Any, strategy.Configuration | None]:
    """Return the plan, the policy of the spec after it, and the configuration in force."""
    outcome = _synced(in_force, case.get("configmap_data"))
    wanted = None
    if outcome.configuration is not None:
        holds = strategy.Strategies(outcome.configuration).merged({}, {})
        wanted = collect_policy.for_node(holds).to_wire()
    node = pods.Node(metadata=pods.ObjectMeta(name="node", uid="1")) if case["node_exists"] else None
    old = case.get("old_spec") if before is None else before
    metric = store.StoredNodeMetric(spec=old) if case["nodemetric_exists"] else None
    plan = collect_policy.plan(node, metric, wanted)
    spec = None if plan.action is collect_policy.MetricAction.DELETE else {**(old or {}), **plan.body.get("spec", {})}
    policy = {"metricCollectPolicy": spec["metricCollectPolicy"]} if spec else None
    return plan, policy, outcome.configuration


# Mid resources


def _resource_list(given: Mapping[str, int]) -> dict[str, str]:
    return {"cpu": f"{given['cpu_milli']}m", "memory": str(given["memory_bytes"])}


def _node(given: Mapping[str, Any]) -> pods.Node:
    return pods.Node(
        metadata=pods.ObjectMeta(name="node", labels=labels_of(given), annotations=annotations_of(given)),
        status=pods.NodeStatus(
            capacity=_resource_list(given["capacity"]), allocatable=_resource_list(given["allocatable"])
        ),
    )


def pod_of(given: Mapping[str, Any]) -> pods.Pod:
    labels = {names.LABEL_QOS: given["qosClass"]} if given.get("qosClass") else {}
    requests = {**_resource_list(given.get("requests") or {"cpu_milli": 0, "memory_bytes": 0})}
    requests |= given.get("requests_extended") or {}
    wire = {
        "metadata": {"name": given.get("name", ""), "labels": labels},
        "spec": {"priority": given.get("priority"), "containers": [{"resources": {"requests": requests}}]},
        "status": {"phase": given.get("phase", "Running"), "startTime": "2026-01-01T00:00:00Z"},
    }
    return msgspec.convert(wire, type=pods.Pod)


def _metric(given: Mapping[str, Any] | None) -> store.StoredNodeMetric | None:
    if given is None:
        return None
    status: dict[str, Any] = {}
    if given.get("update_age_seconds") is not None:
        status["updateTime"] = (NOW - dt.timedelta(seconds=given["update_age_seconds"])).isoformat()
    if given.get("prodReclaimable"):
        status["prodReclaimableMetric"] = {"resource": {"resources": _resource_list(given["prodReclaimable"])}}
    if given.get("nodeUsage"):
        status["nodeMetric"] = {"nodeUsage": {"resources": _resource_list(given["nodeUsage"])}}
    return msgspec.convert({"status": status}, type=store.StoredNodeMetric)


def target_of(case: Mapping[str, Any]) -> formula.Target:
    if any(case.get(key) is None for key in ("strategy", "node", "nodeMetric")):
        return formula.withdrawn(None, Reason.NODE_METRIC_MISSING)  # none of the three is invented
    configured = strategy.configuration(_document(case["strategy"]))
    node, metric = _node(case["node"]), _metric(case["nodeMetric"])
    holds = strategy.node_strategy(configured, labels_of(case["node"]), annotations_of(case["node"]))
    policy = mid_report.mid_policy(holds.strategy)
    known = decision.gather(store.with_mid_status(node), metric, policy, enabled=True)
    decided = decision.decide(known, NOW)
    if decided.action is not Action.CALCULATE or metric is None or metric.status is None:
        return formula.withdrawn(None, decided.reason)
    bound = target.summed(pod_of(each) for each in case["pods"] or ()).requests()
    terms = mid_report.terms(
        mid_report.usable_report(metric.status, policy),
        policy,
        node_reservation.allocatable(node).resources,
        pods.units(node.status.capacity),
        bound,
    )
    increase = holds.strategy.mid_max_increase_percent or 100
    return formula.calculated(terms, formula.PublishedMid({}, {}), increase, same_sample=False)


def check_calculate(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    came = target_of(case).values
    wrong = [
        f"{mid}: expected {expected[mid]}, came {came[mid]}"
        for mid in names.MID_RESOURCES
        if mid in expected and expected[mid] != came[mid]
    ]
    if not any(mid in expected for mid in names.MID_RESOURCES) and any(value is not None for value in came.values()):
        wrong.append(f"expected no value, came {came}")
    if expected.get("error") and any(value is not None for value in came.values()):
        wrong.append(f"expected an error, came {came}")
    return "; ".join(wrong) or None


def is_degraded(case: Mapping[str, Any]) -> dict[str, Any]:
    metric = _metric(case["nodeMetric"])
    sample = times.parse_rfc3339_or_none(metric.status.update_time if metric and metric.status else None)
    return {"degrade": decision.is_degraded(sample, dt.timedelta(minutes=case["degradeTimeMinutes"]), NOW)}


def _mid_names(given: Mapping[str, Any] | None) -> dict[str, Any]:
    return {MID_OF_BATCH.get(name, name): value for name, value in (given or {}).items()}


def needs_sync(case: Mapping[str, Any]) -> dict[str, Any]:
    old, new = case["old_allocatable"] or {}, case["new_allocatable"] or {}
    reason = patch.needs_sync(old, new, case["resourceDiffThreshold"])
    return {"need_sync": reason is not None, "message": bool(reason)}


def check_needs_sync(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Compare the decision, and whether it has a reason: its text is this project's."""
    came = needs_sync(case)
    wanted = {name: bool(value) for name, value in expected.items()}
    return None if wanted.items() <= came.items() else f"expected {expected}, came {came}"


def update_needed(case: Mapping[str, Any]) -> dict[str, Any]:
    age = case["last_update_age_seconds"]
    written = None if age is None else patch.make_status(Reason.CALCULATED, NOW - dt.timedelta(seconds=age))
    old = _mid_names(case["old_allocatable"])
    reason = patch.patch_reason(
        formula.Target(_mid_names(case["new_allocatable"]), Reason.CALCULATED),
        Action.CALCULATE,
        formula.PublishedMid(old, old),
        written,
        threshold=case["resourceDiffThreshold"],
        refresh_period=dt.timedelta(seconds=case["updateTimeThresholdSeconds"]),
        now=NOW,
    )
    return {"sync_status": reason is not None, "sync_meta": False}


def _patched(before: Mapping[str, Any], target: formula.Target) -> dict[str, dict[str, Any]]:
    """Return both resource lists after the merge patch (RFC 7386)."""
    status = patch.node_patch(pods.Node(), target, patch.make_status(target.reason, NOW))["status"]
    result = {}
    for where in ("capacity", "allocatable"):
        merged = {**before, **{name: value and int(value) for name, value in status[where].items()}}
        result[where] = {name: value for name, value in merged.items() if value is not None}
    return result


def prepare(case: Mapping[str, Any]) -> dict[str, Any]:
    values = {mid: (case["calculated"] or {}).get(mid) for mid in names.MID_RESOURCES}
    batch = dict.fromkeys(MID_OF_BATCH, 1)
    after = _patched({**(case["node_mid_before"] or {}), **batch}, formula.Target(values, Reason.CALCULATED))
    mids = [{name: value for name, value in each.items() if name not in batch} for each in after.values()]
    untouched = all(each.items() >= batch.items() for each in after.values())
    return {"error": False, "capacity_mid": mids[0], "allocatable_mid": mids[1], "batch_untouched": untouched}


def check_reset(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    came = {name: value is None for name, value in formula.withdrawn(None, Reason.COLOCATION_DISABLED).values.items()}
    wanted = {item["name"]: item["reset"] for item in expected["items"]}
    return None if came == wanted else f"expected {wanted}, came {came}"


def status_on_reset(case: Mapping[str, Any]) -> dict[str, Any]:
    target = formula.withdrawn(None, Reason.COLOCATION_DISABLED)
    return {**_patched(_mid_names(case["old"]), target), "error": False}


def resource_diff(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether a resource is written; one that is on one side only is, which needs_sync decides."""
    old, new = ({names.MID_CPU: value} for value in (case["old"], case["new"]))
    return {"diff": patch.needs_sync(old, new, case["threshold"]) is not None}


def is_disabled(case: Mapping[str, Any]) -> dict[str, Any]:
    configured = strategy.configuration(_document(case["config"] or {}))
    node = case["node"] or {}
    return {"disabled": not strategy.node_strategy(configured, labels_of(node), annotations_of(node)).enabled}


def memory_to_release(case: Mapping[str, Any]) -> dict[str, Any]:
    threshold, lower = case["memoryEvictThresholdPercent"], case["memoryEvictLowerPercent"]
    return {"release_bytes": shortage.memory_to_release(case["capacity_bytes"], case["used_bytes"], threshold, lower)}


ADAPTERS = {
    "memory usage eviction: bytes to release": memory_to_release,
    "GetNodeColocationStrategy": node_strategy,
    "GetColocationStrategyOnNode": annotation_strategy,
    "UpdateColocationStrategyForNode": updated_strategy,
    "IsColocationStrategyValid": is_valid,
    "MergeCfg": merge_objects,
    "sync colocation config": sync_config,
    "config availability": availability,
    "colocation config webhook parameter check": parameter_check,
    "node selector overlap": lambda case: {"overlap": bool(node_selector.overlapping(_selectors(case)))},
    "node conflict": lambda case: {
        "conflict": len(node_selector.matching(_selectors(case), labels_of({"labels": case["node_labels"]}))) > 1
    },
    "node selector required": selector_required,
    "node config name check (flag on)": name_check,
    "IsNodeColocationCfgValid": is_entry_valid,
    "NodeMetric spec": node_metric_spec,
    "NodeMetric reconcile": node_metric_reconcile,
    "midresource isDegradeNeeded": is_degraded,
    "midresource Prepare": prepare,
    "node update needed": update_needed,
    "node status update on reset": status_on_reset,
    "colocation disabled": is_disabled,
    "IsResourceDiff": resource_diff,
}
CHECKS = {
    "collect policy from strategy": check_collect_policy,
    "midresource Calculate": check_calculate,
    "node resource calculation (mid part)": check_calculate,
    "midresource Reset": check_reset,
    "midresource NeedSync": check_needs_sync,
}
