"""Reference of the manager: strategy, withdrawal and formula once more, as plainly as possible."""

import datetime as dt
import json
from dataclasses import dataclass, field
from fractions import Fraction

MID = ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory")
NATIVE = ("cpu", "memory")
DEFAULTS = {
    "enable": False, "degradeTimeMinutes": 15, "midReclaimMode": "", "midCPUThresholdPercent": 100,
    "midMemoryThresholdPercent": 100, "midReclaimRatioPercent": 100, "midUnallocatedPercent": 0,
    "midFloor": "allocated", "midStaticCPUReservedPercent": 0, "midStaticMemoryReservedPercent": 0,
}  # fmt: skip
SKEW = dt.timedelta(minutes=5)


def strategy(document: dict, labels: dict) -> dict:
    """Merge the first matching entry over the cluster strategy; both have to enable the node."""
    own = {key: value for key, value in document.items() if key != "nodeConfigs"}
    merged = {**DEFAULTS, **own}
    for entry in document.get("nodeConfigs", ()):
        if entry["nodeSelector"]["matchLabels"].items() <= labels.items():
            merged |= {key: value for key, value in entry.items() if key not in ("name", "nodeSelector")}
            break
    merged["enable"] = bool(own.get("enable")) and merged["enable"]
    return merged


@dataclass
class Report:
    """Report of an agent: milli-cores and bytes as (cpu, memory)."""

    sample: dt.datetime
    peak: tuple | None = None
    reclaimable: tuple | None = None
    prod: tuple | None = None
    mid: tuple | None = None
    nonsense: bool = False

    used: tuple = (0, 0)
    """Usage of everything but Mid; of the whole node from upstream's agent."""

    def has_prediction(self) -> bool:
        return (self.peak is not None and self.prod is not None) or self.reclaimable is not None


@dataclass
class Node:
    """A node of the model; `pods` are (Prod or Mid, cpu, memory)."""

    born: dt.datetime
    size: tuple
    labels: dict
    reports: list = field(default_factory=list)
    pods: list = field(default_factory=list)

    def requested(self, kind: str) -> tuple:
        return tuple(sum(pod[index] for pod in self.pods if pod[0] == kind) for index in (1, 2))


def floor(value: Fraction) -> int:
    return value.numerator // value.denominator


def calculated(holds: dict, node: Node, report: Report) -> tuple:
    """Compute min(min(reclaimable, cap) + unallocated share, unused) with exact fractions."""
    prod = report.prod if report.prod is not None else node.requested("prod")
    result = []
    for index, name in enumerate(("CPU", "Memory")):
        size = node.size[index]
        cap = floor(Fraction(size * holds[f"mid{name}ThresholdPercent"], 100))
        if holds["midReclaimMode"] == "static":
            result.append(min(floor(Fraction(size * holds[f"midStatic{name}ReservedPercent"], 100)), cap))
            continue
        reclaimable = 0
        if report.peak is not None and report.prod is not None:
            charged = floor(Fraction(prod[index] * holds["midReclaimRatioPercent"], 100))
            reclaimable = max(0, min(charged - report.peak[index], size - report.peak[index]))
        elif report.reclaimable is not None:
            reclaimable = report.reclaimable[index]
        unallocated = max(size - prod[index], 0)
        offered = min(reclaimable, cap) + floor(Fraction(unallocated * holds["midUnallocatedPercent"], 100))
        result.append(min(offered, max(size - report.used[index], 0)))
    return tuple(result)


def floors(holds: dict, node: Node) -> set:
    """Return the floors of a withdrawal: of the Mid pods that were bound before any one time."""
    if holds["midFloor"] == "none":
        return {(0, 0)}
    mid = [pod for pod in node.pods if pod[0] == "mid"]
    return {tuple(sum(pod[index] for pod in mid[:count]) for index in (1, 2)) for count in range(len(mid) + 1)}


def published(holds: dict, node: Node, report: Report) -> set:
    """Return max(calculated, floor), where the floor counts fewer pods while they request more than is calculated."""
    found = calculated(holds, node, report)
    mid = report.mid if report.prod is not None else node.requested("mid")
    if holds["midFloor"] == "none" or all(have >= want for have, want in zip(found, mid, strict=True)):
        return {found}
    return {tuple(map(max, found, each)) for each in {mid, *floors(holds, node)}}


def expected(holds: dict, node: Node, metric_born: dt.datetime, before: tuple | None, now: dt.datetime) -> set:
    """Return the values that a node may have after it had `before`; None for no keys."""
    degrade = dt.timedelta(minutes=holds["degradeTimeMinutes"])
    withdrawn = {each if any(each) else None for each in floors(holds, node)}
    if before is None:
        withdrawn.add(None)  # no pod depends on keys that are missing
    if not holds["enable"]:
        return withdrawn
    if not node.reports:
        return withdrawn if now > max(node.born, metric_born) + degrade else {before}
    newest = node.reports[-1]
    if newest.sample <= now + SKEW and now > newest.sample + degrade:
        return withdrawn
    known = [each for each in node.reports if each.sample <= now + SKEW <= each.sample + degrade + SKEW]
    known = [each for each in known if not each.nonsense]
    if newest.sample > now + SKEW or newest.nonsense:
        return withdrawn | ({before} if known else set())
    found = published(holds, node, newest)
    if holds["midReclaimMode"] == "static" or newest.has_prediction():
        return found
    return found | ({before} if any(each.has_prediction() for each in known) else set())


def is_good(text: str) -> bool:
    """Check whether the manager accepts a document of the test."""
    try:
        document = json.loads(text)
    except ValueError:
        return False
    return isinstance(document.get("enable", False), bool)
