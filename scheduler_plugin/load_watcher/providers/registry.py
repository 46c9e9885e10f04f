"""Registry of providers: the builder of each by its name in the configuration (docs/reference/providers.md)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pydantic

from apiserver_client.session import Session
from component_base.http_client import Reach
from scheduler_plugin.load_watcher.providers import (
    datadog,
    influxdb,
    metrics_server,
    node_metric,
    prometheus,
    provider_spec,
    remote_watcher,
    signalfx,
)
from scheduler_plugin.load_watcher.providers.provider import HostFilter, Provider, ProviderFailed, ReadKnownNodes
from scheduler_plugin.load_watcher.providers.provider_spec import PRESETS, ProviderSpec
from scheduler_plugin.load_watcher.records import OLDEST_SECONDS, MetricType

_LARGEST_TOKEN: Final = 65_536


class ProviderContext(NamedTuple):
    """State of the process that providers read."""

    nodes: ReadKnownNodes
    reports: node_metric.Reports
    api: Session | None
    """Session with the apiserver; None without a connection."""
    resources: Sequence[str] = node_metric.RESOURCES
    """Resources in the vectors of a report, in this order."""
    oldest_seconds: float = OLDEST_SECONDS
    """Age limit of measurements."""
    types: Collection[str] = tuple(MetricType)
    """Types of the metrics that are read."""


_Headers = Callable[[], Mapping[str, str]]
Builder = Callable[[ProviderSpec, ProviderContext], Provider]


def _metrics_server(_spec: ProviderSpec, context: ProviderContext) -> Provider:
    if context.api is None:
        raise ValueError("KubernetesMetricsServer needs a connection to the apiserver; set kubeconfig")
    return metrics_server.MetricsServerProvider(context.api, context.nodes)


def _prometheus(spec: ProviderSpec, context: ProviderContext) -> Provider:
    def headers() -> Mapping[str, str]:
        token = _token(spec)
        return {"Authorization": f"Bearer {token}"} if token else {}

    reach = _reach(spec, prometheus.DEFAULT_ADDRESS, headers, prometheus.TIMEOUT_SECONDS)
    node_names = prometheus.NodeNames((spec.node_label,)) if spec.node_label else prometheus.NodeNames()
    queries = [
        provider_spec.selected(query, spec.matchers) for query in PRESETS[spec.queries] if query.type in context.types
    ]
    return prometheus.PrometheusProvider(reach, queries, context.nodes, node_names)


def _influxdb(spec: ProviderSpec, context: ProviderContext) -> Provider:
    reach = _reach(spec, "", lambda: {"Authorization": f"Token {_token(spec)}"}, influxdb.TIMEOUT_SECONDS)
    return influxdb.InfluxDbProvider(reach, spec.org, spec.bucket, context.nodes)


def _load_watcher(spec: ProviderSpec, context: ProviderContext) -> Provider:
    reach = _reach(spec, "", remote_watcher.headers, remote_watcher.TIMEOUT_SECONDS)
    return remote_watcher.LoadWatcherProvider(reach, context.oldest_seconds)


def _signalfx(spec: ProviderSpec, context: ProviderContext) -> Provider:
    reach = _reach(spec, signalfx.DEFAULT_ADDRESS, lambda: signalfx.headers(_token(spec)), signalfx.TIMEOUT_SECONDS)
    return signalfx.SignalFxProvider(reach, HostFilter(spec.host_name_suffix, spec.cluster_name), context.nodes)


def _datadog(spec: ProviderSpec, context: ProviderContext) -> Provider:
    def headers() -> Mapping[str, str]:
        return datadog.headers(_token(spec), _secret(spec.type, spec.application_key_file, spec.application_key))

    reach = _reach(spec, datadog.DEFAULT_ADDRESS, headers, datadog.TIMEOUT_SECONDS)
    utilizations = datadog.utilizations(spec.cpu_metric, spec.memory_metric)
    hosts = HostFilter(spec.host_name_suffix, spec.cluster_name)
    return datadog.DatadogProvider(reach, hosts, utilizations, context.nodes)


def _secret(provider: str, file: str, secret: pydantic.SecretStr) -> str:
    """Return the content of a file if one is set, else the secret. Raises ProviderFailed."""
    if not file:
        return secret.get_secret_value()
    try:
        with Path(file).open(encoding="utf-8") as opened:
            text = opened.read(_LARGEST_TOKEN + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ProviderFailed(f"cannot read the token of {provider} in {file}: {error}") from error
    if not 0 < len(text) <= _LARGEST_TOKEN or not text.isascii() or not text.isprintable():
        raise ProviderFailed(
            f"{file} has no token of {provider}, want 1 to {_LARGEST_TOKEN} printable ASCII characters"
        )
    return text


def _token(spec: ProviderSpec) -> str:
    return _secret(spec.type, spec.token_file, spec.token)


def _basic(spec: ProviderSpec) -> Mapping[str, str]:
    if spec.basic_auth is None:
        return {}
    user = spec.basic_auth
    password = _secret(spec.type, user.password_file, pydantic.SecretStr(""))
    return {"Authorization": f"Basic {base64.b64encode(f'{user.username}:{password}'.encode()).decode()}"}


def _reach(spec: ProviderSpec, default_address: str, headers: _Headers, timeout_seconds: float) -> Reach:
    address = spec.address or default_address
    if "://" not in address:
        address = f"https://{address}"

    def all_headers() -> Mapping[str, str]:
        chosen = {name: value.get_secret_value() for name, value in spec.headers.items()}
        return {**chosen, **headers(), **_basic(spec)}

    return Reach(address, all_headers, timeout_seconds, spec.insecure_skip_verify or False, spec.ca_file)


PROVIDERS: Final[Mapping[str, Builder]] = {
    provider_spec.NODE_METRIC: lambda _spec, context: node_metric.NodeMetricProvider(
        context.reports, context.nodes, context.resources
    ),
    provider_spec.METRICS_SERVER: _metrics_server,
    provider_spec.PROMETHEUS: _prometheus,
    provider_spec.INFLUXDB: _influxdb,
    provider_spec.LOAD_WATCHER: _load_watcher,
    provider_spec.SIGNALFX: _signalfx,
    provider_spec.DATADOG: _datadog,
}
"""Name in `metricProvider.type` and METRICS_PROVIDER_NAME -> builder."""


def build(spec: ProviderSpec, context: ProviderContext) -> Provider:
    """Build the provider of a specification without problems. Its token is read by each request."""
    return PROVIDERS[spec.type](spec, context)
