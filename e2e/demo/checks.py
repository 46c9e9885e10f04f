"""What the demo checks before it prints a fact. Pure: objects of the apiserver in, facts out.

A check returns what it found, or raises console.NotYet with what it saw instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from e2e.demo.console import NotYet
from e2e.support.names import MID_CPU, MID_MEMORY

MIB = 1 << 20
BUSY_PERCENT = 50
"""CPU usage from which the machine counts as busy: with the demo's own pods it may exceed the scheduler's threshold."""
_SCALE = {"k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_HEAD = ("time", "sample", "status", "reason", "text", "message", "detail", "requestsFrom")


class Amount(NamedTuple):
    """CPU in milli-cores and memory in bytes."""

    cpu_millis: int
    memory_bytes: int

    @classmethod
    def of(cls, resources: Mapping[str, Any]) -> Amount:
        """Return the amount in a native resource list; a missing resource is 0."""
        return cls(cpu_millis(resources.get("cpu", "0")), units(resources.get("memory", "0")))


def units(text: str | int) -> int:
    """Return the whole units of a quantity such as 7Gi. Raises ValueError."""
    value = str(text)
    for suffix, factor in _SCALE.items():
        if value.endswith(suffix) and value.removesuffix(suffix).isdigit():
            return int(value.removesuffix(suffix)) * factor
    return int(value)


def cpu_millis(text: str | int) -> int:
    """Return the milli-cores of a CPU quantity such as 250m or 2. Raises ValueError."""
    value = str(text)
    return int(value.removesuffix("m")) if value.endswith("m") else int(float(value) * 1000)


def node_usage(report: Mapping[str, Any]) -> Amount:
    """Return the usage of the node in a NodeMetric's status."""
    usage = report.get("nodeMetric", {}).get("nodeUsage", {}).get("resources")
    if not usage:
        raise NotYet("no usage is reported")
    return Amount.of(usage)


def percent(used: int, total: int) -> int:
    """Return a share in percent, rounded down."""
    return used * 100 // max(total, 1)


