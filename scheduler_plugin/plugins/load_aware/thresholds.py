"""Compute the limits of a node: the thresholds of the arguments, overridden by the node's annotation.

Each of the three parts (plain, prod, aggregated) comes from the annotation if it is present there, else from the
arguments. Maps are replaced whole, never merged per resource. A malformed annotation changes nothing, as upstream, and
is reported. Its values are not range-checked, as upstream.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from api_types.kubernetes import times
from scheduler_plugin.plugins.load_aware.args import LoadAwareArgs
from scheduler_plugin.state.vectors import Vector

_INT64 = range(-(2**63), 2**63)


class AggregatedThresholds(NamedTuple):
    """Limits on a statistic of usage."""

    limits_percent: Mapping[str, int]
    statistic: str
    window_nanos: int


class Thresholds(NamedTuple):
    """Limits by resource name, in percent of allocatable."""

    plain: Mapping[str, int]
    prod: Mapping[str, int]
    aggregated: AggregatedThresholds | None


class Profiles(NamedTuple):
    """Limits of one node as vectors, 0 = not checked."""

    plain: Vector
    prod: Vector
    aggregated: Vector | None
    statistic: str
    window_nanos: int
    is_malformed: bool
    """Whether the node's annotation is ignored because of its shape."""


class MalformedThresholds(Exception):
    """The annotation has an unexpected shape, so it counts as absent."""


def argument_thresholds(args: LoadAwareArgs) -> Thresholds:
    """Return the limits of the arguments alone."""
    block = args.aggregated
    aggregated = None
    if block and block.usage_thresholds and block.usage_aggregation_type:
        window = times.duration_nanos(block.usage_aggregated_duration)
        aggregated = AggregatedThresholds(block.usage_thresholds, block.usage_aggregation_type, window)
    return Thresholds(args.usage_thresholds, args.prod_usage_thresholds, aggregated)


class ThresholdMerge:
    """Limits of any node of a cluster; an annotation that many nodes share is parsed once."""

    def __init__(self, thresholds: Thresholds, resources: tuple[str, ...]) -> None:
        self._thresholds = thresholds
        self._resources = resources
        self.profiles = functools.lru_cache(maxsize=1024)(self._profiles)

    def _profiles(self, annotation: str | None) -> Profiles:
        try:
            merged, is_malformed = merge(self._thresholds, annotation), False
        except MalformedThresholds:
            merged, is_malformed = self._thresholds, True
        aggregated = merged.aggregated
        return Profiles(
            plain=self._vector(merged.plain),
            prod=self._vector(merged.prod),
            aggregated=self._vector(aggregated.limits_percent) if aggregated else None,
            statistic=aggregated.statistic if aggregated else "",
            window_nanos=aggregated.window_nanos if aggregated else 0,
            is_malformed=is_malformed,
        )

    def _vector(self, limits: Mapping[str, int]) -> Vector:
        return tuple([limits.get(resource, 0) for resource in self._resources])


def merge(thresholds: Thresholds, annotation: str | None) -> Thresholds:
    """Return the limits of one node. Raises MalformedThresholds."""
    if not annotation:
        return thresholds
    try:
        members = _members(msgspec.json.decode(annotation))
        node_limits = Thresholds(
            plain=_limits(members.get("usagethresholds")),
            prod=_limits(members.get("produsagethresholds")),
            aggregated=_aggregated(_members(members.get("aggregatedusage"))),
        )
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise MalformedThresholds from error
    return Thresholds(
        plain=node_limits.plain or thresholds.plain,
        prod=node_limits.prod or thresholds.prod,
        aggregated=node_limits.aggregated or thresholds.aggregated,
    )


def _members(value: Any) -> Mapping[str, Any]:
    """Return the members of a JSON object, keys in lower case because Go ignores the case; null has none."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedThresholds
    return {key.lower(): member for key, member in value.items()}


def _limits(value: Any) -> Mapping[str, int]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(_is_int64(limit) for limit in value.values()):
        raise MalformedThresholds
    return {resource: limit or 0 for resource, limit in value.items()}


def _is_int64(value: Any) -> bool:
    return value is None or (type(value) is int and value in _INT64)


def _aggregated(members: Mapping[str, Any]) -> AggregatedThresholds | None:
    limits = _limits(members.get("usagethresholds"))
    statistic = members.get("usageaggregationtype") or ""
    if not isinstance(members.get("usageaggregationtype", ""), str | None):
        raise MalformedThresholds
    window = _window(members.get("usageaggregatedduration"))
    return AggregatedThresholds(limits, statistic, window) if limits and statistic else None


def _window(value: Any) -> int:
    if value is None:
        return 0
    if not isinstance(value, str):
        raise MalformedThresholds
    try:
        return times.duration_nanos(value)
    except ValueError as error:
        raise MalformedThresholds from error
