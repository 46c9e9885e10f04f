"""Decode NodeMetrics, and pack each into vectors over the estimator's resources, to fit 15,000 nodes in memory.

Slim structs decode only what is used. Quantities become integers once per report. A malformed quantity makes the usage
that contains it "not reported", never zero. Few configurations read the statistics over windows, and every report has
two dozen: until the first read they stay encoded; then they are packed, under keys that all nodes share.

A vector as a tuple of integers takes 120 bytes, and a node reports one per pod and one per statistic and window. In an
array it takes 8 bytes a number.
"""

from __future__ import annotations

import functools
import itertools
from array import array
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
import pydantic

from api_types import names
from api_types.colocation import controller_config
from api_types.kubernetes import pods, priority_and_qos, times
from api_types.node_metric import mid_report
from scheduler_plugin.state import vectors
from scheduler_plugin.state.vectors import Vector

K = TypeVar("K", bound=Hashable)


class VectorTable(Mapping[K, Vector]):
    """Read-only mapping to vectors of one length, each entry an integer of 64 bits."""

    __slots__ = ("_numbers", "_positions", "_width")

    def __init__(self, positions: Mapping[K, int], numbers: array[int], width: int) -> None:
        self._positions = positions
        self._numbers = numbers
        self._width = width

    def __getitem__(self, key: K) -> Vector:
        """Return the vector of a key."""
        at = self._positions[key] * self._width
        return tuple(self._numbers[at : at + self._width])

    def find(self, key: K) -> Vector | None:
        """Return the vector of a key, or None; three times as fast as `get`."""
        position = self._positions.get(key)
        if position is None:
            return None
        at = position * self._width
        return tuple(self._numbers[at : at + self._width])

    def __iter__(self) -> Iterator[K]:
        """Iterate over the keys in the order of the input."""
        return iter(self._positions)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._positions)

    def own_key(self, key: K) -> K:
        """Return this table's own object for a key, so that the caller can drop its equal copy."""
        position = self._positions.get(key)
        return key if position is None else next(itertools.islice(self._positions, position, None))


def table(vectors: Mapping[K, Sequence[int]], width: int) -> VectorTable[K]:
    """Pack vectors of `width` numbers."""
    positions = dict(zip(vectors, range(len(vectors)), strict=True))
    return VectorTable(positions, packed(vectors), width)


def packed(vectors: Mapping[K, Sequence[int]]) -> array[int]:
    """Put the numbers of all vectors into one array."""
    return array("q", [*itertools.chain.from_iterable(vectors.values())])


@dataclass(frozen=True, slots=True)
class NodeReport:
    """Report of a node's agent."""

    update_time: float | None
    """Time of the sample, seconds since the epoch; None if the report has none."""
    interval_seconds: float
    node_usage: Vector | None
    """None only if the report has no usable node usage at all."""
    system_usage: Vector
    predicted_usage: Vector | None
    """Predicted peak of all pods and the system together; None without a prediction."""
    aggregated: Mapping[tuple[str, int], Vector]
    """Usage by (statistic, window in nanoseconds); window 0 is the longest one reported."""
    pods: VectorTable[str]
    """By pod key: usage, and a last number of 1 if the report lists the pod as Prod, else 0."""
    mid_policy: mid_report.MidPolicy | None
    """Policy by which the manager calculates Mid on this node; None without one."""
    mid_report: mid_report.MidReport
    """Inputs of the Mid formula."""


StatisticKey = tuple[str, int]
"""Statistic, and window in nanoseconds; 0 is the longest window reported."""

NO_STATISTICS: Final = msgspec.Raw(b"null")
_MOST_SHARED_KEYS: Final = 64
_LONGEST_SHARED_STATISTIC: Final = 16
"""An agent has six statistics of four windows. Keys beyond these bounds would fill the memory that nodes share."""


class _Window(msgspec.Struct, frozen=True, gc=False):
    duration: str = "0s"
    usage: dict[str, mid_report.WireResources] | None = None