def shop_request(allocatable: Amount, requested: Amount, used: Amount) -> Amount:
    """Return the request of shop: more than half of the node, so that it exceeds what the whole node is using.

    Memory exceeds the node's usage by a quarter and 1 GiB where the node has room; a tenth of the node stays free.
    """
    room = Amount(*(total * 9 // 10 - taken for total, taken in zip(allocatable, requested, strict=True)))
    memory = max(allocatable.memory_bytes // 2, used.memory_bytes * 5 // 4 + 1024 * MIB)
    return Amount(
        max(min(allocatable.cpu_millis * 55 // 100, room.cpu_millis), 100),
        max(min(memory, room.memory_bytes), 256 * MIB) // MIB * MIB,
    )


def warm_shop(report: Mapping[str, Any], request: Amount) -> Mapping[str, Any]:
    """Return the report when it shows the usage of shop and no cold pod can be shop.

    The requests of all cold pods together are in `prediction.prod.coldRequests`: below shop's request, shop is warm.
    """
    prediction = report.get("prediction")
    if not prediction:
        raise NotYet("no prediction is reported")
    shop = [pod for pod in report.get("podsMetric") or () if pod["name"].startswith("shop-")]
    if not shop:
        raise NotYet("the report has no usage of shop")
    if not prediction.get("warmPods"):
        raise NotYet(f"no pod is warm, {prediction.get('coldPods', 0)} are cold")
    cold = Amount.of(prediction.get("prod", {}).get("coldRequests") or {})
    if prediction.get("coldPods") and (
        cold.cpu_millis >= request.cpu_millis or cold.memory_bytes >= request.memory_bytes
    ):
        raise NotYet(f"{prediction['coldPods']} pods are cold, with requests of {cold.cpu_millis}m CPU")
    return report


def shop_usage(report: Mapping[str, Any]) -> Amount:
    """Return the usage of shop in a report."""
    return Amount.of(
        next(pod for pod in report["podsMetric"] if pod["name"].startswith("shop-"))["podUsage"]["resources"]
    )


def predicted_mid(status: Mapping[str, Any] | None, since: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the terms of each Mid resource once they come from a peak that was sampled after `since`."""
    if not status:
        raise NotYet("the node has no status annotation")
    terms = status.get("resources") or {}
    if {MID_CPU, MID_MEMORY} - set(terms):
        raise NotYet(f"the status annotation has no terms ({status.get('reason')})")
    if status.get("sample", "") < since:
        raise NotYet(f"the status annotation is about the report of {status.get('sample')}, want {since} or later")
    if any(line.get("source") != "peak" for line in terms.values()):
        raise NotYet("the Mid resources do not come from a predicted peak")
    return terms


def reclaimed_memory(terms: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """Return the terms when memory is reclaimed from the prediction."""
    memory = terms[MID_MEMORY]
    if not memory.get("reclaimable"):
        raise NotYet(
            f"no memory is reclaimable: Prod pods request {memory.get('allocatedProd', 0) // MIB} MiB, their predicted "
            f"peak with the system is {memory.get('peakProd', 0) // MIB} MiB"
        )
    return terms


def reclaimed_cpu(terms: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """Return the terms when CPU is reclaimed from the prediction."""
    cpu = terms[MID_CPU]
    if not cpu.get("reclaimable"):
        raise NotYet(
            f"no CPU is reclaimable: Prod pods request {cpu.get('allocatedProd', 0)}m, their predicted peak with the "
            f"system is {cpu.get('peakProd', 0)}m"
        )
    return terms


def table(status: Mapping[str, Any]) -> str:
    """Return the whole status annotation: its head, then every term for CPU (milli-cores) and memory (MiB)."""
    resources = status["resources"]
    head = [f"{key:22} {status[key]}" for key in _HEAD if status.get(key)]
    head += [f"{key:22} {value}" for key, value in status.items() if key not in {*_HEAD, "resources"}]
    names = dict.fromkeys(key for line in resources.values() for key in line)
    rows = [f"{'term':22} {'mid-cpu [m]':>14} {'mid-memory [MiB]':>18}"]
    for name in names:
        cpu, memory = (resources.get(resource, {}).get(name, "-") for resource in (MID_CPU, MID_MEMORY))
        is_bytes = isinstance(memory, int) and not name.endswith("Percent")
        rows.append(f"{name:22} {cpu!s:>14} {memory // MIB if is_bytes else memory!s:>18}")
    return "\n".join([*head, "", *rows])


def refusal(events: Iterable[Mapping[str, Any]], expected: str) -> str:
    """Return the message of the FailedScheduling event that contains `expected`, in any case of letters."""
    messages = [event.get("message", "") for event in events]
    for message in reversed(messages):
        if expected.lower() in message.lower():
            return message
    raise NotYet(f"no event has {expected!r}; events: {messages or 'none'}")


def bound_node(pod: Mapping[str, Any]) -> str:
    """Return the node of a bound pod."""
    node = pod["spec"].get("nodeName")
    if not node:
        raise NotYet("the pod is not bound")
    return str(node)


def counted_mid(report: Mapping[str, Any], wanted: Mapping[str, int]) -> None:
    """Check that the report counts exactly the requests of the Mid pods."""
    counted = {name: units(value) for name, value in report.get("allocated", {}).get("mid", {}).items()}
    if {name: counted.get(name, 0) for name in wanted} != dict(wanted):
        raise NotYet(f"the report counts {counted}, want {dict(wanted)}")


def noisy_cores(allocatable: Amount, used: Amount) -> float:
    """Return the cores to burn so that the node uses 85 % of its CPU, at least half a core."""
    return max(round((allocatable.cpu_millis * 85 / 100 - used.cpu_millis) / 1000, 1), 0.5)
