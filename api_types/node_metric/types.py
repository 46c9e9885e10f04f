"""Define the NodeMetric resource: measurements and predictions of a node's agent, and the policies that it follows.

The koordlet owns `status` and replaces it; the manager owns `spec`. Fields marked "extension" are unknown to
Koordinator's components, which ignore them; readers accept their absence, because Koordinator's agent does not report
them. The descriptions below become those of the CRD.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

import pydantic

from api_types import names
from api_types.colocation import controller_config
from api_types.node_metric.workloads import (
    MOST_HISTORY,
    MOST_WORKLOADS,
    AddedWorkload,
    ColdPod,
    ReportedScores,
    ScorePrior,
    WorkloadHistory,
)
from api_types.wire_model import ResourceList, Timestamp, WireModel


class NodeMemoryCollectPolicy(enum.StrEnum):
    """Memory that counts as used."""

    WITH_HOT_PAGE_CACHE = "usageWithHotPageCache"
    WITHOUT_PAGE_CACHE = "usageWithoutPageCache"
    WITH_PAGE_CACHE = "usageWithPageCache"


class AggregatePolicy(WireModel):
    """Windows over which usage is aggregated."""

    durations: list[str] | None = None
    """Length of each window, as Go duration text such as 5m0s, at most 12h."""


class MetricCollectPolicy(WireModel):
    """Intervals and windows of the node's agent."""

    aggregate_duration_seconds: int | None = None
    """Window of the plain usages, in seconds (60 to 43200)."""
    report_interval_seconds: int | None = None
    """Time between two reports, in seconds (at least 30)."""
    node_aggregate_policy: AggregatePolicy | None = None
    """Windows of the aggregated usages."""
    node_memory_collect_policy: NodeMemoryCollectPolicy | None = None
    """Memory that counts as used; usageWithHotPageCache is not supported and has the effect of the default."""


class NodeMetricSpec(WireModel):
    """The merged policies of this node, written by the manager."""

    metric_collect_policy: MetricCollectPolicy | None = None
    """Intervals and windows of the agent."""
    predict_policy: controller_config.PredictPolicy | None = None
    """Extension: parameters of the prediction."""
    mid_colocation_policy: controller_config.MidColocationPolicy | None = None
    """Extension: parameters from which the Mid resources of this node are calculated."""
    workload_history: Annotated[list[WorkloadHistory] | None, pydantic.Field(max_length=MOST_HISTORY)] = None
    """Extension: what is known of the workloads of this node's cold pods."""
    score_prior: ScorePrior | None = None
    """Extension: scores of the nodes that are like this one."""


class DeviceTopology(WireModel):
    """Position of a device in the machine."""

    socket_id: int | None = None
    node_id: int | None = None
    pcie_id: str | None = None
    bus_id: str | None = None


class VirtualFunction(WireModel):
    """One virtual function of a device."""

    minor: int | None = None
    bus_id: str | None = None


class VirtualFunctionGroup(WireModel):
    """Virtual functions that share labels."""

    labels: dict[str, str] | None = None
    vfs: list[VirtualFunction] | None = None


class NodeMetricCondition(WireModel):
    """A condition, as metav1.Condition."""

    type: str
    """Type of the condition, such as Ready."""
    status: Literal["True", "False", "Unknown"]
    """True, False or Unknown."""
    reason: str | None = None
    """Reason in one CamelCase word."""
    message: str | None = None
    """Details for people, with the path or address that was tried."""
    last_transition_time: Timestamp | None = None
    """Time of the last change of the status."""
    observed_generation: int | None = None
    """Generation of the spec from which the condition was computed."""


class DeviceInfo(WireModel):
    """Usage or identity of one device."""

    type: str | None = None
    id: str | None = None
    minor: int | None = None
    module_id: int | None = None
    health: bool = False
    labels: dict[str, str] | None = None
    resources: ResourceList | None = None
    conditions: list[NodeMetricCondition] | None = None
    topology: DeviceTopology | None = None
    vf_groups: list[VirtualFunctionGroup] | None = None


class ResourceMap(WireModel):
    """Resources and devices of one usage."""

    resources: ResourceList | None = None
    """Resource name to quantity."""
    devices: list[DeviceInfo] | None = None
    """Usage of devices."""


class AggregatedUsage(WireModel):
    """Statistics of a usage over one window."""

    duration: str | None = None
    """Length of the window, as Go duration text."""
    usage: dict[str, ResourceMap] | None = None
    """Statistic (avg, p50, p90, p95, p99; extension: std) to usage; empty while data cover less than half of it."""


