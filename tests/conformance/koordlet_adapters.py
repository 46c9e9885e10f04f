"""Map the cases of Koordinator's agent and of its pod protocol to koordlet and api_types."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from api_types import names
from api_types.kubernetes import pods, times
from api_types.kubernetes import priority_and_qos as pq
from api_types.node_metric import types as node_metric
from koordlet.cluster import pods as pods_on_node
from koordlet.cluster import spec_in_force
from koordlet.collectors import node_usage, rates
from koordlet.collectors.cgroup import files as cgroup_files
from koordlet.metric_cache import aggregation
from koordlet.prediction import histogram_bank
from koordlet.prediction.histogram_bank import HistogramBank
from koordlet.report import sending, status
from koordlet.report.status import ReportedUsage
from koordlet.samples import UsageSample
from tests.conformance import adapters
from tests.fakes import apiserver
from tests.koordlet.prediction.linear_buckets import LinearBuckets

ROW = np.array([0])
_FAILURES = (sending.Outcome.CONFLICT, sending.Outcome.REFUSED, sending.Outcome.UNREACHABLE)


def _units(resources: Mapping[str, Any] | None) -> dict[str, int]:
    found = pods.units(dict(resources or {}))
    return {{"cpu": "cpu_milli", "memory": "memory_bytes"}.get(name, name): value for name, value in found.items()}


def _usage(cpu_cores: float, memory_bytes: float) -> dict[str, int]:
    return _units(status.usage(UsageSample(cpu_cores, memory_bytes)).resources)


# Samples and usages


def samples(given: Any) -> np.ndarray:
    if isinstance(given, str) and (bounds := re.match(r"integers (\d+)\.\.(\d+)\b", given)):
        return np.arange(int(bounds[1]), int(bounds[2]) + 1, dtype=float)
    return np.array(given, dtype=float)


def percentile_of_samples(case: Mapping[str, Any]) -> dict[str, Any]:
    try:
        values = samples(case["samples"])
    except ValueError:
        return {"error": True}
    if "percentile" not in case:
        names = {name: ratio for name, ratio in aggregation.PERCENTILES.items() if name != "max"}
        found = aggregation.percentiles(values, list(names.values()))
        return {str(name): float(value) for name, value in zip(names, found, strict=True)}
    try:
        value = float(aggregation.percentiles(values, [case["percentile"]])[0])
    except ValueError:
        return {"error": True}
    return {"error": True} if math.isnan(value) else {"error": False, "value": value}


def cold_start(case: Mapping[str, Any]) -> dict[str, Any]:
    return {"cold_start": aggregation.is_cold(case["sample_span_seconds"], case["window_seconds"])}


def _aggregated(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    given = case["aggregates_of_cpu_cores_and_memory_bytes"]
    windows = []
    for text in case["durations"]:
        seconds = _seconds(text)
        cold = aggregation.is_cold(case["sample_span_seconds"], seconds)
        windows.append((seconds, {name: None if cold else UsageSample(each, each) for name, each in given.items()}))
    return [
        {
            "duration": entry.duration,
            "usage": {
                name: {"resources": _units(usage.resources)} if usage.resources else {}
                for name, usage in (entry.usage or {}).items()
            },
        }
        for entry in status.aggregated(windows)
    ]


def _seconds(text: str) -> int:
    return round(times.duration_seconds(text))


def _collect_policy(case: Mapping[str, Any]) -> Any:
    return node_metric.NodeMetricSpec.model_validate(case["spec"] or {}).metric_collect_policy


def usage_of_node(case: Mapping[str, Any]) -> dict[str, Any]:
    return {"usage": _usage(case["avg_cpu_cores"], case["avg_memory_bytes"]), "span_seconds": case["span_seconds"]}


def pod_entry(case: Mapping[str, Any]) -> dict[str, Any]:
    pod = pod_of(case["pod"])
    return {
        "name": pod.metadata.name,
        "namespace": pod.metadata.namespace,
        "priority": pq.priority_class(pod),
        "qos": pq.qos_class(pod),
        "podUsage": {"resources": _usage(case["avg_cpu_cores"], case["avg_memory_bytes"])},
    }


def check_report_round(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Compare everything but `devices`: GPUs are not measured."""
    if "avg" not in case:
        sent = asyncio.run(_report_without_a_node_metric())
        came = {"status_update": sent.outcome is sending.Outcome.WRITTEN, "error": sent.outcome in _FAILURES}
        return None if expected.items() <= came.items() else f"expected {expected}, came {came}"
    usages = {name: UsageSample(**usage) for name, usage in case["avg"].items()}
    reported = []
    for name, sample in usages.items():
        if name.startswith("pod "):
            namespace, pod_name = name.removeprefix("pod ").split("/")
            pod = pods_on_node.describe(pod_of(case["pod"] | {"namespace": namespace, "name": pod_name}))
            reported.append((pod, sample))
    now = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    usage = ReportedUsage(usages.get("node"), usages.get("system"), pods=reported)
    built = status.build(now, 1, usage, bound=[pod for pod, _ in reported], predicted=None, conditions=[]).to_wire()
    came = {"status_update": True, "podsMetric": built.get("podsMetric", []), **built["nodeMetric"]}
    wrong = [
        f"{name}: expected {value}, came {came.get(name)}"
        for name, value in expected.items()
        if adapters.differs(_without_devices(value), in_case_units(came.get(name)), 0, 0)
    ]
    return "; ".join(wrong) or None


