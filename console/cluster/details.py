"""What only one page shows, as it was read: objects decoded to the fields that the page needs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from api_types.kubernetes import pods
from api_types.node_metric.mid_report import WireNodeUsage, WireResources
from fleet import wire
from fleet.findings import Unread
from fleet.pod_state import PodState
from manager.mid_resource.explanation import Explanation


class PendingPodStatus(msgspec.Struct, frozen=True):
    """Phase and conditions of a pod: PodScheduled has the reasons of kube-scheduler."""

    conditions: list[wire.WireCondition] | None = None
    phase: str = ""


class PendingPodSpec(msgspec.Struct, rename="camel", frozen=True):
    """Node and scheduler of a pod: the decoder skips its containers, whatever is in them."""

    node_name: str = ""
    scheduler_name: str = ""


class PendingPod(msgspec.Struct, frozen=True):
    """A pod that waits, and why."""

    metadata: pods.ObjectMeta = pods.ObjectMeta()
    spec: PendingPodSpec = PendingPodSpec()
    status: PendingPodStatus = PendingPodStatus()


class UsageOfWindow(msgspec.Struct, frozen=True):
    """Statistics of the usage over one window."""

    duration: str | None = None
    usage: dict[str, WireResources] | None = None


class NodeWindows(WireNodeUsage, rename="camel", frozen=True):
    """Usage of a node over windows."""

    aggregated_node_usages: list[UsageOfWindow] | None = None


class DetailedReport(wire.WireReport, rename="camel", frozen=True):
    """The status of a NodeMetric, as far as the page of its node shows it."""

    node_metric: NodeWindows | None = None


class DetailedNodeMetric(wire.WireNodeMetric, frozen=True, gc=False):
    """A NodeMetric with windows, terms and conditions."""

    status: DetailedReport | None = None


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
