"""Rights that koordctl reads with, and those that an installation needs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from api_types import names
from fleet import scheduler_config
from fleet.findings import AGENT, MANAGER, SCHEDULER
from fleet.snapshot import LAST_GOOD_CONFIG


class Right(NamedTuple):
    """A right, in the terms of RBAC."""

    verb: str
    resource: str
    """With its subresource, such as `pods/log`."""
    group: str = ""
    in_namespace: bool = False
    """Whether it is needed in the namespace of the suite only."""
    name: str = ""

    def __str__(self) -> str:
        """Return the right in words."""
        about = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{about}" + (" in NAMESPACE" if self.in_namespace else "")


def _reads(resource: str, group: str = "") -> Iterator[Right]:
    return (Right(verb, resource, group) for verb in ("get", "list", "watch"))


VIEWER: Final = (
    *_reads("nodes"),
    *_reads("pods"),
    *_reads("namespaces"),
    *_reads(names.NODE_METRIC_PLURAL, names.GROUP),
    Right("list", "priorityclasses", "scheduling.k8s.io"),
    Right("get", "configmaps", in_namespace=True, name=names.SLO_CONTROLLER_CONFIG),
    Right("get", "configmaps", in_namespace=True, name=LAST_GOOD_CONFIG),
    *(Right("get", "configmaps", in_namespace=True, name=name) for name in scheduler_config.CONFIG_MAPS),
    Right("get", "daemonsets", "apps", in_namespace=True, name=AGENT),
    Right("get", "deployments", "apps", in_namespace=True, name=MANAGER),
    Right("get", "deployments", "apps", in_namespace=True, name=SCHEDULER),
    Right("get", "leases", "coordination.k8s.io", in_namespace=True, name=MANAGER),
    Right("get", "leases", "coordination.k8s.io", in_namespace=True, name=SCHEDULER),
    Right("list", "events", in_namespace=True),
    Right("get", "pods/log", in_namespace=True),
    Right("create", "pods/portforward", in_namespace=True),
)
"""Rights of the role `koord-viewer` of the chart: what the commands that only read need."""

INSTALLER: Final = (
    Right("create", "namespaces"),
    Right("create", "customresourcedefinitions", "apiextensions.k8s.io"),
    Right("create", "priorityclasses", "scheduling.k8s.io"),
    Right("create", "clusterroles", "rbac.authorization.k8s.io"),
    Right("create", "clusterrolebindings", "rbac.authorization.k8s.io"),
    Right("create", "validatingadmissionpolicies", "admissionregistration.k8s.io"),
    Right("create", "validatingadmissionpolicybindings", "admissionregistration.k8s.io"),
    Right("create", "roles", "rbac.authorization.k8s.io", in_namespace=True),
    Right("create", "rolebindings", "rbac.authorization.k8s.io", in_namespace=True),
    Right("create", "serviceaccounts", in_namespace=True),
    Right("create", "configmaps", in_namespace=True),
    Right("create", "secrets", in_namespace=True),
    Right("create", "services", in_namespace=True),
    Right("create", "daemonsets", "apps", in_namespace=True),
    Right("create", "deployments", "apps", in_namespace=True),
    Right("create", "poddisruptionbudgets", "policy", in_namespace=True),
    Right("create", "jobs", "batch", in_namespace=True),
)
"""Rights that `helm install` needs with the default values; helm keeps its release in a Secret."""


def with_config_map(rights: Iterable[Right], name: str) -> list[Right]:
    """Return rights in which the ConfigMap of the configuration has another name."""
    return [right._replace(name=name) if right.name == names.SLO_CONTROLLER_CONFIG else right for right in rights]


def named(rights: Iterable[Right], namespace: str) -> str:
    """Return rights in words, those of one resource together: `get, list nodes; get leases in monitoring`."""
    verbs: dict[str, list[str]] = {}
    for right in rights:
        what = str(right).removeprefix(f"{right.verb} ").replace("NAMESPACE", namespace)
        verbs.setdefault(what, []).append(right.verb)
    return "; ".join(f"{', '.join(of)} {what}" for what, of in verbs.items())