class NumaUsage(WireModel):
    """Mean usage of one NUMA node."""

    numa_node_id: int
    """Number of the node."""
    node_usage: ResourceMap = ResourceMap()
    """Usage of its CPUs and of its memory."""
    system_usage: ResourceMap = ResourceMap()
    """Part of it outside pods; empty where it is unknown."""


class NodeMetricInfo(WireModel):
    """Usage of the node."""

    node_usage: ResourceMap = ResourceMap()
    """Mean usage of the whole node."""
    system_usage: ResourceMap = ResourceMap()
    """Mean usage outside pods."""
    aggregated_node_usages: list[AggregatedUsage] | None = None
    """Statistics of the node's usage, one entry for each window."""
    aggregated_system_usages: list[AggregatedUsage] | None = None
    """Statistics of the usage outside pods, one entry for each window."""
    numa_usages: list[NumaUsage] | None = None
    """Mean usage of each NUMA node; absent on a machine with one NUMA node, where it equals nodeUsage."""


class PodMetricInfo(WireModel):
    """Mean usage of one pod."""

    name: str | None = None
    namespace: str | None = None
    pod_usage: ResourceMap = ResourceMap()
    """Mean usage over the aggregate duration."""
    priority: str | None = None
    """Priority class, with default."""
    qos: str | None = None
    """QoS class, with default."""
    extensions: dict[str, Any] | None = pydantic.Field(
        None, json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}
    )
    """Additions of third parties."""


class HostApplicationMetricInfo(WireModel):
    """Mean usage of one application outside pods."""

    name: str | None = None
    usage: ResourceMap = ResourceMap()
    priority: str | None = None
    qos: str | None = None


class ReclaimableMetric(WireModel):
    """Resources in a wrapper, as in Koordinator."""

    resource: ResourceMap = ResourceMap()


class AllocatedMetric(WireModel):
    """Requests bound on this node, from the same snapshot as the usage."""

    prod: ResourceList
    """Native cpu and memory requests of the Prod pods."""
    mid: ResourceList
    """kubernetes.io/mid-cpu (milli-cores) and kubernetes.io/mid-memory (bytes) requests of all pods."""
    below_prod: ResourceList | None = None
    """Native requests of the Mid, Batch and Free pods; absent without any."""


class UsageByClass(WireModel):
    """Usage by priority class, each as native cpu and memory. The four add up to the usage of the node."""

    prod: ResourceList
    """Usage of the Prod pods; pods without a priority class count as Prod."""
    mid: ResourceList
    """Usage of the Mid pods."""
    batch_and_free: ResourceList
    """Usage of the Batch and Free pods."""
    system: ResourceList
    """All other usage: outside pods, and of pods that are not known or not measured."""
    native_mid: ResourceList | None = None
    """Part of mid that no Mid request covers: memory, and CPU up to what is requested natively; absent without any."""


class NodePrediction(WireModel):
    """Prediction for the whole node."""

    mean: ResourceList
    stdev: ResourceList
    peak: ResourceList


class ProdPrediction(WireModel):
    """Predicted peak of the Prod pods and its terms; a term that the predictor does not use is absent."""

    peak: ResourceList
    """Reported peak, as in prodPeakMetric."""
    class_peak: ResourceList | None = None
    """Peak predicted from the usage of the class as a whole, with system usage beyond what the node reserves."""
    pod_sum_peak: ResourceList | None = None
    """Sum of the peaks predicted from the usage of each warm pod."""
    cold_requests: ResourceList | None = None
    """Requests of the Prod pods with too little recorded history, or their usage where larger; part of every peak."""
    system_peak: ResourceList | None = None
    """Predicted system usage beyond what the node reserves."""


class ResourceEvaluation(WireModel):
    """Forecasts of one predictor for one resource, compared with the usage that followed."""

    forecasts: float
    """Number of forecasts whose horizon has passed; one counts half after 7 days."""
    violation_percent: float
    """Share of the forecasts that the usage of the same pods exceeded."""
    severity_percent: float | None = None
    """Mean excess of the violations, as a share of that usage; absent without a violation."""
    savings_percent: float
    """Share of the requests that the forecast peaks would have left."""
    worst_hour: int | None = None
    """Hour of the week with most violations, 0 from Monday 00:00 UTC on; absent without a violation."""
    worst_hour_violation_percent: float | None = None
    """Share of the forecasts of that hour that the usage exceeded."""