async def _report_without_a_node_metric() -> sending.Sent:
    """Report to an apiserver that does not have the NodeMetric."""
    async with apiserver.running() as server:
        path = f"/apis/{names.GROUP}/v1alpha1/{names.NODE_METRIC_PLURAL}/node/status"
        server.on("PUT", path, apiserver.status(404, "NotFound", name="node"))
        async with server.session() as api:
            return await sending.send(api, "node", node_metric.NodeMetricStatus(), "1")


def _without_devices(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_devices(each) for name, each in value.items() if name != "devices"}
    return [_without_devices(each) for each in value] if isinstance(value, list) else value


def in_case_units(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _units(each) if name == "resources" else in_case_units(each) for name, each in value.items()}
    return [in_case_units(each) for each in value] if isinstance(value, list) else value


def _in_force(spec: Mapping[str, Any] | None) -> list[Any]:
    policy = node_metric.NodeMetricSpec.model_validate(spec or {}).metric_collect_policy
    return [
        spec_in_force.report_interval_seconds(policy),
        spec_in_force.usage_window_seconds(policy),
        spec_in_force.aggregate_windows_seconds(policy),
    ]


def check_merged_spec(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Return the policy in force under the new spec; the product fills gaps with its defaults when it reads them."""
    came, wanted = _in_force(case["new_spec"]), _in_force(expected["spec"])
    return None if came == wanted else f"expected in force {wanted}, came {came}"


def _brings_other_defaults(case: Mapping[str, Any]) -> bool:
    return _in_force(case["input"]["old_spec"]) != _in_force(None)


# Files of the host


def _proc(**files: str) -> Any:
    folder = tempfile.TemporaryDirectory()
    for name, text in files.items():
        (Path(folder.name) / name).write_text(text)
    return folder


def cpu_ticks(case: Mapping[str, Any]) -> dict[str, Any]:
    files = {} if case.get("path") == "missing" else {"stat": case["first_cpu_line"] + "\n"}
    with _proc(**files) as folder:
        try:
            seconds = node_usage.busy_cpu_seconds(Path(folder))
        except node_usage.UnreadableProc:
            return {"error": True}
    return {"error": False, "ticks": round(seconds * 100)}


def node_memory(case: Mapping[str, Any]) -> dict[str, Any]:
    text = "".join(f"{name.removesuffix('_kB')}: {value} kB\n" for name, value in case.items())
    with _proc(meminfo=text + "Buffers: 0 kB\nCached: 0 kB\nShmem: 0 kB\nActive: 0 kB\nInactive: 0 kB\n") as folder:
        memory = node_usage.memory(Path(folder))
    return {
        "total_bytes": memory.total_bytes,
        "usage_bytes": memory.usage_bytes,
        "usage_with_page_cache_bytes": memory.usage_with_page_cache_bytes,
    }


def node_collector(case: Mapping[str, Any]) -> dict[str, Any]:
    tick_ns = case["jiffy_ms"] * 1_000_000
    used = (case["current_user_ticks"] - case["last_ticks"]) * tick_ns
    cores = rates.cores_between(used, round(case["last_age_seconds"] * 1_000_000_000), None)
    used = node_usage.NodeMemory(case["MemTotal_kB"] * 1024, case["MemAvailable_kB"] * 1024, 0).usage_bytes
    return {"cpu_cores": cores, "memory_bytes": used}


def _memory_stat(parse: Any) -> Any:
    def adapt(case: Mapping[str, Any]) -> dict[str, Any]:
        try:
            found = parse(case["content"].encode())
        except ValueError:
            return {"error": True}
        return {
            "error": False,
            "fields": found._asdict(),
            "usage_bytes_derived": found.usage_bytes,
            "usage_with_page_cache_bytes_derived": found.usage_with_page_cache_bytes,
        }

    return adapt


def _cpu_usage(parse: Any) -> Any:
    def adapt(case: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return {"error": False, "nanoseconds": parse(case["content"].encode())}
        except ValueError:
            return {"error": True}

    return adapt


def check_cpu_usage_v2(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    came = _cpu_usage(cgroup_files.cpu_nanoseconds_v2)(case)
    if expected["error"] != came["error"]:
        return f"expected {expected}, came {came}"
    wanted = [value for name, value in expected.items() if name != "error"]
    return None if not wanted or came["nanoseconds"] in wanted else f"expected {expected}, came {came}"


def _parts_of_system(case: Mapping[str, Any]) -> list[Any]:
    return [case.get("node"), *(case.get("pods_by_collector") or {}).values(), case.get("host_applications")]


def _is_of_several_times(case: Mapping[str, Any]) -> bool:
    parts = _parts_of_system(case["input"])
    return any(part is None or part["age_seconds"] > case["input"]["outdated_seconds"] for part in parts)


def system_collector(case: Mapping[str, Any]) -> dict[str, Any]:
    parts = _parts_of_system(case)
    node, *others = (UsageSample(part["cpu_cores"], part["memory_bytes"]) for part in parts)
    left = rates.system_usage(node, others)
    return {"sample": {"cpu_cores": left.cpu_cores, "memory_bytes": left.memory_bytes}}


# Histograms


def _buckets(options: Mapping[str, Any]) -> histogram_bank.ExponentialBuckets | LinearBuckets:
    if options.get("kind") == "linear" or "bucket_size" in options:
        return LinearBuckets(options["max_value"], options["bucket_size"], options["epsilon"])
    return histogram_bank.ExponentialBuckets(
        options["max_value"], options["first_bucket_size"], options["ratio"], options["epsilon"]
    )


def empty_bank(options: Mapping[str, Any]) -> HistogramBank:
    return HistogramBank(_buckets(options), options.get("half_life_seconds", math.inf))


def filled(options: Mapping[str, Any], samples: Sequence[Sequence[float]], start: float = 0.0) -> HistogramBank:
    bank = empty_bank(options)
    for value, weight, *offset in samples:
        bank.add(ROW, np.array([float(value)]), start + (offset[0] if offset else 0.0), float(weight))
    return bank


def _close(expected: float, actual: float, relative: float = 1e-12) -> bool:
    return math.isclose(expected, actual, rel_tol=relative, abs_tol=1e-15)


def check_options(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    try:
        made = _buckets(case)
    except ValueError as error:
        return None if expected.get("error") else str(error)
    if expected.get("error"):
        return "expected an error, came buckets"
    starts = {index: made.starts[int(index)] for index in expected.get("bucket_start", {})}
    wrong = [
        f"{name}: expected {want}, came {came}"
        for name, want, came in [
            ("num_buckets", expected.get("num_buckets", len(made.starts)), len(made.starts)),
            *((f"start of {index}", expected["bucket_start"][index], start) for index, start in starts.items()),
            *(
                (f"bucket of {value}", want, int(made.index_of(np.array([float(value)]))[0]))
                for value, want in expected.get("find_bucket", [])
            ),
        ]
        if not _close(want, came, 1e-9)
    ]
    return "; ".join(wrong) or None


def check_percentiles(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    rows = case.get("samples_value_weight") or case.get("samples_value_weight_offset_seconds") or []
    bank = filled(case["options"], rows, case.get("start_unix_seconds", 0.0))
    ratios = [ratio for ratio, _value in expected["percentiles"]]
    found = bank.percentiles(ROW, ratios)[0]
    # The product returns NaN for an empty histogram: "no prediction" instead of Koordinator's 0.
    wrong = [
        f"p{ratio}: expected {value}, came {came}"
        for (ratio, value), came in zip(expected["percentiles"], found, strict=True)
        if not _close(value, 0.0 if math.isnan(came) else came)
    ]
    return "; ".join(wrong) or None


def _check_default(made: histogram_bank.ExponentialBuckets | LinearBuckets, values: str) -> Any:
    def check(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
        bank = HistogramBank(made)
        for value, weight in zip(case[values], case["weights"], strict=True):
            bank.add(ROW, np.array([float(value)]), 0.0, float(weight))
        lowest, highest = bank.percentiles(ROW, (0.0, 1.0))[0]
        for name, came in (("p100", highest), ("p0", lowest)):
            want, relative = expected[f"{name}_within_relative"]
            if not math.isclose(want, came, rel_tol=relative):
                return f"{name}: expected {want} within {relative:.0%}, came {came}"
        return None

    return check


# Priority and QoS


def _amounts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a resource list; CPU in numbers is in milli-cores."""
    named = {"cpu_milli": "cpu", "memory_bytes": "memory"}
    amounts = {named.get(name, name): value for name, value in given.items()}
    return {name: f"{value}m" if (name, type(value)) == ("cpu", int) else value for name, value in amounts.items()}


def _container(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a container whose requests and limits are under `resources`, as in a manifest, or beside its name."""
    resources = given.get("resources") or given
    lists = {key: _amounts(resources[key] or {}) for key in ("requests", "limits") if key in resources}
    return {"name": given.get("name") or "", "resources": lists}


def pod_of(given: Mapping[str, Any]) -> pods.Pod:
    wire = {
        "metadata": {
            "name": given.get("name", ""),
            "namespace": given.get("namespace", ""),
            "labels": given.get("labels"),
        },
        "spec": {
            "containers": [_container(each) for each in given.get("containers") or ()],
            "priority": given.get("priority"),
        },
        "status": {"qosClass": given.get("kube_qos") or ""},
    }
    return msgspec.json.decode(msgspec.json.encode(wire), type=pods.Pod)


def request_in_own_tier(case: Mapping[str, Any]) -> dict[str, Any]:
    pod = pod_of(case["pod"])
    name = pq.translated_resource(pq.priority_class(pod), case["resource"])
    requested = pods.requests(pod.spec)
    return {"request": {name: requested[name]} if name in requested else {}}


ADAPTERS = {
    "request of a pod in its own tier": request_in_own_tier,
    "percentile of samples": percentile_of_samples,
    "aggregation cold start": cold_start,
    "aggregatedNodeUsages": lambda case: {"aggregatedNodeUsages": _aggregated(case)},
    "aggregatedSystemUsages": lambda case: {"aggregatedSystemUsages": _aggregated(case)},
    "report interval": lambda case: {"seconds": spec_in_force.report_interval_seconds(_collect_policy(case))},
    "aggregate window": lambda case: {"window_seconds": spec_in_force.usage_window_seconds(_collect_policy(case))},
    "node usage": usage_of_node,
    "system usage": usage_of_node,
    "podsMetric entry": pod_entry,
    "node cpu ticks from /proc/stat": cpu_ticks,
    "node memory usage from /proc/meminfo": node_memory,
    "node resource collector": node_collector,
    "memory.stat v1": _memory_stat(lambda text: cgroup_files.memory_stat(text, cgroup_files.CgroupVersion.V1)),
    "memory.stat v2": _memory_stat(lambda text: cgroup_files.memory_stat(text, cgroup_files.CgroupVersion.V2)),
    "system resource collector": system_collector,
    "priority class (raw)": lambda case: {"priority_class": pq.class_of_priority(pod_of(case["pod"]).spec.priority)},
    "priority class with default (cpu in milli)": lambda case: {
        "priority_class": pq.priority_class(pod_of(case["pod"]))
    },
    "qos class (raw)": lambda case: {"qos_class": pq.raw_qos_class(pod_of(case["pod"]))},
}
CHECKS = {
    "report round": check_report_round,
    "merge spec with defaults": check_merged_spec,
    "cpu usage v2": check_cpu_usage_v2,
    "ExponentialHistogramOptions": check_options,
    "Histogram.Percentile": check_percentiles,
    "DecayingHistogram.Percentile": check_percentiles,
    "defaultCPUHistogram percentile bounds": _check_default(histogram_bank.CPU_CORES, "samples_cores"),
    "defaultMemoryHistogram percentile bounds": _check_default(histogram_bank.MEMORY_BYTES, "samples_bytes"),
}
_ABOUT_A_POD = (
    "priority class (raw)", "priority class with default (cpu in milli)",
    "qos class (raw)",
)  # fmt: skip
_NO_POD = "decision 23: a function about a pod gets a pod, so nothing is answered about one that is absent"
DIFFERENT_ON_PURPOSE = [
    *((function, lambda case: case["input"]["pod"] is None, _NO_POD) for function in _ABOUT_A_POD),
    (
        "system resource collector",
        _is_of_several_times,
        "all parts are measured in one snapshot, so none is older or missing; host applications are part of the system",
    ),
    (
        "merge spec with defaults",
        _brings_other_defaults,
        "the agent has one set of defaults, the published ones, and keeps no merged copy",
    ),
    (
        "node usage",
        lambda case: case["input"]["memory_collect_policy"] == "usageWithHotPageCache",
        "hot pages are not measured: usage is without page cache",
    ),
    (
        "defaultMemoryHistogram percentile bounds",
        lambda case: min(case["input"]["samples_bytes"]) < 20 * 2**20,
        "the first memory bucket is 1 MiB, not 5 MiB, so values are near the upper end of other buckets",
    ),
    (
        "defaultCPUHistogram percentile bounds",
        lambda case: min(case["input"]["samples_cores"]) < 0.02,
        "the first CPU bucket is 0.001 core, not 0.025",
    ),
]