_WINDOWS: Final = msgspec.json.Decoder(list[_Window] | None)


class StatisticsByWindow(Mapping[StatisticKey, Vector]):
    """`aggregatedNodeUsages`, decoded on the first read; a malformed one has no entries."""

    __slots__ = ("_document", "_resources", "_table")

    def __init__(self, document: msgspec.Raw, resources: tuple[str, ...]) -> None:
        self._document = bytes(document)  # a copy: the original would keep the whole report alive
        self._resources = resources
        self._table: VectorTable[StatisticKey] | None = None

    def __getitem__(self, key: StatisticKey) -> Vector:
        """Return the usage of a statistic and window."""
        return self._read()[key]

    def __iter__(self) -> Iterator[StatisticKey]:
        """Iterate over every statistic and window."""
        return iter(self._read())

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._read())

    def _read(self) -> VectorTable[StatisticKey]:
        if self._table is None:
            self._table = _statistics_table(self._document, self._resources)
            self._document = b""
        return self._table


def _statistics_table(document: bytes, resources: tuple[str, ...]) -> VectorTable[StatisticKey]:
    try:
        windows = _WINDOWS.decode(document) or []
    except (msgspec.DecodeError, RecursionError):
        windows = []
    by_window: dict[StatisticKey, list[int]] = {}
    longest: dict[str, int] = {}
    for entry in windows:
        try:
            window = times.duration_nanos(entry.duration)
        except ValueError:
            continue
        for statistic, usage in (entry.usage or {}).items():
            amounts = vectors.amounts(usage.resources, resources) if usage.resources else None
            if amounts is not None:
                by_window[statistic, window] = amounts
                longest[statistic] = max(longest.get(statistic, window), window)
    whole = by_window | {(statistic, 0): by_window[statistic, window] for statistic, window in longest.items()}
    is_shared = len(whole) <= _MOST_SHARED_KEYS and all(len(key[0]) <= _LONGEST_SHARED_STATISTIC for key in whole)
    positions = _shared_positions if is_shared else _shared_positions.__wrapped__
    return VectorTable(positions(tuple(whole)), packed(whole), len(resources))


@functools.lru_cache(maxsize=256)
def _shared_positions(keys: tuple[StatisticKey, ...]) -> Mapping[StatisticKey, int]:
    return {key: position for position, key in enumerate(keys)}


DEFAULT_REPORT_INTERVAL_SECONDS: Final = 60
_PROD: Final = priority_and_qos.PriorityClass.PROD.value
_NO_KEYS: Final[Mapping[str, str]] = {}


