"""Documents that a load watcher serves, with exactly the keys of upstream's REST API, and the last of each window.

Values are percent of the node's capacity. Clients select records by type and operator alone; `name` and `rollup`
document the source of a value.
"""

from __future__ import annotations

import collections
import enum
import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec


class MetricType(enum.StrEnum):
    """Kind of resource. It is text on the wire, so a future type does not make the document unreadable."""

    CPU = "CPU"
    MEMORY = "Memory"
    BANDWIDTH = "Bandwidth"
    STORAGE = "Storage"
    ENERGY = "Energy"


class Statistic(enum.StrEnum):
    """Statistic over the window, called `operator` on the wire."""

    AVG = "AVG"
    STD = "STD"
    LATEST = "Latest"


class Metric(msgspec.Struct, frozen=True):
    """One statistic of one resource."""

    name: str = ""
    type: str = ""
    operator: str = ""
    rollup: str = ""
    value: float = 0.0


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """Location of a node."""

    data_center: str = ""
    pool: str = ""


class Window(msgspec.Struct, frozen=True):
    """Period of the statistics, in whole seconds since the epoch."""

    duration: str = ""
    start: int = 0
    end: int = 0


class NodeMetrics(msgspec.Struct, frozen=True):
    """Statistics of one node. The keys after `metadata` are additions, absent where they have no value."""

    metrics: list[Metric] = []
    tags: dict[str, str] = {}
    metadata: Metadata = Metadata()
    window: Window | msgspec.UnsetType = msgspec.UNSET
    """Period of this node's statistics; absent if it is that of the snapshot."""
    rejected: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Types of which the provider delivered records that the analyser dropped: the agent runs, its values are wrong."""


class Data(msgspec.Struct, frozen=True):
    """Level between the document and its nodes, as in upstream's API."""

    nodes: dict[str, NodeMetrics] = msgspec.field(default={}, name="NodeMetricsMap")


class Snapshot(msgspec.Struct, frozen=True):
    """Statistics of all nodes over one window, as stored and as served."""

    timestamp: int = 0
    window: Window = Window()
    source: str = ""
    data: Data = Data()


OLDEST_SECONDS: Final = 300.0
"""Default age limit of measurements (KEP-61: not older than 5 minutes)."""

BOUNDED: Final = (MetricType.CPU, MetricType.MEMORY)
"""Types in percent of a capacity, which plugins score. A node has at most one mean and one deviation of each."""

DURATIONS_SECONDS: Final = {"15m": 900, "10m": 600, "5m": 300}
"""Every window, in the order of fetching."""


def window_ending_at(duration: str, end: float) -> Window:
    """Return the window of that duration up to `end`, in seconds since the epoch."""
    return Window(duration, int(end) - DURATIONS_SECONDS[duration], int(end))


def moment(end: float, seconds: float = 0.0) -> Window:
    """Return the window of a current value, measured over `seconds` up to `end`."""
    return Window("", int(end - seconds), int(end))


def up_to(window: Window, newest: float) -> Window:
    """Return the window of a node whose newest sample is that old; a time before the window is ignored."""
    return Window(window.duration, window.start, int(min(newest, window.end))) if newest >= window.start else window


def dated(nodes: Mapping[str, NodeMetrics], requested: Window) -> dict[str, NodeMetrics]:
    """Give every node its own window, by default the requested one; it lies between 1970 and the end of that one."""
    return {name: msgspec.structs.replace(node, window=_until(node.window, requested)) for name, node in nodes.items()}


def _until(window: Window | msgspec.UnsetType, requested: Window) -> Window:
    if not window:
        return requested
    start, end = (min(max(at, 0), requested.end) for at in (window.start, window.end))
    return window if (start, end) == (window.start, window.end) else Window(window.duration, start, end)


def joined(nodes: Mapping[str, NodeMetrics], requested: Window, source: str) -> Snapshot:
    """Join nodes with their own windows to a snapshot, whose window is that of the newest node."""
    windows = [node.window for node in nodes.values() if node.window]
    newest = max((window.end for window in windows), default=requested.end)
    window = window_ending_at(requested.duration, newest)
    plain = {
        name: msgspec.structs.replace(node, window=msgspec.UNSET) if node.window == window else node
        for name, node in nodes.items()
    }
    return Snapshot(requested.end, window, source, Data(plain))


