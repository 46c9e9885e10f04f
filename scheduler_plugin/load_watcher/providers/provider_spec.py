"""Configuration of one provider: upstream's keys of `metricProvider`, and this project's additional keys."""

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
"""Name of every provider -> keys that must not be empty; `registry` builds the providers."""
LOCAL: Final = frozenset({NODE_METRIC, METRICS_SERVER})
"""Providers that are read by way of the apiserver: without an address and a token of their own."""
_SCHEMES: Final = frozenset({"http", "https"})


class ProviderSpec(pydantic.BaseModel):
    """Settings of one provider, with camel-case keys on the wire."""

    model_config = pydantic.ConfigDict(
        alias_generator=alias_generators.to_camel, populate_by_name=True, extra="forbid", frozen=True
    )

    type: str
    """Name in the registry of providers."""
    address: str = ""
    """URL; empty means the default of the provider."""
    token: pydantic.SecretStr = pydantic.SecretStr("")
    """Token or API key; prefer `tokenFile`."""
    insecure_skip_verify: bool | None = None
    """Do not check the server's certificate."""
    token_file: str = ""
    """File with the token, for example of a mounted Secret; read for every request, so that a renewed token counts."""
    ca_file: str = ""
    """PEM file with the certificate authorities of the server; empty means the system's."""
    queries: str = "kube-prometheus"
    """Preset of Prometheus queries."""
    node_label: str = ""
    """Label of a Prometheus series that holds the node's name; empty means `node`, else `instance`."""
    org: str = ""
    """Organization of InfluxDB."""
    bucket: str = ""
    """Bucket of InfluxDB."""
    application_key: pydantic.SecretStr = pydantic.SecretStr("")
    """Datadog's second key; prefer `applicationKeyFile`."""
    application_key_file: str = ""
    """File with the second key, read as `tokenFile`."""
    host_name_suffix: str = ""
    """SignalFx and Datadog: suffix of the host name after the node name."""
    cluster_name: str = ""
    """SignalFx and Datadog: cluster whose hosts are read; empty means every cluster."""
    cpu_metric: str = ""
    """Datadog: metric of the CPU usage in percent; empty means those of Datadog's agent."""
    memory_metric: str = ""
    """Datadog: metric of the memory usage in percent; empty means that of Datadog's agent."""


def problems(spec: ProviderSpec) -> list[str]:
    """Return one line for each problem of a specification: the key, its value and the accepted values."""
    if spec.type not in NEEDS:
        return [f"type is {spec.type!r}, want one of {', '.join(NEEDS)}"]
    keys = spec.model_dump(by_alias=True) | {
        "token": spec.token.get_secret_value() or spec.token_file,
        "applicationKey": spec.application_key.get_secret_value() or spec.application_key_file,
    }
    problems = [f"{key} is not set, and {spec.type} needs it" for key in NEEDS[spec.type] if not keys[key]]
    scheme, separator, _host = spec.address.partition("://")
    if (separator and scheme not in _SCHEMES) or (spec.type == LOAD_WATCHER and spec.address and not separator):
        problems.append(f"address is {spec.address!r}, want a URL that begins with http:// or https://")
    if spec.queries not in PRESETS:
        problems.append(f"queries is {spec.queries!r}, want one of {', '.join(PRESETS)}")
    return problems
