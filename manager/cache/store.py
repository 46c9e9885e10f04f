"""Store of the watched Nodes, NodeMetrics and ConfigMap: decoded once, the newest version of each. No I/O.

Level-based: an event only updates the store and names its object; decisions are made from the store. Events of one
object may overtake one another (the deletion of an earlier object of the same name, the response to the manager's own
patch), so an older version never replaces a newer one. Only a whole list may: where its own version is below what is
stored, etcd was restored from a backup, and the list is what exists (`Store.replace`).
"""

from __future__ import annotations

import enum
import functools
import sys
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from api_types import names
from api_types.kubernetes import pods
from api_types.node_metric import evaluation_report, mid_report, mid_status
from api_types.node_metric.evaluation_report import Packed, WirePrediction
from api_types.node_metric.mid_report import MidReport
from api_types.node_metric.mid_status import MidStatus
from apiserver_client.decoding import version_number

READ_ANNOTATIONS: Final = (
    names.ANNOTATION_COLOCATION_STRATEGY,
    names.ANNOTATION_NODE_RESERVATION,
    names.ANNOTATION_RAW_ALLOCATABLE,
    names.ANNOTATION_MID_STATUS,
    names.ANNOTATION_MID_EVICTION,
    names.ANNOTATION_DO_NOT_DISRUPT,
    names.ANNOTATION_SCALE_DOWN_DISABLED,
)
"""Annotations of a node that the manager reads; the others, up to 256 KiB of each node, are not stored."""
_PLAIN: Final = pods.NodeSpec()
"""Spec of most nodes, which keep no pod off: one object for all of them."""
_CALIBRATED: Final = "calibrated"
_LARGEST_SHARED_SPEC_BYTES: Final = 16 * 2**10


class StoredNode(pods.Node, frozen=True):
    """A Node with its status annotation, decoded."""

    mid_status: MidStatus | None = None


class ManagedFields(msgspec.Struct, frozen=True, gc=False):
    """Subresource that a client wrote, and the apiserver's time of its last change."""

    subresource: str = ""
    time: str | None = None


class NodeMetricMetadata(mid_report.Metadata, rename="camel", frozen=True, gc=False):
    """Identity of a NodeMetric, and the clients that wrote it."""

    managed_fields: list[ManagedFields] | None = None
    generation: int = 0


class StoredReport(MidReport, rename="camel", frozen=True):
    """The parts of a NodeMetric's status that the manager reads.

    In the store, `prediction` and what is not decoded are absent: `on_report` of the store and `lent` have them.
    """

    observed_generation: int | None = None
    prediction: WirePrediction | None = None
    workloads: Any = None
    workloads_time: str | None = None
    cold_pods: Any = None
    scores: Any = None


class Lent(NamedTuple):
    """What the spec of a NodeMetric has of other nodes: names of pods with a history, and of the prior of scores."""

    pods: str = ""
    prior: str = ""


NOTHING_LENT: Final = Lent()


def prior_name(prior: Mapping[str, Any] | None) -> str:
    """Return a text that differs between two `spec.scorePrior`; empty without one."""
    if not prior:
        return ""
    labels = (int((prior.get(resource) or {}).get("labels", 0)) for resource in (names.CPU, names.MEMORY))
    return "/".join([str(prior.get("updateTime")), str(prior.get("nodes")), *map(str, labels)])


class StoredNodeMetric(mid_report.NodeMetric, frozen=True, gc=False):
    """The parts of a NodeMetric that the manager reads; the spec exactly as received."""

    metadata: NodeMetricMetadata = NodeMetricMetadata()
    status: StoredReport | None = None
    spec: dict[str, Any] | None = None
    """Without what is `lent`."""
    lent: Lent = NOTHING_LENT
    cold_pods: bytes = b""
    """`status.coldPods` as JSON; empty without any."""
    is_young: bool = False
    """Whether the calibrated prediction of a resource has too few scores of its own."""


class ConfigMap(msgspec.Struct, frozen=True):
    """A ConfigMap."""

    metadata: pods.ObjectMeta = pods.ObjectMeta()
    data: dict[str, str] | None = None


