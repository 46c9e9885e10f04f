"""Define the resource types that this project reads and writes, and their paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from api_types import names


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource type: its group, version and names. `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """Return the value of `apiVersion` in an object of this type."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, name: str | None = None, *, namespace: str | None = None, subresource: str = "") -> str:
        """Return the path of one object, or of the collection if `name` is None; all namespaces if `namespace` is None.

        Raises ValueError when name or namespace is missing or not applicable: the URL would mean another object.
        """
        if name == "":
            raise ValueError(f"the name of a {self.kind} is empty")
        if namespace is not None and not self.namespaced:
            raise ValueError(f"{self.plural} are cluster-wide: got namespace {namespace!r}, want none")
        if self.namespaced and (namespace == "" or (namespace is None and name is not None)):
            raise ValueError(f"a {self.kind} has a namespace: got none for {name!r}")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(parts)


NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
EVENTS: Final = Resource("", "v1", "events", "Event", namespaced=True)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
JOBS: Final = Resource("batch", "v1", "jobs", "Job", namespaced=True)
CRON_JOBS: Final = Resource("batch", "v1", "cronjobs", "CronJob", namespaced=True)
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
NODE_METRICS: Final = Resource(
    names.GROUP, names.VERSION, names.NODE_METRIC_PLURAL, names.NODE_METRIC_KIND, namespaced=False
)
NODE_SLOS: Final = Resource(names.GROUP, names.VERSION, "nodeslos", "NodeSLO", namespaced=False)
