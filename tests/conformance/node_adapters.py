"""Map the cases of the node itself to koordlet and api_types: NUMA nodes and reservations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from api_types.colocation import node_reservation
from api_types.kubernetes import quantities
from koordlet.collectors import numa
from koordlet.report import status
from koordlet.samples import NumaSample, UsageSample
from tests.conformance import adapters, koordlet_adapters


def _by_number(given: Mapping[str, Any] | None) -> dict[int, Any]:
    return {int(number): value for number, value in (given or {}).items()}


def _by_name(found: Mapping[int, Any]) -> dict[str, Any]:
    return {str(number): value for number, value in found.items()}


def numa_memory(case: Mapping[str, Any]) -> dict[str, Any]:
    used = {}
    for node in case["numa"]:
        sizes = {name.removesuffix("_kB"): value for name, value in node.items() if name.endswith("_kB")}
        text = "".join(f"Node {node['id']} {name}: {value} kB\n" for name, value in sizes.items())
        used[node["id"]] = numa.used_bytes(text.encode())
    return {"usage_bytes": _by_name(used)}


def check_numa_cpu(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Check ticks through the text of /proc/stat; the tolerance of the case is in words."""
    texts = [
        "".join(f"cpu{cpu} {ticks} 0 0 0 0 0 0 0 0 0\n" for cpu, ticks in counted.items())
        for counted in (dict.fromkeys(case["delta_ticks_per_cpu"], 0), case["delta_ticks_per_cpu"])
    ]
    before, now = (
        numa.CpuTimes(
            {cpu: ticks * case["jiffy_ms"] * 1_000_000 for cpu, ticks in numa.busy_ticks(text.encode()).items()},
            round(at_seconds * 1e9),
        )
        for text, at_seconds in zip(texts, (0, case["elapsed_seconds"]), strict=True)
    )
    cpus: dict[int, list[int]] = {}
    for cpu, node in _by_number(case["cpu_to_numa"]).items():
        cpus.setdefault(node, []).append(cpu)
    came = _by_name(numa.cpu_cores(before, now, cpus))
    tolerance = float(str(expected.get("tolerance", "0")).split()[-1])
    wanted = expected["cpu_cores"] or {}
    return f"expected {wanted}, came {came}" if adapters.differs(wanted, came, tolerance, 0) else None


def system_numa(case: Mapping[str, Any]) -> dict[str, Any]:
    pods_memory = case.get("pods_numa_memory_bytes")
    return {
        "cpu_cores": _by_name(numa.system_cpu_cores(case["system_cpu_cores"], _by_number(case["node_numa_cpu_cores"]))),
        "memory_bytes": _by_name(
            numa.system_memory_bytes(
                _by_number(case["node_numa_memory_bytes"]), None if pods_memory is None else _by_number(pods_memory)
            )
        ),
    }


def numa_usages(case: Mapping[str, Any]) -> dict[str, Any]:
    if case.get("numa_info", case) is None:
        case = {"node": None, "system": None}
    system = {number: UsageSample(**usage) for number, usage in (case["system"] or {}).items()}
    means = {
        int(number): NumaSample(UsageSample(**usage), system.get(number))
        for number, usage in (case["node"] or {}).items()
    }
    wire = [usage.to_wire() for usage in status.numa_usages(means)]
    return {"numaUsages": koordlet_adapters.in_case_units(wire) or None}


def check_reservation(case: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    annotations = {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in (case["annotation"] or {}).items()
    }
    wanted = {name: quantities.resource_units(name, value) for name, value in (expected["reserved"] or {}).items()}
    came = node_reservation.annotated(annotations).resources
    return None if came == wanted else f"expected {wanted}, came {came}"


def _went_back(case: Mapping[str, Any]) -> bool:
    return any(ticks < 0 for ticks in case["input"]["delta_ticks_per_cpu"].values())


def _is_beyond_a_cpu(case: Mapping[str, Any]) -> bool:
    given = case["input"]
    most_ticks = 2 * given["elapsed_seconds"] * 1000 / given["jiffy_ms"]
    return any(ticks > most_ticks > 0 for ticks in given["delta_ticks_per_cpu"].values())


ADAPTERS = {
    "NUMA memory usage": numa_memory,
    "system NUMA collector": system_numa,
    "numaUsages": numa_usages,
}
CHECKS = {
    "NUMA cpu usage": check_numa_cpu,
    "node reservation from annotation": check_reservation,
}
DIFFERENT_ON_PURPOSE = [
    ("NUMA cpu usage", _went_back, "a counter that decreases yields no sample of its whole NUMA node"),
    ("NUMA cpu usage", _is_beyond_a_cpu, "an impossible value is no data: a CPU has one second of time in a second"),
]
