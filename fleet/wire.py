"""Objects of the cluster, decoded to the fields that are shown; the decoder skips the others. Pure."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec

from api_types.kubernetes import pods, times
from api_types.node_metric.evaluation_report import WirePrediction
from api_types.node_metric.mid_report import WirePodUsage
from manager.cache import store


class WireCondition(msgspec.Struct, frozen=True):
    """A condition of an agent's report, or of a pod: PodScheduled has the reasons of kube-scheduler."""

    type: str = ""
    status: str = ""
    reason: str | None = ""
    message: str | None = ""


class ProdPeakTerms(msgspec.Struct, rename="camel", frozen=True):
    """Predicted peak of the Prod pods and its terms."""

    peak: dict[str, str | int] | None = None
    class_peak: dict[str, str | int] | None = None
    pod_sum_peak: dict[str, str | int] | None = None
    cold_requests: dict[str, str | int] | None = None
    system_peak: dict[str, str | int] | None = None


class PredictorReport(WirePrediction, rename="camel", frozen=True):
    """`status.prediction`: the predictor, the pods that it has a history of, and the terms of the peak."""

    predictor: str = ""
    since: str | None = None
    warm_pods: int = 0
    cold_pods: int = 0
    borrowed_pods: int = 0
    prod: ProdPeakTerms | None = None


class WireReport(store.StoredReport, rename="camel", frozen=True):
    """The status of a NodeMetric without its pods."""

    prediction: PredictorReport | None = None
    conditions: list[WireCondition] | None = None


class WireNodeMetric(store.StoredNodeMetric, frozen=True, gc=False):
    """A NodeMetric without its pods."""

    status: WireReport | None = None


class PodReport(WireReport, rename="camel", frozen=True):
    """The status of a NodeMetric with its pods."""

    pods_metric: list[WirePodUsage] | None = None


class NodeMetricWithPods(WireNodeMetric, frozen=True, gc=False):
    """A NodeMetric with its pods."""

    status: PodReport | None = None


class WireContainer(msgspec.Struct, frozen=True):
    """Arguments of a container."""

    args: list[str] | None = None


class PodTemplateSpec(msgspec.Struct, frozen=True):
    """Containers of a pod template."""

    containers: list[WireContainer] | None = None


class PodTemplate(msgspec.Struct, frozen=True):
    """Template of the pods of a workload."""

    spec: PodTemplateSpec = PodTemplateSpec()


class WorkloadSpec(msgspec.Struct, frozen=True):
    """Replicas that a Deployment wants, and what runs in them."""

    replicas: int | None = None
    template: PodTemplate = PodTemplate()


class WorkloadStatus(msgspec.Struct, rename="camel", frozen=True):
    """Pod counts of a DaemonSet or a Deployment."""

    number_ready: int = 0
    desired_number_scheduled: int = 0
    ready_replicas: int = 0
    replicas: int = 0


class WireWorkload(msgspec.Struct, frozen=True):
    """A DaemonSet or a Deployment, with the labels of the chart."""

    metadata: pods.ObjectMeta = pods.ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def ready(self) -> int:
        """Return the number of pods that are ready."""
        return self.status.number_ready or self.status.ready_replicas

    @property
    def wanted(self) -> int:
        """Return the number of pods that should be ready, also those that could not be created."""
        return max(self.status.desired_number_scheduled, self.spec.replicas or 0, self.status.replicas)

    def argument(self, flag: str) -> str:
        """Return the value of `flag=value`, or the `flag`, of the last one as programs do; empty without one."""
        containers = self.spec.template.spec.containers or ()
        arguments = [argument.partition("=") for container in containers for argument in container.args or ()]
        return next((value if is_set else name for name, is_set, value in reversed(arguments) if name == flag), "")


class WirePriorityClass(msgspec.Struct, frozen=True):
    """A PriorityClass."""

    metadata: pods.ObjectMeta = pods.ObjectMeta()
    value: int = 0


class WireWebhooks(msgspec.Struct, frozen=True):
    """A webhook configuration, or a binding, which has none."""

    webhooks: list[dict[str, Any]] | None = None


class WireVersion(msgspec.Struct, rename="camel", frozen=True):
    """Answer of `/version`."""

    git_version: str = ""


class ObjectReference(msgspec.Struct, frozen=True):
    """Object of an Event."""

    kind: str = ""
    name: str = ""


class WireEvent(msgspec.Struct, rename="camel", frozen=True):
    """An Event."""

    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    metadata: pods.TenantMeta = pods.TenantMeta()

    @property
    def key(self) -> str:
        """Return namespace and name of its object."""
        return f"{self.metadata.namespace}/{self.involved_object.name}"

    @property
    def time(self) -> dt.datetime | None:
        """Return the time of the newest occurrence; None where its author states none."""
        return times.parse_rfc3339_or_none(self.last_timestamp or self.event_time)