class _Wire(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Base of the slim structs."""


_NOTHING: Final = mid_report.WireResources()


class ReportedNodeUsage(mid_report.WireNodeUsage, rename="camel", frozen=True):
    """Usage of the node."""

    system_usage: mid_report.WireResources = _NOTHING
    aggregated_node_usages: msgspec.Raw = NO_STATISTICS


class ReportedPodUsage(_Wire, frozen=True, gc=False):
    """Usage of one pod."""

    name: str = ""
    namespace: str = ""
    pod_usage: mid_report.WireResources = _NOTHING
    priority: str = ""


class LoadPrediction(_Wire, frozen=True, gc=False):
    """Predicted peak of all pods and the system together (this suite's extension)."""

    peak: pods.QuantityMap | None = None


class ReportedPrediction(_Wire, frozen=True, gc=False):
    """Prediction of the peak (this suite's extension)."""

    node: LoadPrediction | None = None


class ReportStatus(mid_report.MidReport, rename="camel", frozen=True):
    """Report of the agent: the inputs of the Mid formula, and usage."""

    node_metric: ReportedNodeUsage | None = None
    pods_metric: list[ReportedPodUsage | None] | None = None
    prediction: ReportedPrediction | None = None


class CollectPolicy(_Wire, frozen=True, gc=False):
    """Report interval of the agent."""

    report_interval_seconds: int | None = None


class Spec(_Wire, frozen=True, gc=False):
    """Policies of the node."""

    metric_collect_policy: CollectPolicy | None = None
    mid_colocation_policy: dict[str, Any] | None = None
    """As written (this suite's extension)."""


class NodeMetric(mid_report.NodeMetric, frozen=True, gc=False):
    """The parts of a NodeMetric that scheduling reads."""

    spec: Spec = Spec()
    status: ReportStatus = ReportStatus()


def read(metric: NodeMetric, resources: tuple[str, ...], known_keys: Mapping[str, str] = _NO_KEYS) -> NodeReport:
    """Convert a NodeMetric into vectors.

    `known_keys` maps a pod key to the same key: its objects are used again, because each copy takes 110 bytes.
    """
    status = metric.status
    policy = metric.spec.metric_collect_policy
    interval = policy.report_interval_seconds if policy else None
    usage = status.node_metric
    predicted = status.prediction.node if status.prediction else None
    system_usage = vectors.vector(usage.system_usage.resources, resources) if usage else None
    return NodeReport(
        update_time=times.epoch_seconds_or_none(status.update_time),
        interval_seconds=DEFAULT_REPORT_INTERVAL_SECONDS if interval is None else interval,
        node_usage=_node_usage(usage.node_usage.resources, resources) if usage else None,
        system_usage=system_usage or (0,) * len(resources),
        predicted_usage=_predicted(predicted.peak, usage, resources) if predicted and predicted.peak else None,
        aggregated=StatisticsByWindow(usage.aggregated_node_usages if usage else NO_STATISTICS, resources),
        pods=_pod_table(status.pods_metric or (), resources, known_keys),
        mid_policy=_mid_policy(msgspec.json.encode(metric.spec.mid_colocation_policy)),
        mid_report=mid_report.MidReport(
            update_time=status.update_time,
            allocated=status.allocated,
            usage=status.usage,
            node_metric=mid_report.WireNodeUsage(usage.node_usage) if usage and status.usage is None else None,
            prod_peak_metric=status.prod_peak_metric,
            prod_reclaimable_metric=status.prod_reclaimable_metric,
        ),
    )


def _node_usage(usage: pods.QuantityMap | None, resources: tuple[str, ...]) -> Vector | None:
    """Return the usage of the node; None where it has a memory of 0 and no other usage: a running node uses some."""
    vector = vectors.vector(usage, resources)
    return None if vector and not any(vector) and names.MEMORY in (usage or ()) else vector


def _predicted(peak: pods.QuantityMap, usage: ReportedNodeUsage | None, resources: tuple[str, ...]) -> Vector | None:
    """Return the peak of each resource; a resource without a prediction is as reported, not zero."""
    reported = usage.node_usage.resources if usage else None
    return vectors.vector({**(reported or {}), **peak}, resources)


def _pod_table(
    items: list[ReportedPodUsage | None] | tuple[()], resources: tuple[str, ...], known_keys: Mapping[str, str]
) -> VectorTable[str]:
    """Pack the pods' usage. Of several items of one pod the last gives the usage, and any of them marks it as Prod."""
    rows: dict[str, list[int]] = {}
    for item in items:
        if item is None or not item.pod_usage.resources:
            continue
        row = vectors.amounts(item.pod_usage.resources, resources)
        if row is not None:
            key = f"{item.namespace}/{item.name}"  # pod_info.pod_key, without the call: a hundred times per report
            key = known_keys.get(key, key)
            is_prod = 1 if item.priority == _PROD else rows[key][-1] if key in rows else 0
            row.append(is_prod)
            rows[key] = row
    return table(rows, len(resources) + 1)


@functools.lru_cache(maxsize=256)
def _mid_policy(document: bytes) -> mid_report.MidPolicy | None:
    """Decode the node's policy as the manager wrote it; None if it is absent or malformed."""
    try:
        policy = controller_config.MidColocationPolicy.model_validate(msgspec.json.decode(document))
    except pydantic.ValidationError:
        return None
    return mid_report.mid_policy(policy)
