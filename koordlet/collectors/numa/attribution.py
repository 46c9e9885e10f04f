"""CPU and memory of NUMA nodes, and the system's share of each, from the readings of one instant.

```
cpu(i)            = sum of the rates of the CPUs of node i
system cpu(i)     = system cpu * cpu(i) / sum of cpu(j) over all nodes j        0 where nothing ran
system memory(i)  = max(memory(i) - memory of all pods on node i, 0)
```

The kernel does not record the node on which a pod's CPU time was spent, so the system's CPU is split in proportion to
the CPU of the nodes. A node without valid counters is omitted. If any node or pod could not be read, the system's share
is omitted for all nodes. The formulas are those of Koordinator's agent.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from koordlet.collectors import rates as counter_rates
from koordlet.collectors.rates import CpuReading, NoRate
from koordlet.samples import NumaSample, UsageSample


class CpuTimes(NamedTuple):
    """CPU time that every CPU has worked since boot, at one instant."""

    nanoseconds: Mapping[int, int]
    """By number of the CPU; offline CPUs are missing."""
    at_nanoseconds: int
    """Monotonic time of the read."""


@dataclass(frozen=True, slots=True)
class NumaMeasurement:
    """Result of one reading; nodes without a value are missing."""

    cpu_cores: Mapping[int, float] = field(default_factory=dict)
    memory_bytes: Mapping[int, int] = field(default_factory=dict)
    pods_memory_bytes: Mapping[int, int] | None = None
    """Sum over all pods; None when a pod could not be read."""
    nodes: Collection[int] = ()
    """All nodes of the machine."""


def cpu_cores(before: CpuTimes | None, now: CpuTimes, cpus_of_node: Mapping[int, Collection[int]]) -> dict[int, float]:
    """Return the mean number of cores in use on each node between two readings.

    A node is missing if one of its CPUs came online since, or its counter went back. A node without CPUs uses 0.
    """
    if before is None or now.at_nanoseconds <= before.at_nanoseconds:
        return {}
    cores = {}
    for node, cpus in cpus_of_node.items():
        rates = [_rate(before, now, cpu) for cpu in cpus]
        valid_rates = [rate for rate in rates if not isinstance(rate, NoRate)]
        if len(valid_rates) == len(rates):
            cores[node] = math.fsum(valid_rates)
    return cores


def _rate(before: CpuTimes, now: CpuTimes, cpu: int) -> float | NoRate:
    if cpu not in before.nanoseconds or cpu not in now.nanoseconds:
        return NoRate.FIRST_READING
    return counter_rates.cpu_cores(
        CpuReading(cpu, before.nanoseconds[cpu], before.at_nanoseconds),
        CpuReading(cpu, now.nanoseconds[cpu], now.at_nanoseconds),
        1,
    )


def system_cpu_cores(system_cpu_cores: float, cpu_cores_of_node: Mapping[int, float]) -> dict[int, float]:
    """Split the system's CPU in proportion to the CPU of all nodes."""
    total = math.fsum(cpu_cores_of_node.values())
    return {node: system_cpu_cores * used / total if total else 0.0 for node, used in cpu_cores_of_node.items()}


def system_memory_bytes(
    memory_bytes_of_node: Mapping[int, int], pods_memory_bytes: Mapping[int, int] | None
) -> dict[int, int]:
    """Return the memory of each node less that of its pods; nothing where the pods' memory is unknown."""
    if pods_memory_bytes is None:
        return {}
    return {node: max(used - pods_memory_bytes.get(node, 0), 0) for node, used in memory_bytes_of_node.items()}


def samples(measured: NumaMeasurement, system: UsageSample | None) -> dict[int, NumaSample]:
    """Return both resources of each node or neither, and both of its system share or neither.

    `system` is the usage of the system on the whole machine at the same instant, None while unknown.
    """
    system_cpu, system_memory = {}, {}
    if system is not None and measured.cpu_cores.keys() == set(measured.nodes):
        system_cpu = system_cpu_cores(system.cpu_cores, measured.cpu_cores)
        system_memory = system_memory_bytes(measured.memory_bytes, measured.pods_memory_bytes)
    return {
        node: NumaSample(
            node=UsageSample(measured.cpu_cores[node], float(measured.memory_bytes[node])),
            system=UsageSample(system_cpu[node], float(system_memory[node])) if node in system_memory else None,
        )
        for node in sorted(measured.cpu_cores.keys() & measured.memory_bytes.keys())
    }
