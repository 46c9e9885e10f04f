"""Reject nodes whose usage is above a limit, and prefer nodes with low usage: LoadAwareScheduling.

    percent = round(used / allocatable * 100)                          filter: reject where percent > limit
    s_r     = 0 if used > allocatable else (allocatable - used) * 100 // allocatable
    score   = (sum of weight_r * s_r + D * min of s_r) // (sum of weight_r + D)          D: dominantResourceWeight

`used` is the sum of the node's usage, the delta that its report does not show yet (`state.node_load`), and the pod's
own estimate. Float operations are in upstream's order, because it decides how 14.5 % is rounded. Both results depend on
a pod only through the fields of `_PodClass`: equal pods form one class of the equivalence cache. The age of a report is
no part of a cached result; it is compared with the time of the call.

In `mode: soft` no node is rejected, and a node above its limits has a score below all others:

    score = 20 + score * 80 // 100                        within the limits
    score = max(1, 20 - ceil(excess / 2))                 above: excess is the largest percent - limit
    score = 0                                             without a fresh report
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from api_types import names
from api_types.kubernetes import pods, times
from scheduler_plugin.framework import interface
from scheduler_plugin.framework.interface import Filter, Pending, PluginInputs, ReasonCodes, Scores
from scheduler_plugin.plugins.load_aware.args import LoadAwareArgs, Profiles, ThresholdMerge, argument_thresholds
from scheduler_plugin.state import vectors
from scheduler_plugin.state.node_columns import (
    Bools,
    Columns,
    EquivalenceCache,
    Floats,
    Ints,
    NodeColumns,
    NodeEntry,
    Rows,
)
from scheduler_plugin.state.node_load import NodeLoad
from scheduler_plugin.state.node_report import NodeReport
from scheduler_plugin.state.pod_info import PodInfo
from scheduler_plugin.state.vectors import Vector

_EXPIRED: Final = 1  # reason code
_OTHER, _PROD = 0, 1  # first axis of the columns: the class of the pods

_LOWEST_SCORE_WITHIN_LIMITS: Final = 20
"""In `mode: soft`; scores below it order the nodes above their limits."""
_PERCENT_PER_SCORE: Final = 2  # of excess over a limit, in `mode: soft`


def usage_percent(used: Ints, total: Ints) -> Floats:
    """Return the used percentage of `total`, whole, halves rounded away from zero; 0 for a total of 0."""
    ratio = np.divide(used, total, out=np.zeros(np.broadcast(used, total).shape), where=total != 0)
    return vectors.half_away_from_zero(ratio * 100)


def least_used_score(used: Ints, capacity: Ints) -> Ints:
    """Return the free share in whole percent, rounded down; 0 for no capacity, and for usage above capacity."""
    nothing_left = (capacity == 0) | (used > capacity)
    return np.where(nothing_left, 0, (capacity - used) * 100 // np.where(capacity == 0, 1, capacity))


def weighted_score(dominant_weight: int, weights: Ints, used: Ints, allocatable: Ints) -> Ints:
    """Return the weighted score over the resources of the first axis; 0 if no resource has a weight."""
    total_weight = int(weights.sum()) + dominant_weight
    if total_weight <= 0:
        return np.zeros(used.shape[1:], dtype=np.int64)
    scores = least_used_score(used, allocatable)
    dominant = scores.min(axis=0, initial=100)
    score: Ints = (weights @ scores + dominant_weight * dominant) // total_weight
    return score


class _PodClass(NamedTuple):
    """Facts of a pod on which the results depend."""

    estimate: Vector | None
    is_prod: bool
    is_checked: bool
    """Whether limits apply: not to a pod that can run on one node only, and not to an exempt one."""
    is_soft: bool
    """Whether load alone has refused the pod for too long: its limits order nodes, and reject none."""


class LoadAware(Columns, Filter):
    """The filter and score plugin. `args` are completed and validated (see `load_aware.args`)."""

    name = "LoadAwareScheduling"
    reasons: Sequence[str]

    def __init__(self, args: LoadAwareArgs) -> None:
        self._args = args
        self._on_stale = args.stale_node()
        self._is_soft = args.mode == "soft"
        self._resources = args.resources()
        self._weights = [args.resource_weights.get(name, 0) for name in self._resources]
        self._limits = ThresholdMerge(argument_thresholds(args), self._resources)
        expiration = args.node_metric_expiration_seconds
        self._expiration_seconds = math.inf if expiration is None else float(expiration)
        block = args.aggregated
        self._scored_statistic = block.score_aggregation_type if block else ""
        self._scored_window_nanos = times.duration_nanos(block.score_aggregated_duration) if block else 0
        # Inputs of both results per node: R resources, N rows, one layer for Prod pods and one for all others.
        resource_count = len(self._resources)
        self.allocatable: Ints = np.zeros((resource_count, 0), dtype=np.int64)
        self.limits_percent: Ints = np.zeros((2, resource_count, 0), dtype=np.int64)
        self.filtered_usage: Ints = np.zeros((2, resource_count, 0), dtype=np.int64)
        self.scored_usage: Ints = np.zeros((2, resource_count, 0), dtype=np.int64)
        self.by_statistic: Bools = np.zeros((2, 0), dtype=np.bool_)
        self.is_checked: Bools = np.zeros((2, 0), dtype=np.bool_)
        """Whether the node has a report, and a limit."""
        self.is_malformed: Bools = np.zeros(0, dtype=np.bool_)
        """Whether the node's threshold annotation is ignored because of its shape."""
        self.lacks_window: Bools = np.zeros(0, dtype=np.bool_)
        """Whether the report lacks a configured statistic, so that the newest usage counts in its place."""
        self.is_measured: Bools = np.zeros(0, dtype=np.bool_)
        self.expires_at: Floats = np.zeros(0, dtype=np.float64)
        self._written: dict[int, tuple[pods.Node | None, NodeReport | None, Profiles]] = {}
        """By row, the objects from which its limits were written."""
        self._codes: EquivalenceCache[_PodClass] = EquivalenceCache(self._class_codes, np.int16)
        self._scores: EquivalenceCache[_PodClass] = EquivalenceCache(self._compute_scores, np.int8)
        self.reasons = (
            "node(s) nodeMetric expired",
            *(f"node(s) {resource} usage exceed threshold" for resource in self._resources),
            *(f"node(s) {resource} aggregated usage exceed threshold" for resource in self._resources),
        )

    def write(self, entry: NodeEntry) -> None:
        """Copy one node's limits and load into its row. The pods on it change its usage alone."""
        row, load = entry.row, entry.load
        written = self._written.get(row)
        if written is None or written[0] is not entry.node or written[1] is not load.report:
            written = self._written[row] = (entry.node, load.report, self._write_limits(entry))
        profiles = written[2]
        reported = self._node_usage(load, load.plain())
        filtered = scored = [reported, reported]
        if profiles.aggregated is not None:
            filtered = [self._node_usage(load, load.aggregated(profiles.statistic, profiles.window_nanos))] * 2
        if any(profiles.prod):
            filtered = [filtered[_OTHER], load.prod()]
        if self._scored_statistic:
            scored = [self._node_usage(load, load.aggregated(self._scored_statistic, self._scored_window_nanos))] * 2
        if self._args.score_according_prod_usage:
            scored = [scored[_OTHER], load.prod()]
        self.filtered_usage[:, :, row] = filtered
        self.scored_usage[:, :, row] = scored

    def _write_limits(self, entry: NodeEntry) -> Profiles:
        """Write what depends on the node and its report alone."""
        row, load = entry.row, entry.load
        annotations = pods.annotation_map(entry.node.metadata) if entry.node else {}
        profiles = self._limits.profiles(pods.annotation(annotations, names.ANNOTATION_USAGE_THRESHOLDS))
        has_report = load.report is not None
        self.allocatable[:, row] = [entry.allocatable.get(name, 0) for name in self._resources]
        self.is_measured[row] = load.report is not None and load.report.node_usage is not None
        self.expires_at[row] = self._expires_at(load)
        self.is_malformed[row] = profiles.is_malformed
        self.lacks_window[row] = has_report and not self._has_windows(load, profiles)
        limits = profiles.plain if profiles.aggregated is None else profiles.aggregated
        for layer, applied in ((_OTHER, limits), (_PROD, profiles.prod if any(profiles.prod) else limits)):
            self.limits_percent[layer, :, row] = applied
            self.is_checked[layer, row] = has_report and any(applied)
            self.by_statistic[layer, row] = applied is profiles.aggregated
        return profiles

    def problems(self, rows: Rows) -> Mapping[str, int]:
        """Return the number of nodes by problem: what is ignored there, or missing."""
        return {
            "malformed_thresholds": int(np.count_nonzero(self.is_malformed[rows])),
            "missing_window": int(np.count_nonzero(self.lacks_window[rows])),
        }

    def _has_windows(self, load: NodeLoad, profiles: Profiles) -> bool:
        statistics = []
        if profiles.aggregated is not None:
            statistics.append((profiles.statistic, profiles.window_nanos))
        if self._scored_statistic:
            statistics.append((self._scored_statistic, self._scored_window_nanos))
        reported = load.report.aggregated if load.report else ()
        return all(statistic in reported for statistic in statistics)

    def _node_usage(self, load: NodeLoad, reported: Vector) -> Vector:
        source = self._args.usage_source
        predicted = None if source == "reported" else load.predicted()
        if predicted is None:
            return reported
        return predicted if source == "predicted" else tuple(map(max, reported, predicted))

    def _expires_at(self, load: NodeLoad) -> float:
        """Return the time at which the report is too old; a report without a time always is."""
        if self._expiration_seconds == math.inf:
            return math.inf
        updated_at = load.report.update_time if load.report else None
        return -math.inf if updated_at is None else updated_at + self._expiration_seconds

    def reject(
        self, pod: PodInfo, rows: Rows, vectors: NodeColumns, now: float, pending: Pending | None = None
    ) -> ReasonCodes | None:
        """Return a reason code per candidate, or None to accept all: for exempt and pinned pods, and in `mode: soft`.

        A pod that has waited for too long has that mode alone. The pods that are about to leave change nothing: a
        measured load falls after they have left.
        """
        if not _is_checked(pod) or self._is_soft or pod.waited_seconds:
            return None
        if pending is None or pending.usage is None:
            codes = self._codes.results(_pod_class(pod), rows, vectors)
        else:
            codes = self._class_codes(_pod_class(pod), rows, pending.usage)
        if self._on_stale == "use":
            return codes
        layer = _PROD if pod.is_prod else _OTHER
        is_expired = (self.expires_at[rows] <= now) & self.is_checked[layer][rows]
        rejects = _EXPIRED if self._on_stale == "reject" else 0
        codes[is_expired] = np.where(vectors.is_blind[rows[is_expired]], 0, rejects)
        return codes

    def score(self, pod: PodInfo, rows: Rows, vectors: NodeColumns, now: float) -> Ints:
        """Score the candidates; 0 without a fresh report."""
        scores = self._scores.results(_pod_class(pod), rows, vectors)
        scores[self.expires_at[rows] <= now] = 0
        return scores

    def normalize(self, scores: Scores) -> Ints:
        """Return the scores, which are 0..100 already."""
        return scores.astype(np.int64, copy=False)

    def explain(self, pod: PodInfo, rows: Rows) -> PluginInputs:
        """Return the load of each candidate without the pod, and its limits."""
        layer = _PROD if pod.is_prod else _OTHER
        return PluginInputs(
            self._resources,
            {
                "usage": self.filtered_usage[layer].take(rows, axis=1),
                "scoredUsage": self.scored_usage[layer].take(rows, axis=1),
                "allocatable": self.allocatable.take(rows, axis=1),
                "limitPercent": self.limits_percent[layer].take(rows, axis=1),
            },
        )

    def _class_codes(self, pod_class: _PodClass, rows: Rows, more_usage: Ints | None = None) -> ReasonCodes:
        """Return the code of each row by its usage, and by `more_usage` of shape (resources, rows) on top."""
        layer = _PROD if pod_class.is_prod else _OTHER
        percent, limits, is_limited = self._percents(pod_class, rows, more_usage)
        exceeds = is_limited & (percent > limits)
        first = exceeds.argmax(axis=0) + np.where(self.by_statistic[layer][rows], len(self._resources), 0)
        is_known = self.is_measured[rows] & self.is_checked[layer][rows]
        return np.where(exceeds.any(axis=0) & is_known, _EXPIRED + 1 + first, 0).astype(np.int16)

    def _percents(self, pod_class: _PodClass, rows: Rows, more_usage: Ints | None) -> tuple[Floats, Ints, Bools]:
        """Return the usage with the pod in percent, the limits, and where a limit applies; shape (resources, rows)."""
        layer = _PROD if pod_class.is_prod else _OTHER
        limits = self.limits_percent[layer][:, rows]
        total = self.allocatable[:, rows]
        used = self.filtered_usage[layer][:, rows] + _column(pod_class.estimate, len(self._resources))
        if more_usage is not None:
            used = used + more_usage
        return usage_percent(used, total), limits, (limits != 0) & (total != 0)

    def _compute_scores(self, pod_class: _PodClass, rows: Rows) -> Ints:
        layer = _PROD if pod_class.is_prod else _OTHER
        total = self.allocatable[:, rows]
        if pod_class.estimate is None:
            return np.zeros(total.shape[1:], dtype=np.int64)
        used = self.scored_usage[layer][:, rows] + _column(pod_class.estimate, len(self._resources))
        score = weighted_score(self._args.dominant_resource_weight, np.array(self._weights), used, total)
        # A pod's own scaling factors may be negative, and raise a score above 100.
        score = interface.clipped(score)
        if (self._is_soft or pod_class.is_soft) and pod_class.is_checked:
            score = self._below_the_others_if_hot(score, pod_class, rows)
        return np.where(self.is_measured[rows], score, 0)

    def _below_the_others_if_hot(self, score: Ints, pod_class: _PodClass, rows: Rows) -> Ints:
        """Scale the scores of nodes within their limits up, and order the others by their excess."""
        percent, limits, is_limited = self._percents(pod_class, rows, None)
        excess = np.where(is_limited, percent - limits, 0.0).max(axis=0, initial=0.0)
        lowest = _LOWEST_SCORE_WITHIN_LIMITS
        hot = np.maximum(lowest - np.ceil(excess / _PERCENT_PER_SCORE), 1).astype(np.int64)
        return np.where(self._class_codes(pod_class, rows) > 0, hot, lowest + score * (100 - lowest) // 100)


def _is_checked(pod: PodInfo) -> bool:
    return not (pod.is_pinned or pod.is_exempt)


def _pod_class(pod: PodInfo) -> _PodClass:
    return _PodClass(pod.estimate, pod.is_prod, _is_checked(pod), bool(pod.waited_seconds))


def _column(estimate: Vector | None, resource_count: int) -> Ints:
    return np.array(estimate or (0,) * resource_count, dtype=np.int64)[:, np.newaxis]