SMALLEST_PERCENT: Final = 1e-5
"""Smaller values are encoded as 0: JSON would need an exponent, which upstream never sends. An example is the deviation
of a constant value."""


def encode(snapshot: Snapshot) -> bytes:
    """Encode a snapshot as upstream's document. Raises ValueError for NaN and infinite values, which JSON lacks."""
    require_numbers(snapshot)
    nodes = snapshot.data.nodes
    tiny = {name: _without_tiny(node) for name, node in nodes.items() if any(map(_is_tiny, node.metrics))}
    plain = msgspec.structs.replace(snapshot, data=Data({**nodes, **tiny})) if tiny else snapshot
    return msgspec.json.encode(plain)


def _is_tiny(metric: Metric) -> bool:
    return 0.0 < abs(metric.value) < SMALLEST_PERCENT


def _without_tiny(node: NodeMetrics) -> NodeMetrics:
    metrics = [msgspec.structs.replace(metric, value=0.0) if _is_tiny(metric) else metric for metric in node.metrics]
    return msgspec.structs.replace(node, metrics=metrics)


def require_numbers(snapshot: Snapshot) -> None:
    """Raise ValueError that names the first NaN or infinite value: JSON cannot represent it."""
    for name, node in snapshot.data.nodes.items():
        for metric in node.metrics:
            if not math.isfinite(metric.value):
                raise ValueError(f"node {name}: {metric.type} {metric.operator} is {metric.value}, want a number")


def decode(body: bytes) -> Snapshot:
    """Decode a document as upstream's client does: unknown keys are skipped, null and missing ones are empty.

    Raises msgspec.DecodeError for a value of a wrong type.
    """
    document = _without_nulls(msgspec.json.decode(body))
    if isinstance(document, dict) and isinstance(document.get("timestamp"), float):
        document["timestamp"] = int(document["timestamp"])
    return msgspec.convert(document, Snapshot)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value if item is not None] if isinstance(value, list) else value


KEPT: Final = 5
"""Snapshots kept of each window, as in upstream's watcher."""

FALLBACKS: Final[Mapping[str, tuple[str, ...]]] = {"15m": ("15m", "10m", "5m"), "10m": ("10m", "5m"), "5m": ("5m",)}
"""Requested window -> windows that can be served for it, best first."""


class NoMetrics(Exception):
    """No window can be served; the message states why."""


class Windows:
    """Snapshots by window, oldest first. There is one writer in one event loop."""

    def __init__(self, greatest_age_seconds: float) -> None:
        self.greatest_age_seconds = greatest_age_seconds
        self._snapshots: dict[str, collections.deque[Snapshot]] = {
            duration: collections.deque(maxlen=KEPT) for duration in DURATIONS_SECONDS
        }

    def store(self, snapshot: Snapshot) -> None:
        """Store a snapshot as the newest of its window. Raises KeyError for an unknown window."""
        self._snapshots[snapshot.window.duration].append(snapshot)

    def kept(self, duration: str) -> tuple[Snapshot, ...]:
        """Return the snapshots of a window, oldest first."""
        return tuple(self._snapshots[duration])

    def latest(self, duration: str, now: float) -> Snapshot:
        """Return the newest snapshot of the window, or of a shorter one, within the age limit. Raises NoMetrics."""
        candidates = FALLBACKS.get(duration)
        if candidates is None:
            raise NoMetrics(f"window is {duration!r}, want one of {', '.join(FALLBACKS)}")
        ages = []
        for name in candidates:
            if self._snapshots[name]:
                newest = self._snapshots[name][-1]
                age = now - newest.window.end
                if age <= self.greatest_age_seconds:
                    return newest
                ages.append(f"{name}: {age:.0f} s old")
        if not ages:
            raise NoMetrics(f"no provider has answered for {' or '.join(candidates)} yet")
        raise NoMetrics(f"the newest data is too old ({', '.join(ages)}; at most {self.greatest_age_seconds:.0f} s)")
