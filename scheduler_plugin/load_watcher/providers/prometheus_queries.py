"""What is asked of a Prometheus: one entry a series, in presets for the stacks people run.

A `series` exists in Prometheus (a recording rule); an `expression` is evaluated every minute of the window (a
subquery), which costs the server more and needs no rules.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scheduler_plugin.load_watcher.records import MetricType, Operator

METHODS: Final[Mapping[str, Operator]] = {"avg_over_time": Operator.AVG, "stddev_over_time": Operator.STD}


class Unit(enum.StrEnum):
    """What a sample counts."""

    RATIO = "ratio"
    PERCENT = "percent"
    CORES = "cores"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Query:
    """One series of every node. Cores and bytes become percent of the node's capacity."""

    series: str
    """Name of the series with its selector, or an expression."""
    type: MetricType
    unit: Unit = Unit.RATIO
    is_expression: bool = False


def text(series: str, method: str, duration: str, host: str = "", *, is_expression: bool = False) -> str:
    """Build the query of one statistic over one window, of all hosts or of one."""
    selected = f'{series}{{instance="{host}"}}' if host else series
    return f"{method}(({selected})[{duration}:1m])" if is_expression else f"{method}({selected}[{duration}])"


_KEPLER: Final = ("core", "uncore", "dram", "package", "other", "gpu", "platform")

PRESETS: Final[Mapping[str, tuple[Query, ...]]] = {
    "kube-prometheus": (
        Query("instance:node_cpu:ratio", MetricType.CPU),
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
        Query("instance:node_cpu_utilisation:rate5m", MetricType.CPU),
        Query("instance:node_memory_utilisation:ratio", MetricType.MEMORY),
    ),
    "openshift": (
        Query("instance:node_cpu_utilisation:rate1m", MetricType.CPU),
        Query("instance:node_memory_utilisation:ratio", MetricType.MEMORY),
    ),
    "node-exporter": (
        Query(
            # A share of what was counted: right as well while an exporter is younger than the two minutes.
            '1 - sum by (instance) (rate(node_cpu_seconds_total{mode=~"idle|iowait|steal"}[2m]))'
            " / sum by (instance) (rate(node_cpu_seconds_total[2m]))",
            MetricType.CPU,
            is_expression=True,
        ),
        Query(
            "1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes",
            MetricType.MEMORY,
            is_expression=True,
        ),
    ),
    "koordlet": (
        Query('koordlet_usage_cpu_cores{kind="node"}', MetricType.CPU, Unit.CORES),
        Query('koordlet_usage_memory_bytes{kind="node"}', MetricType.MEMORY, Unit.BYTES),
    ),
}
"""Name -> queries. `kube-prometheus` asks for what upstream's watcher asks for, all read as ratios as it does."""
