"""What a configuration says of one provider: upstream's keys of `metricProvider`, and ours beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pydantic
from pydantic import alias_generators

from scheduler_plugin.load_watcher.providers.prometheus_queries import PRESETS

NODE_METRIC: Final = "NodeMetric"
METRICS_SERVER: Final = "KubernetesMetricsServer"
PROMETHEUS: Final = "Prometheus"
INFLUXDB: Final = "InfluxDB"
LOAD_WATCHER: Final = "LoadWatcher"
SIGNALFX: Final = "SignalFx"
DATADOG: Final = "Datadog"

NEEDS: Final[Mapping[str, Sequence[str]]] = {
    NODE_METRIC: (),
    METRICS_SERVER: (),
    PROMETHEUS: (),
    INFLUXDB: ("address", "org", "bucket", "token"),
    LOAD_WATCHER: ("address",),
    SIGNALFX: ("token",),
    DATADOG: ("token", "applicationKey"),
}
"""Every provider by its name, and the keys that must not be empty; `catalog` builds them."""


class ProviderSpec(pydantic.BaseModel):
    """Keys are in camel case on the wire."""

    model_config = pydantic.ConfigDict(
        alias_generator=alias_generators.to_camel, populate_by_name=True, extra="forbid", frozen=True
    )

    type: str
    """Name in the catalog of providers."""
    address: str = ""
    """URL; empty means the provider's usual one."""
    token: str = pydantic.Field(default="", repr=False)
    """Token or API key. Better in a file."""
    insecure_skip_verify: bool | None = None
    """Do not check the server's certificate."""
    token_file: str = ""
    """File with the token, of a Secret; read when the provider is built."""
    ca_file: str = ""
    """Certificate authorities (PEM) of the server; empty means the system's."""
    queries: str = "kube-prometheus"
    """Preset of Prometheus queries."""
    node_label: str = ""
    """Label of a Prometheus series that holds the node's name; empty means `node`, else `instance`."""
    org: str = ""
    """Organization of InfluxDB."""
    bucket: str = ""
    """Bucket of InfluxDB."""
    application_key: str = pydantic.Field(default="", repr=False)
    """Datadog's second key."""
    host_name_suffix: str = ""
    """SignalFx and Datadog: what follows the node's name in the host's."""
    cluster_name: str = ""
    """SignalFx and Datadog: the cluster whose hosts are meant."""


def problems(spec: ProviderSpec) -> list[str]:
    """One line for each thing that is wrong with a specification: key, value seen, value wanted."""
    if spec.type not in NEEDS:
        return [f"type is {spec.type!r}, wanted one of {', '.join(NEEDS)}"]
    given = spec.model_dump(by_alias=True) | {"token": spec.token or spec.token_file}
    found = [f"{key} is not set, and {spec.type} needs it" for key in NEEDS[spec.type] if not given[key]]
    if spec.queries not in PRESETS:
        found.append(f"queries is {spec.queries!r}, wanted one of {', '.join(PRESETS)}")
    return found
