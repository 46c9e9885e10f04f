"""Settings of the manager process. Settings of nodes are in the ConfigMap."""

from __future__ import annotations

from typing import Final, Literal

import pydantic

from api_types import names
from component_base import listening, settings

ENV_PREFIX: Final = "MANAGER"
DEFAULT_HTTP_PORT: Final = 9317


class ManagerSettings(settings.ProcessSettings):
    """Settings, validated once at start, frozen."""

    namespace: str = pydantic.Field(names.NAMESPACE, min_length=1, max_length=63)
    """Namespace of the configuration and of the Lease."""
    config_map: str = pydantic.Field(names.SLO_CONTROLLER_CONFIG, min_length=1, max_length=253)
    """ConfigMap with the key colocation-config."""
    last_good_config_map: str = pydantic.Field(names.LAST_GOOD_CONFIG, min_length=1, max_length=253)
    """ConfigMap in which the manager keeps the last valid document."""
    workers: int = pydantic.Field(8, ge=1, le=64)
    """Nodes reconciled in parallel, which bounds the parallel writes."""
    withdrawal_check_seconds: int = pydantic.Field(30, ge=5, le=600)
    """How often a node is reconciled whose Mid resources are withdrawn but still in use."""
    eviction_namespaces: str = ""
    """Namespaces in which the manager has the right to evict Mid pods, separated by commas; * for all."""
    workload_history: bool = True
    """Keep the usage of workloads, and hand it to the nodes on which their new pods run."""
    create_node_slos: bool = False
    """Create an empty NodeSLO for each node that has none: Koordinator's agent waits for it."""
    autoscaling: Literal["none", "karpenter", "cluster-autoscaler"] = "none"
    """Autoscaler of the nodes. Beside one, nodes that only Mid pods keep are emptied by default."""
    lease: str = pydantic.Field("koord-manager", min_length=1, max_length=253)
    """Lease of the leader election."""
    lease_duration_seconds: float = pydantic.Field(15.0, ge=1.0, le=120.0)
    """How long candidates wait for a leader that no longer renews."""
    renew_deadline_seconds: float = pydantic.Field(10.0, ge=0.5, le=100.0)
    """How long a leader continues without a renewal; at most 0.8 of the lease, so that two never lead."""
    retry_period_seconds: float = pydantic.Field(2.0, ge=0.05, le=30.0)
    """Time between two attempts to acquire or renew the Lease."""
    http_address: str = listening.ALL_ADDRESSES
    """Address of /healthz, /readyz and /metrics. :: is every address of IPv6 and IPv4."""
    http_port: int = pydantic.Field(DEFAULT_HTTP_PORT, ge=0, le=65535)
    """Port of /healthz, /readyz and /metrics."""

    @pydantic.model_validator(mode="after")
    def _lease_times_fit(self) -> ManagerSettings:
        if not self.retry_period_seconds < self.renew_deadline_seconds <= 0.8 * self.lease_duration_seconds:
            raise ValueError(
                "want retry-period-seconds < renew-deadline-seconds <= 0.8 * lease-duration-seconds, "
                f"seen {self.retry_period_seconds:g}, {self.renew_deadline_seconds:g}, {self.lease_duration_seconds:g}"
            )
        return self
