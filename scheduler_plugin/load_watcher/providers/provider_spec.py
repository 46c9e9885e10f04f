"""Configuration of one provider: upstream's keys of `metricProvider`, and this project's additional keys.

A preset of Prometheus queries has one entry for each series. A `series` exists in Prometheus, for example from a
recording rule. An expression is evaluated for every minute of the window (a subquery): it needs no rules and costs the
server more.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pydantic
from pydantic import alias_generators

from api_types.wire_model import Address, without_credentials
from scheduler_plugin.load_watcher.records import MetricType, Statistic

METHODS: Final[Mapping[str, Statistic]] = {"avg_over_time": Statistic.AVG, "stddev_over_time": Statistic.STD}


class Unit(enum.StrEnum):
    """Unit of a sample."""

    RATIO = "ratio"
    PERCENT = "percent"
    CORES = "cores"
    BYTES = "bytes"
    AMOUNT = "amount"
    """As it is: network traffic has no capacity that it could be a share of."""


@dataclass(frozen=True, slots=True)
class Query:
    """Query with one series for each node. Cores and bytes are converted to percent of the node's capacity."""

    series: str
    """Name of the series with its selector, or an expression."""
    type: MetricType
    unit: Unit = Unit.RATIO
    is_expression: bool = False
    rate_seconds: int = 0
    """Seconds over which each sample is averaged."""


def query_text(series: str, method: str, duration: str, *, is_expression: bool = False) -> str:
    """Build the query of one statistic over one window, for all nodes."""
    return f"{method}(({series})[{duration}:1m])" if is_expression else f"{method}({series}[{duration}])"


def selected(query: Query, matchers: Sequence[str]) -> Query:
    """Return a query of a preset with label matchers in each of its selectors."""
    if not matchers:
        return query
    added = ", ".join(matchers)
    series = _METRIC.sub(lambda name: f"{name[1]}{{{added}" + (", " if name[2] else "}"), query.series)
    return replace(query, series=series)


def newest_text(series: str, duration: str) -> str:
    """Build the query of the time of the newest sample, also of series that ended within the window."""
    return f"timestamp({series}) or max_over_time(timestamp({series})[{duration}:1m])"


_PHYSICAL: Final = 'device!~"lo|veth.*|cali.*|cilium.*|docker.*|cni.*|flannel.*|br-.*"'
"""Network devices whose traffic leaves the node; the others would count the same bytes again."""
_DISKS: Final = 'device!~"(loop|ram|dm-|md|sr|zram).*"'
"""Disks alone, without devices that are made of others."""
_MEMORY: Final = "(node_memory_MemTotal_bytes - (node_memory_Hugetlb_bytes or 0 * node_memory_MemTotal_bytes))"
"""Memory without the pools of huge pages, which MemAvailable is without as well."""
_KEPLER: Final = ("core", "uncore", "dram", "package", "other", "gpu", "platform")

PRESETS: Final[Mapping[str, tuple[Query, ...]]] = {
    "kube-prometheus": (
        Query("instance:node_cpu:ratio", MetricType.CPU, rate_seconds=300),
        Query("instance:node_memory_utilisation:ratio", MetricType.MEMORY),
        Query("instance:node_network_transmit_bytes:rate:sum", MetricType.BANDWIDTH),
        Query("instance:node_network_transmit_drop_excluding_lo:rate5m", MetricType.BANDWIDTH),
        Query("instance:node_network_receive_bytes:rate:sum", MetricType.BANDWIDTH),
        Query("instance:node_network_receive_drop_excluding_lo:rate5m", MetricType.BANDWIDTH),
        Query("instance_device:node_disk_io_time_seconds:rate5m", MetricType.STORAGE),
        Query("scaph_host_power_microwatts", MetricType.ENERGY),
        Query("scaph_host_energy_microjoules", MetricType.ENERGY),
        *(Query(f"kepler_node_{part}_joules_total", MetricType.ENERGY) for part in _KEPLER),
        Query("kepler_node_energy_stat", MetricType.ENERGY),
    ),
    "kube-prometheus-recent": (
        Query("instance:node_cpu_utilisation:rate5m", MetricType.CPU, rate_seconds=300),
        Query("instance:node_memory_utilisation:ratio", MetricType.MEMORY),
    ),
    "openshift": (
        Query("instance:node_cpu_utilisation:rate1m", MetricType.CPU, rate_seconds=60),
        Query("instance:node_memory_utilisation:ratio", MetricType.MEMORY),
    ),
    "node-exporter": (
        Query(
            # A share of the counted time: also correct while the exporter is younger than two minutes.
            # Without the labels of a CPU and no others: the label with the node's name is kept, whichever it is.
            '1 - sum without (cpu, mode) (rate(node_cpu_seconds_total{mode=~"idle|iowait|steal"}[2m]))'
            " / sum without (cpu, mode) (rate(node_cpu_seconds_total[2m]))",
            MetricType.CPU,
            is_expression=True,
            rate_seconds=120,
        ),
        Query(f"1 - node_memory_MemAvailable_bytes / {_MEMORY}", MetricType.MEMORY, is_expression=True),
        *(
            Query(
                f"sum without (device) (rate(node_network_{way}_bytes_total{{{_PHYSICAL}}}[2m]))",
                MetricType.BANDWIDTH,
                Unit.AMOUNT,
                is_expression=True,
            )
            for way in ("transmit", "receive")
        ),
        Query(
            f"max without (device) (rate(node_disk_io_time_seconds_total{{{_DISKS}}}[2m]))",
            MetricType.STORAGE,
            is_expression=True,
        ),
    ),
    "koordlet": (
        Query('koordlet_usage_cpu_cores{kind="node"}', MetricType.CPU, Unit.CORES),
        Query('koordlet_usage_memory_bytes{kind="node"}', MetricType.MEMORY, Unit.BYTES),
    ),
}
"""Name -> queries. `kube-prometheus` has the queries of upstream's watcher and, as it does, reads all as ratios."""

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
_MATCHER: Final = re.compile(r'[a-zA-Z_]\w*\s*(=|!=|=~|!~)\s*"([^"\\\n]|\\.)*"', re.ASCII)
_HEADER: Final = re.compile(r"[\w!#$%&'*+.^`|~-]+:[ -~]*", re.ASCII)
_METRIC: Final = re.compile(r"\b([a-z]+[_:][\w:]+)(\{)?")
"""Name of a metric in a preset: functions, labels and values there have neither of both characters."""


