"""One snapshot of the cluster, as far as the caller may read it. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from api_types import names
from fleet import wire
from fleet.node_state import NodeState
from fleet.pod_state import PodState
from manager.slo_config.evaluation import ConfigOutcome

LAST_GOOD_CONFIG: Final = "koord-manager-last-good-config"
"""ConfigMap in which the manager keeps the last valid document."""
VERSION_LABEL: Final = "app.kubernetes.io/version"


class Unread(NamedTuple):
    """Objects that were not read."""

    what: str
    """Such as `nodes`, or `leases/koord-manager`."""
    why: str
    is_right: bool = False
    """Whether a right is missing; otherwise the objects do not exist, or cannot be decoded."""


@dataclass(frozen=True)
class Installation:
    """Objects of the suite in its namespace; a workload that is not installed is absent."""

    namespace: str
    kubernetes: str = ""
    workloads: Mapping[str, wire.WireWorkload] = field(default_factory=dict)
    """koordlet, koord-manager and koord-scheduler."""
    leader: str = ""
    renewed: dt.datetime | None = None
    outcome: ConfigOutcome | None = None
    """Configuration; None where it was not read."""
    config_map: str = names.SLO_CONTROLLER_CONFIG
    """ConfigMap that the manager reads."""
    kept_in: str = ""
    """ConfigMap of the last valid document."""

    def versions(self) -> Mapping[str, str]:
        """Return the version of each workload, by the label of the chart."""
        versions = {
            name: (workload.metadata.labels or {}).get(VERSION_LABEL, "") for name, workload in self.workloads.items()
        }
        return {name: version for name, version in versions.items() if version}


@dataclass(frozen=True)
class FleetSnapshot:
    """Everything that was read. Nodes and pods are None where no list could be read."""

    time: dt.datetime
    server: str
    nodes: tuple[NodeState, ...] | None = None
    pods: tuple[PodState, ...] | None = None
    installation: Installation | None = None
    unread: tuple[Unread, ...] = ()

    def is_unread(self, what: str) -> bool:
        """Check whether objects could not be read."""
        return any(gap.what == what for gap in self.unread)
