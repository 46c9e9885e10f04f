"""What only one page shows, as it was read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from console.cluster.wire import DetailedReport
from fleet.pod_state import PodState
from fleet.snapshot import Unread
from manager.mid_resource.explanation import Explanation

T = TypeVar("T")


@dataclass(frozen=True)
class NodeDetail:
    """One node; `unread` names what may not be read."""

    explanation: Explanation | None = None
    pods: tuple[PodState, ...] | None = None
    report: DetailedReport | None = None
    layers: Mapping[str, str] = field(default_factory=dict)
    """Layer that sets each key of the node's strategy; empty where no configuration was read."""
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True)
class Listed(Generic[T]):
    """Objects of a list; None where they may not be read."""

    items: tuple[T, ...] | None
    unread: tuple[Unread, ...] = ()


class Records(NamedTuple):
    """Decisions of the scheduler plugin: recent ones, and those on one pod."""

    recent: Sequence[Mapping[str, Any]] = ()
    pod: str = ""
    decisions: Sequence[Mapping[str, Any]] = ()
    missing: str = ""
    """Why there are none, as a sentence; empty where the plugin was asked."""
