"""Pairs of faults of a soak: which one is next, what an edit must have changed, the table of results. No I/O."""

from __future__ import annotations

import enum
import itertools
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

RECOVERED_SECONDS = 180.0
"""From the end of a pair to the time at which every part follows the newest edit and reports again."""

_POLICY_KEYS = {"midReclaimRatioPercent": 100, "midUnallocatedPercent": 0}
"""Edited keys of the Mid policy, with their defaults: a spec leaves defaults out."""


class Layer(enum.IntEnum):
    """What a fault hits. Those of a higher layer begin later and end first, as they take the API server away."""

    OBJECTS = 1
    PARTS = 2
    LINK = 3
    """The connection of every part to the API server. It has one state, so two of these exclude each other."""
    CONTROL_PLANE = 4


class Kind(NamedTuple):
    """One kind of fault."""

    name: str
    layer: Layer


class Result(NamedTuple):
    """Result of one pair."""

    names: frozenset[str]
    recovered_seconds: float | None
    """None where something did not recover in time."""
    withdrawn: bool = False
    """Whether colocation was switched off with it."""
    problems: int = 0


def possible(kinds: Iterable[Kind]) -> list[tuple[Kind, Kind]]:
    """Return every pair of two different kinds, lower layer first."""
    pairs = itertools.combinations(sorted(kinds, key=lambda kind: (kind.layer, kind.name)), 2)
    return [(one, other) for one, other in pairs if not one.layer == other.layer == Layer.LINK]


def choose(kinds: Iterable[Kind], results: Iterable[Result], chance: random.Random) -> tuple[Kind, Kind]:
    """Return one of the pairs that were tried least, lower layer first.

    Among those, pairs of kinds that were tried least have priority: a short run tries every kind.
    """
    results = list(results)
    tried = Counter(each.names for each in results)
    of_kind = Counter(name for each in results for name in each.names)

    def weight(pair: tuple[Kind, Kind]) -> tuple[int, int]:
        return tried[names(pair)], sum(of_kind[kind.name] for kind in pair)

    pairs = possible(kinds)
    least = min(map(weight, pairs))
    return chance.choice([pair for pair in pairs if weight(pair) == least])


def names(pair: Iterable[Kind]) -> frozenset[str]:
    """Return the names of the kinds of a pair."""
    return frozenset(kind.name for kind in pair)


def unmet(document: Mapping[str, Any], spec: Mapping[str, Any]) -> list[str]:
    """Return what a NodeMetric's spec does not have of a configuration of the soak; empty means it was followed."""
    collect, policy, predict = (
        spec.get(key, {}) for key in ("metricCollectPolicy", "midColocationPolicy", "predictPolicy")
    )
    pairs = {"enable": (bool(document.get("enable")), bool(policy.get("enable")))}
    if document.get("enable"):
        pairs |= {key: (document.get(key, usual), policy.get(key, usual)) for key, usual in _POLICY_KEYS.items()}
        pairs["metricReportIntervalSeconds"] = (
            document.get("metricReportIntervalSeconds", 60),
            collect.get("reportIntervalSeconds", 60),
        )
        pairs["n"] = document.get("nodePredictPolicy", {}).get("n", 5), predict.get("n", 5)
    return [f"{key}: seen {seen!r}, want {want!r}" for key, (want, seen) in pairs.items() if seen != want]


def summary(kinds: Sequence[Kind], results: Sequence[Result]) -> str:
    """Return how many of the possible pairs were tried."""
    tried = {each.names for each in results}
    return f"{len(results)} double faults, {len(tried)} of {len(possible(kinds))} pairs"


def table(results: Iterable[Result]) -> list[str]:
    """Return one row for each pair that was tried, sorted by name."""
    found: dict[frozenset[str], list[Result]] = {}
    for result in results:
        found.setdefault(result.names, []).append(result)
    lines = ["| two faults at once | times | withdrawals | slowest recovery | problems |", "|---|---|---|---|---|"]
    for pair, of_pair in sorted(found.items(), key=lambda item: sorted(item[0])):
        lines.append(
            f"| {' + '.join(sorted(pair))} | {len(of_pair)} | {sum(each.withdrawn for each in of_pair)} "
            f"| {_slowest(of_pair)} | {sum(each.problems for each in of_pair)} |"
        )
    return lines


def _slowest(results: Iterable[Result]) -> str:
    seconds = [each.recovered_seconds for each in results]
    known = [each for each in seconds if each is not None]
    return f"{max(known):.0f} s" if len(known) == len(seconds) else "not in time"
