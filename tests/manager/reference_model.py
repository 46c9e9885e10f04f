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

    def is_usable(self, static: bool) -> bool:
        """Check that it has what the formula needs, and no impossible value."""
        known = (self.peak is not None and self.prod is not None) or self.reclaimable is not None
        return not self.nonsense and (known or static)


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


@dataclass
class Expected:
    """Permitted values of a node: `values` (None: no keys); where `or_as_before`, also the former ones."""

    values: tuple | None
    or_as_before: bool = False


def floor(value: Fraction) -> int:
    return value.numerator // value.denominator


def formula(holds: dict, node: Node, report: Report) -> tuple:
    """Compute max(min(reclaimable, cap) + unallocated share, floor) with exact fractions."""
    prod = report.prod if report.prod is not None else node.requested("prod")
    mid = report.mid if report.prod is not None else node.requested("mid")
    result = []
    for index, name in enumerate(("CPU", "Memory")):
        size = node.size[index]
        cap = floor(Fraction(size * holds[f"mid{name}ThresholdPercent"], 100))
        if holds["midReclaimMode"] == "static":
            value = min(floor(Fraction(size * holds[f"midStatic{name}ReservedPercent"], 100)), cap)
        else:
            if report.peak is not None and report.prod is not None:
                charged = floor(Fraction(prod[index] * holds["midReclaimRatioPercent"], 100))
                reclaimable = max(0, min(charged - report.peak[index], size - report.peak[index]))
            else:
                reclaimable = report.reclaimable[index]
            unallocated = max(size - prod[index], 0)
            value = min(reclaimable, cap) + floor(Fraction(unallocated * holds["midUnallocatedPercent"], 100))
        result.append(max(value, mid[index]) if holds["midFloor"] == "allocated" else value)
    return tuple(result)


def expected(holds: dict, node: Node, metric_born: dt.datetime, before: tuple | None, now: dt.datetime) -> Expected:
    """Return the values that a node should have after it had `before`."""
    degrade = dt.timedelta(minutes=holds["degradeTimeMinutes"])
    bound = node.requested("mid") if holds["midFloor"] == "allocated" else (0, 0)
    # A withdrawal does not bring back missing keys: no pod depends on them.
    withdrawn = Expected(bound if any(bound) else None, or_as_before=before is None)
    if not holds["enable"]:
        return withdrawn
    if not node.reports:
        return withdrawn if now > max(node.born, metric_born) + degrade else Expected(before)
    newest = node.reports[-1]
    if newest.sample <= now + SKEW and now > newest.sample + degrade:
        return withdrawn
    static = holds["midReclaimMode"] == "static"
    if newest.sample <= now + SKEW and newest.is_usable(static):
        return Expected(formula(holds, node, newest))
    fresh = [
        report
        for report in node.reports
        if report.sample <= now + SKEW and now <= report.sample + degrade and not report.nonsense
    ]
    return Expected(withdrawn.values, or_as_before=bool(fresh) or before is None)


def is_good(text: str) -> bool:
    """Check whether the manager accepts a document of the test."""
    try:
        document = json.loads(text)
    except ValueError:
        return False
    return isinstance(document.get("enable", False), bool)