Stored = pods.Node | StoredNodeMetric | pods.AnyObject | ConfigMap
StoredT = TypeVar("StoredT", bound=Stored)


class Store(Generic[StoredT]):
    """The newest version of each object of one kind, by name."""

    def __init__(self, view: type[StoredT]) -> None:
        self._view = view
        self._objects: dict[str, StoredT] = {}
        self.newest_version = 0
        """Highest version that was stored."""

    def __len__(self) -> int:
        return len(self._objects)

    def names(self) -> list[str]:
        """Return the names of all objects."""
        return list(self._objects)

    def get(self, name: str) -> StoredT | None:
        """Return the object of this name, None where there is none."""
        return self._objects.get(name)

    def gone(self, listed: Container[str], as_of: str) -> list[str]:
        """Return the names that a list of the version `as_of` no longer has; an object of a later one may be new."""
        newest = version_number(as_of)
        return [
            name
            for name, item in self._objects.items()
            if name not in listed and version_number(item.metadata.resource_version) <= newest
        ]

    def decode(self, wire: Mapping[str, Any]) -> StoredT:
        """Decode an object; usable from any thread. Raises msgspec.ValidationError."""
        return msgspec.convert(wire, type=self._view)

    def update(self, item: StoredT) -> bool:
        """Store an object unless a newer version of it is stored; return whether it was stored."""
        stored, version = self._objects.get(item.metadata.name), version_number(item.metadata.resource_version)
        if stored is not None and version < version_number(stored.metadata.resource_version):
            return False
        self._objects[item.metadata.name] = item
        self.newest_version = max(self.newest_version, version)
        return True

    def remove(self, name: str, uid: str | None = None) -> None:
        """Remove an object; with `uid` only if the stored object has this UID."""
        stored = self._objects.get(name)
        if stored is not None and uid in (None, stored.metadata.uid):
            del self._objects[name]

    def replace(self, listed: Iterable[StoredT]) -> None:
        """Store exactly the objects of a list, whatever versions are stored."""
        self._objects.clear()
        self.newest_version = 0
        for item in listed:
            self.update(item)


class NodeStore(Store[StoredNode]):
    """Nodes; the status annotation of each is decoded when it enters the store, and again only when it changed."""

    def __init__(self) -> None:
        super().__init__(StoredNode)

    def update(self, node: pods.Node, *, only_known: bool = False) -> bool:
        """Store a node unless a newer version of it is stored; return whether it was stored.

        With `only_known` the same node has to be stored: the watch may deliver a deletion before the answer to a patch
        arrives, which must not bring the node back.
        """
        stored = self._objects.get(node.metadata.name)
        if only_known and (stored is None or stored.metadata.uid != node.metadata.uid):
            return False
        node = with_read_annotations(node)
        text = mid_status.text_of(node)
        is_same = stored is not None and mid_status.text_of(stored) == text
        return super().update(_with(node, stored.mid_status if stored and is_same else mid_status.decode(text)))


def with_read_annotations(node: pods.Node, *more: str) -> pods.Node:
    """Return a node with the annotations that are read and `more`; equal labels of all nodes are one string."""
    annotations = {
        key: pods.TOO_LONG if pods.is_too_long(text) else text
        for key in (*READ_ANNOTATIONS, *more)
        if (text := (node.metadata.annotations or {}).get(key)) is not None
    }
    labels = {sys.intern(key): sys.intern(value) for key, value in (node.metadata.labels or {}).items()}
    return msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, labels=labels, annotations=annotations)
    )


def with_mid_status(node: pods.Node) -> StoredNode:
    """Decode the status annotation of a node."""
    return _with(node, mid_status.decode(mid_status.text_of(node)))


def _with(node: pods.Node, decoded: MidStatus | None) -> StoredNode:
    spec = node.spec if node.spec.taints or node.spec.unschedulable else _PLAIN
    return StoredNode(metadata=node.metadata, status=node.status, spec=spec, mid_status=decoded)


@functools.lru_cache(maxsize=64)
def _shared(spec: bytes) -> dict[str, Any]:
    """Return the same object for equal specs: most nodes have one of few strategies."""
    shared: dict[str, Any] = msgspec.json.decode(spec)
    return shared