class PredictorEvaluation(WireModel):
    """Live evaluation of one predictor on this node."""

    predictor: str
    """Name of the predictor."""
    horizon_seconds: int
    """Time for which each forecast had to be high enough."""
    cpu: ResourceEvaluation | None = None
    """Forecasts of CPU; absent while none has ended."""
    memory: ResourceEvaluation | None = None
    """Forecasts of memory; absent while none has ended."""


CalibrationLevel = Literal["n-sigma-v2", "max", "calibrated", "prior"]


class CalibrationLevels(WireModel):
    """Answer in force of `calibrated`: `n-sigma-v2` until 24 forecasts have ended, the larger of both until 48.

    `prior`: calibrated by the scores of nodes like this one, until it has 48 of its own.
    """

    cpu: CalibrationLevel
    memory: CalibrationLevel
    until: Timestamp | None = None
    """Time at which both are `calibrated` at the earliest; absent when they are."""


class PredictionStatus(WireModel):
    """Predictor, parameters and terms of a prediction."""

    predictor: str
    """Name of the predictor."""
    parameters: controller_config.PredictPolicy
    """Every parameter of the predictor."""
    time: Timestamp
    """Time of the prediction."""
    since: Timestamp | None = None
    """Start of the recorded history."""
    warm_pods: int
    """Prod pods predicted from their history."""
    cold_pods: int
    """Prod pods with too little history, counted with their request."""
    borrowed_pods: int | None = None
    """Prod pods with too little history of their own, predicted from that of their workload."""
    level: CalibrationLevels | None = None
    """Answer in force of `calibrated`, by resource; absent for other predictors."""
    node: NodePrediction | None = None
    prod: ProdPrediction
    evaluation: Annotated[
        list[PredictorEvaluation] | None, pydantic.Field(max_length=controller_config.MOST_EVALUATED + 1)
    ] = None
    """Forecasts that no component acts on, of the predictor in force first; absent while none has ended."""


class NodeMetricStatus(WireModel):
    """Measurements and predictions of the agent, all of one snapshot."""

    observed_generation: int | None = None
    """Extension: generation of the spec that this report follows."""
    update_time: Timestamp | None = None
    """Time of the sample."""
    node_metric: NodeMetricInfo | None = None
    """Usage of the node."""
    pods_metric: list[PodMetricInfo] | None = None
    """Usage of each pod, sorted by namespace and name."""
    host_application_metric: list[HostApplicationMetricInfo] | None = None
    """Usage of applications outside pods."""
    prod_reclaimable_metric: ReclaimableMetric | None = None
    """Requested by Prod pods and not needed by their peak; absent when there is no prediction."""
    prod_peak_metric: ReclaimableMetric | None = None
    """Predicted peak of the Prod pods; absent when there is no prediction."""
    allocated: AllocatedMetric | None = None
    """Extension: requests bound on this node."""
    usage: UsageByClass | None = None
    """Extension: mean usage of the last 30 s by priority class; absent while it is not known."""
    prediction: PredictionStatus | None = None
    """Extension: predictor, parameters and terms; absent when there is no prediction."""
    workloads: Annotated[list[AddedWorkload] | None, pydantic.Field(max_length=MOST_WORKLOADS)] = None
    """Extension: what the warm pods added until `workloadsTime`, by controller, the largest weight first."""
    workloads_time: Timestamp | None = None
    """Extension: time of the hourly statement in `workloads`."""
    cold_pods: Annotated[list[ColdPod] | None, pydantic.Field(max_length=MOST_HISTORY)] = None
    """Extension: pods for which `spec.workloadHistory` may help, the youngest first; absent without any."""
    scores: ReportedScores | None = None
    """Extension: scores of the calibrated forecasts of this node, once an hour."""
    conditions: list[NodeMetricCondition] | None = None
    """Extension: Ready, WarmingUp, SourceDegraded, PredictionDegraded, Throttled, SuppressionDegraded,
    MidPodsWithoutLimits."""


class NodeMetricDocument(WireModel):
    """Measured and predicted load of the node of the same name."""

    api_version: str = names.API_VERSION
    kind: str = names.NODE_METRIC_KIND
    metadata: dict[str, Any]
    spec: NodeMetricSpec | None = None
    status: NodeMetricStatus | None = None