_CONFIG: Final = pydantic.ConfigDict(
    alias_generator=alias_generators.to_camel, populate_by_name=True, extra="forbid", frozen=True
)


class BasicAuth(pydantic.BaseModel):
    """User of a server, with camel-case keys on the wire."""

    model_config = _CONFIG

    username: str
    password_file: str
    """File with the password, read as `tokenFile`."""


class ProviderSpec(pydantic.BaseModel):
    """Settings of one provider, with camel-case keys on the wire."""

    model_config = _CONFIG

    type: str
    """Name in the registry of providers."""
    address: Address = ""
    """URL; empty means the default of the provider."""
    token: pydantic.SecretStr = pydantic.SecretStr("")
    """Token or API key; prefer `tokenFile`."""
    insecure_skip_verify: bool | None = None
    """Do not check the server's certificate."""
    token_file: str = ""
    """File with the token, for example of a mounted Secret; read for every request, so that a renewed token counts."""
    ca_file: str = ""
    """PEM file with the certificate authorities of the server; empty means the system's."""
    basic_auth: BasicAuth | None = None
    """User and password, instead of a token."""
    headers: dict[str, pydantic.SecretStr] = pydantic.Field(default={})
    """Headers of each request, such as X-Scope-OrgID."""
    matchers: tuple[str, ...] = pydantic.Field(default=(), strict=False)
    """Prometheus: label matchers that are added to every selector, such as `cluster="one"`."""
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


def rate_seconds(specs: Sequence[ProviderSpec]) -> dict[str, int]:
    """Return the seconds over which each sample of the CPU is averaged, of providers with a preset."""
    return {
        spec.type: next(query.rate_seconds for query in PRESETS[spec.queries] if query.type is MetricType.CPU)
        for spec in specs
        if spec.type == PROMETHEUS and spec.queries in PRESETS
    }


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
        problems.append(
            f"address is {without_credentials(spec.address)!r}, want a URL that begins with http:// or https://"
        )
    if spec.queries not in PRESETS:
        problems.append(f"queries is {spec.queries!r}, want one of {', '.join(PRESETS)}")
    problems += [
        f"matchers has {text!r}, want a label, one of = != =~ !~ and a value in double quotes"
        for text in spec.matchers
        if not _MATCHER.fullmatch(text)
    ]
    if spec.matchers and spec.type != PROMETHEUS:
        problems.append(f"matchers is set, and {spec.type} has no selectors, want type {PROMETHEUS}")
    problems += [
        f"headers has {name!r}, want names and values of HTTP; tokens and passwords have keys of their own"
        for name, value in spec.headers.items()
        if name.lower() == "authorization" or not _HEADER.fullmatch(f"{name}:{value.get_secret_value()}")
    ]
    if spec.type in LOCAL and (spec.headers or spec.basic_auth):
        problems.append(f"headers and basicAuth are those of a server, and {spec.type} has none")
    if spec.basic_auth and (keys["token"] or without_credentials(spec.address) != spec.address):
        problems.append("basicAuth is set beside a token, or a user in address, want one of them")
    return problems
