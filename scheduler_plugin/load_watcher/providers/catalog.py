"""Every provider: its name in the configuration, what it needs, and how it is built. The one list of them.

| name                      | cpu, memory          | network, disk, energy | needs                                    |
|---------------------------|----------------------|-----------------------|------------------------------------------|
| `NodeMetric`              | AVG, STD (or Latest) | no                    | koordlet                                 |
| `KubernetesMetricsServer` | Latest               | no                    | metrics-server                           |
| `Prometheus`              | AVG, STD             | preset kube-prometheus| address; token where asked for           |
| `InfluxDB`                | AVG, STD             | no                    | address, org, bucket, token              |
| `LoadWatcher`             | what it serves       | what it serves        | address                                  |
| `SignalFx`                | AVG                  | no                    | token                                    |
| `Datadog`                 | AVG                  | no                    | token (API key), application key         |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from apiserver_client.session import Session
from scheduler_plugin.load_watcher.known_nodes import KnownNodes
from scheduler_plugin.load_watcher.providers import (
    datadog,
    influxdb,
    load_watcher,
    metrics_server,
    node_metric,
    prometheus,
    signalfx,
)
from scheduler_plugin.load_watcher.providers.http_source import Reach
from scheduler_plugin.load_watcher.providers.prometheus_queries import PRESETS
from scheduler_plugin.load_watcher.providers.provider import Provider
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec


class Surroundings(NamedTuple):
    """What providers read from the process they run in."""

    nodes: KnownNodes
    reports: node_metric.Reports
    api: Session | None
    """Session with the apiserver; None where there is none."""


class CatalogEntry(NamedTuple):
    """What a provider needs to be told, and how it is built from that."""

    needs: Sequence[str]
    """Keys of the specification that must not be empty."""
    build: Callable[[ProviderSpec, Surroundings], Provider]


def _node_metric(_spec: ProviderSpec, around: Surroundings) -> Provider:
    return node_metric.NodeMetricProvider(around.reports, around.nodes)


def _metrics_server(_spec: ProviderSpec, around: Surroundings) -> Provider:
    if around.api is None:
        raise ValueError("KubernetesMetricsServer needs a connection to the apiserver, and there is none")
    return metrics_server.MetricsServerProvider(around.api, around.nodes)


def _prometheus(spec: ProviderSpec, around: Surroundings) -> Provider:
    token = spec.secret()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    reach = _reach(spec, prometheus.DEFAULT_ADDRESS, headers, prometheus.TIMEOUT_SECONDS)
    node_names = prometheus.NodeNames((spec.node_label,)) if spec.node_label else prometheus.NodeNames()
    return prometheus.PrometheusProvider(reach, PRESETS[spec.queries], around.nodes, node_names)


def _influxdb(spec: ProviderSpec, around: Surroundings) -> Provider:
    reach = _reach(spec, "", {"Authorization": f"Token {spec.secret()}"}, influxdb.TIMEOUT_SECONDS)
    return influxdb.InfluxDbProvider(reach, influxdb.Bucket(spec.org, spec.bucket), around.nodes)


def _load_watcher(spec: ProviderSpec, _around: Surroundings) -> Provider:
    return load_watcher.LoadWatcherProvider(spec.address)


def _signalfx(spec: ProviderSpec, _around: Surroundings) -> Provider:
    reach = _reach(spec, signalfx.DEFAULT_ADDRESS, signalfx.headers(spec.secret()), signalfx.TIMEOUT_SECONDS)
    return signalfx.SignalFxProvider(reach, signalfx.Hosts(spec.host_name_suffix, spec.cluster_name))


def _datadog(spec: ProviderSpec, _around: Surroundings) -> Provider:
    headers = datadog.headers(spec.secret(), spec.application_key)
    reach = _reach(spec, datadog.DEFAULT_ADDRESS, headers, datadog.TIMEOUT_SECONDS)
    return datadog.DatadogProvider(reach, datadog.Hosts(spec.host_name_suffix, spec.cluster_name))


def _reach(spec: ProviderSpec, default_address: str, headers: Mapping[str, str], timeout_seconds: float) -> Reach:
    address = spec.address or default_address
    if "://" not in address:
        address = f"https://{address}"
    return Reach(address, headers, timeout_seconds, spec.insecure_skip_verify or False, spec.ca_file)


PROVIDERS: Final[Mapping[str, CatalogEntry]] = {
    node_metric.NAME: CatalogEntry((), _node_metric),
    metrics_server.NAME: CatalogEntry((), _metrics_server),
    prometheus.NAME: CatalogEntry((), _prometheus),
    influxdb.NAME: CatalogEntry(("address", "org", "bucket", "token"), _influxdb),
    load_watcher.NAME: CatalogEntry(("address",), _load_watcher),
    signalfx.NAME: CatalogEntry(("token",), _signalfx),
    datadog.NAME: CatalogEntry(("token", "applicationKey"), _datadog),
}
"""By name, as written in `metricProvider.type` and METRICS_PROVIDER_NAME."""


def problems(spec: ProviderSpec) -> list[str]:
    """One line for each thing that is wrong with a specification: key, value seen, value wanted."""
    entry = PROVIDERS.get(spec.type)
    if entry is None:
        return [f"type is {spec.type!r}, wanted one of {', '.join(PROVIDERS)}"]
    given = spec.model_dump(by_alias=True) | {"token": spec.token or spec.token_file}
    found = [f"{key} is not set, and {spec.type} needs it" for key in entry.needs if not given[key]]
    if spec.queries not in PRESETS:
        found.append(f"queries is {spec.queries!r}, wanted one of {', '.join(PRESETS)}")
    return found


def build(spec: ProviderSpec, around: Surroundings) -> Provider:
    """Build a provider of a specification without problems."""
    return PROVIDERS[spec.type].build(spec, around)
