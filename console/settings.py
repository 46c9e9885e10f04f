"""Settings of the console in the cluster, validated once at start."""

from __future__ import annotations

from typing import Final

import pydantic

from api_types import names
from api_types.wire_model import Address
from component_base import listening, settings

ENV_PREFIX: Final = "KOORD_CONSOLE"


class ConsoleSettings(settings.ProcessSettings):
    """Settings of the process."""

    page_port: int = pydantic.Field(10270, ge=0, le=65535)
    """Port of the pages, on 127.0.0.1 only: use kubectl port-forward."""
    http_address: str = listening.ALL_ADDRESSES
    """Address of /healthz, /readyz and /metrics. :: is every address of IPv6 and IPv4."""
    http_port: int = pydantic.Field(9319, ge=0, le=65535)
    """Port of /healthz, /readyz and /metrics."""
    namespace: str = names.NAMESPACE
    """Namespace of the suite."""
    interval_seconds: float = pydantic.Field(60.0, ge=5, le=3600)
    """Seconds between two reads of all nodes and reports; a read of a large cluster makes them more."""
    prometheus: Address = ""
    """URL of a Prometheus with the metrics of the suite, for a day of history; empty uses the memory only."""
    prometheus_selector: str = ""
    """Label matchers of all series, such as job=~'koordlet|koord-manager': keeps out those of tenants."""
