"""What a load watcher tells its clients, in the shape of upstream's REST API, key for key.

Values are percent of the node's capacity. Clients select records by type and operator alone; `name` and `rollup` tell
people where a value comes from.
"""

from __future__ import annotations

import enum
import math
from typing import Any, Final

import msgspec


class MetricType(enum.StrEnum):
    """Kind of resource. Text on the wire: a type of tomorrow must not make the document unreadable."""

    CPU = "CPU"
    MEMORY = "Memory"
    BANDWIDTH = "Bandwidth"
    STORAGE = "Storage"
    ENERGY = "Energy"


class Operator(enum.StrEnum):
    """Statistic over the window."""

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
    """Where the node is."""

    data_center: str = ""
    pool: str = ""


class NodeMetrics(msgspec.Struct, frozen=True):
    """Of one node."""

    metrics: list[Metric] = []
    tags: dict[str, str] = {}
    metadata: Metadata = Metadata()


class Window(msgspec.Struct, frozen=True):
    """The time that statistics are taken over, in whole seconds since the epoch."""

    duration: str = ""
    start: int = 0
    end: int = 0


class Data(msgspec.Struct, frozen=True):
    """The level that upstream has between the answer and its nodes."""

    nodes: dict[str, NodeMetrics] = msgspec.field(default={}, name="NodeMetricsMap")


class Snapshot(msgspec.Struct, frozen=True):
    """One answer of a provider, as it is kept and as it is served."""

    timestamp: int = 0
    window: Window = Window()
    source: str = ""
    data: Data = Data()


DURATIONS_SECONDS: Final = {"15m": 900, "10m": 600, "5m": 300}
"""Every window, in the order in which they are fetched."""


SHORTEST: Final = "5m"
"""The window that says which nodes are still heard of."""


def window_ending_at(duration: str, end: float) -> Window:
    """The window of that duration up to `end`, in seconds since the epoch."""
    return Window(duration, int(end) - DURATIONS_SECONDS[duration], int(end))


SMALLEST_PERCENT: Final = 1e-5
"""What is less is written as 0: JSON would need an exponent, which upstream never sends. The deviation of a value that
stands still is such a number."""


def encode(snapshot: Snapshot) -> bytes:
    """Upstream's document. Raises ValueError for a value that is no number: it would make the document unreadable."""
    require_numbers(snapshot)
    nodes = snapshot.data.nodes
    tiny = {name: _without_tiny(node) for name, node in nodes.items() if any(map(_is_tiny, node.metrics))}
    plain = msgspec.structs.replace(snapshot, data=Data({**nodes, **tiny})) if tiny else snapshot
    return msgspec.json.encode(plain)


def _is_tiny(metric: Metric) -> bool:
    return 0.0 < abs(metric.value) < SMALLEST_PERCENT


def _without_tiny(node: NodeMetrics) -> NodeMetrics:
    metrics = [msgspec.structs.replace(each, value=0.0) if _is_tiny(each) else each for each in node.metrics]
    return msgspec.structs.replace(node, metrics=metrics)


def require_numbers(snapshot: Snapshot) -> None:
    """Raise ValueError that names the first value which is NaN or infinite: JSON has no word for it."""
    for name, node in snapshot.data.nodes.items():
        for metric in node.metrics:
            if not math.isfinite(metric.value):
                raise ValueError(f"node {name}: {metric.type} {metric.operator} is {metric.value}, wanted a number")


def decode(body: bytes) -> Snapshot:
    """Read a document as upstream's client does: unknown keys are skipped, null and missing ones are empty.

    Raises msgspec.DecodeError where a value has another type than it must.
    """
    document = _without_nulls(msgspec.json.decode(body))
    if isinstance(document, dict) and isinstance(document.get("timestamp"), float):
        document["timestamp"] = int(document["timestamp"])
    return msgspec.convert(document, Snapshot)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value if item is not None] if isinstance(value, list) else value
