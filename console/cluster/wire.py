"""Objects that only the console reads, decoded to the fields that its pages show. Pure."""

from __future__ import annotations

import msgspec

from api_types.kubernetes import pods
from api_types.node_metric.mid_report import WireNodeUsage, WireResources
from fleet import wire


class PendingPodStatus(wire.PodConditions, frozen=True):
    """Phase and conditions of a pod."""

    phase: str = ""


class PendingPodSpec(msgspec.Struct, rename="camel", frozen=True):
    """Node and scheduler of a pod."""

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


class ProdPeakTerms(msgspec.Struct, rename="camel", frozen=True):
    """Predicted peak of the Prod pods and its terms."""

    peak: dict[str, str | int] | None = None
    class_peak: dict[str, str | int] | None = None
    pod_sum_peak: dict[str, str | int] | None = None
    cold_requests: dict[str, str | int] | None = None
    system_peak: dict[str, str | int] | None = None


class DetailedPrediction(wire.PredictorReport, rename="camel", frozen=True):
    """A prediction with its terms."""

    prod: ProdPeakTerms | None = None


class DetailedReport(wire.WireReport, rename="camel", frozen=True):
    """The status of a NodeMetric, as far as the page of its node shows it."""

    node_metric: NodeWindows | None = None
    prediction: DetailedPrediction | None = None


class DetailedNodeMetric(msgspec.Struct, frozen=True):
    """A NodeMetric with windows, terms and conditions."""

    status: DetailedReport | None = None