def _without_lent(metric: StoredNodeMetric, spec: dict[str, Any]) -> StoredNodeMetric:
    """Take what is lent, which is of one node alone, out of the spec, which many nodes share."""
    lent = NOTHING_LENT
    if "workloadHistory" in spec or "scorePrior" in spec:
        spec = dict(spec)
        history, prior = spec.pop("workloadHistory", None), spec.pop("scorePrior", None)
        lent = Lent(",".join(sorted(str(entry.get("pod")) for entry in history or ())), prior_name(prior))
    encoded = msgspec.json.encode(spec)
    shared = _shared(encoded) if len(encoded) <= _LARGEST_SHARED_SPEC_BYTES else spec
    return msgspec.structs.replace(metric, spec=shared, lent=lent)


class NodeMetricStore(Store[StoredNodeMetric]):
    """NodeMetrics without their evaluations, which are packed: decoded, those of 5,000 nodes take 3.6 MiB.

    Equal specs are one object.
    """

    def __init__(self) -> None:
        super().__init__(StoredNodeMetric)
        self._evaluations: dict[str, Packed] = {}
        self.on_report: Callable[[StoredNodeMetric, StoredReport], None] = lambda *_: None
        """Called with each new NodeMetric that states something, and its report before that is dropped from it."""

    def evaluations(self) -> list[Packed]:
        """Return the live evaluation of each node that reports one; usable from any thread."""
        return list(self._evaluations.values())

    def update(self, metric: StoredNodeMetric) -> bool:
        """Store a NodeMetric unless a newer version of it is stored; return whether it was stored."""
        if metric.spec is not None:
            metric = _without_lent(metric, metric.spec)
        status, packed = metric.status, None
        if status is not None:
            packed = evaluation_report.pack(status.prediction.evaluation or ()) if status.prediction else None
            levels = (status.prediction.level if status.prediction else None) or {}
            small = msgspec.structs.replace(
                status, prediction=None, workloads=None, workloads_time=None, cold_pods=None, scores=None
            )
            metric = msgspec.structs.replace(
                metric, status=small, cold_pods=msgspec.json.encode(status.cold_pods) if status.cold_pods else b"",
                is_young=any(level != _CALIBRATED for level in levels.values()),
            )  # fmt: skip
        if not super().update(metric):
            return False
        if status is not None and (status.workloads or status.scores):
            self.on_report(metric, status)
        if packed is not None and packed.predictors:
            self._evaluations[metric.metadata.name] = packed
        else:
            self._evaluations.pop(metric.metadata.name, None)
        return True

    def remove(self, name: str, uid: str | None = None) -> None:
        """Remove a NodeMetric; with `uid` only if the stored one has this UID."""
        super().remove(name, uid)
        if self.get(name) is None:
            self._evaluations.pop(name, None)

    def replace(self, listed: Iterable[StoredNodeMetric]) -> None:
        """Store exactly the objects of a list, whatever versions are stored."""
        self._evaluations.clear()
        super().replace(listed)


class ConfigMapStore(Store[ConfigMap]):
    """The users' ConfigMap; without `is_read`, one that is not here may exist."""

    def __init__(self) -> None:
        super().__init__(ConfigMap)
        self.is_read = False

    def update(self, config_map: ConfigMap) -> bool:
        """Store the ConfigMap unless a newer version of it is stored; return whether it was stored."""
        self.is_read = True
        return super().update(config_map)


class Availability(enum.Enum):
    """Whether the stored NodeMetrics are those of the cluster."""

    UNREAD = enum.auto()
    """No list has succeeded: a NodeMetric that is not stored may exist."""
    LISTED = enum.auto()
    NOT_SERVED = enum.auto()
    """The CRD is missing: there are none."""


class ClusterStore:
    """Store of Nodes, NodeMetrics and the users' ConfigMap."""

    def __init__(self) -> None:
        self.nodes = NodeStore()
        self.node_metrics = NodeMetricStore()
        self.config_maps = ConfigMapStore()
        self.node_metrics_are = Availability.LISTED
