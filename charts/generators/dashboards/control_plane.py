"""Panels of the dashboard Control plane: manager, scheduler plugin, load watcher, and the cost of the agents."""

from __future__ import annotations

from typing import Final

from charts.generators.dashboards.panels import (
    BYTES,
    CORES,
    COUNT,
    PER_SECOND,
    SECONDS,
    STATE,
    Kind,
    Panel,
    PanelQuery,
)

PANELS: Final = (
    Panel(
        Kind.STATES,
        "Leader",
        "Which manager holds the Lease.",
        STATE,
        (PanelQuery("max by (pod, instance) (koord_manager_leader)", "{{pod}} {{instance}}"),),
        12,
        6,
    ),
    Panel(
        Kind.STATES,
        "Configuration",
        "State of the ConfigMap.",
        STATE,
        (PanelQuery("max by (state) (koord_manager_config_state)", "{{state}}"),),
        6,
        6,
    ),
    Panel(
        Kind.STAT,
        "Age of the configuration",
        "Time since the configuration was put in force, or the manager started.",
        SECONDS,
        (PanelQuery("time() - max(koord_manager_config_timestamp_seconds)"),),
        6,
        6,
    ),
    Panel(
        Kind.TABLE,
        "Versions",
        "Number of processes of each program and version.",
        COUNT,
        (
            PanelQuery(
                "count by (__name__, version) (koordlet_build_info or koord_manager_build_info"
                " or koord_scheduler_plugin_build_info or koord_load_watcher_build_info)"
            ),
        ),
        8,
    ),
    Panel(
        Kind.SERIES,
        "Calls of kube-scheduler: duration",
        "Time from a request to its response, by verb.",
        SECONDS,
        (
            PanelQuery(
                "histogram_quantile(0.5, sum by (le, verb)"
                " (rate(koord_scheduler_plugin_request_duration_seconds_bucket[$__rate_interval])))",
                "{{verb}} p50",
            ),
            PanelQuery(
                "histogram_quantile(0.99, sum by (le, verb)"
                " (rate(koord_scheduler_plugin_request_duration_seconds_bucket[$__rate_interval])))",
                "{{verb}} p99",
            ),
        ),
        8,
    ),
    Panel(
        Kind.SERIES,
        "Calls of kube-scheduler: outcome",
        "Calls by verb and outcome.",
        PER_SECOND,
        (
            PanelQuery(
                "sum by (verb, outcome) (rate(koord_scheduler_plugin_requests_total[$__rate_interval]))",
                "{{verb}} {{outcome}}",
            ),
        ),
        8,
    ),
    Panel(
        Kind.SERIES,
        "Bound pods by the extender's score of the node",
        "best: the highest score; other: kube-scheduler's own scores had more weight.",
        PER_SECOND,
        (
            PanelQuery(
                "sum by (choice) (rate(koord_scheduler_plugin_bound_pods_total[$__rate_interval]))", "{{choice}}"
            ),
        ),
        8,
    ),
    Panel(
        Kind.SERIES,
        "Rejected nodes",
        "Nodes that filter calls rejected: the 8 most frequent reasons.",
        PER_SECOND,
        (
            PanelQuery(
                "topk(8, sum by (plugin, reason)"
                " (rate(koord_scheduler_plugin_rejected_nodes_total[$__rate_interval])))",
                "{{plugin}}: {{reason}}",
            ),
        ),
        8,
    ),
    Panel(
        Kind.SERIES,
        "Pods that need attention",
        "Pods that no node passed, pods that were bound without a filter call, nodes with expired reports that pass.",
        COUNT,
        (
            PanelQuery("max(koord_scheduler_plugin_refused_pods)", "refused pods"),
            PanelQuery(
                "sum(increase(koord_scheduler_plugin_unfiltered_pods_total[1h]))", "without a filter call, last hour"
            ),
            PanelQuery("max(koord_scheduler_plugin_expired_nodes_pass)", "expired nodes pass"),
        ),
        8,
    ),
    Panel(
        Kind.STACKED,
        "Nodes by the age of their report",
        "As the scheduler plugin has them.",
        COUNT,
        (
            PanelQuery(
                "max by (report_age_at_most_seconds) (koord_scheduler_plugin_nodes)",
                "at most {{report_age_at_most_seconds}} s",
            ),
        ),
    ),
    Panel(
        Kind.SERIES,
        "Reports of the agents",
        "NodeMetric reports by outcome.",
        PER_SECOND,
        (PanelQuery("sum by (outcome) (rate(koordlet_reports_total[$__rate_interval]))", "{{outcome}}"),),
    ),
    Panel(
        Kind.SERIES,
        "Writes of the manager",
        "Writes to the API server by kind and result.",
        PER_SECOND,
        (
            PanelQuery(
                "sum by (kind, result) (rate(koord_manager_writes_total[$__rate_interval]))", "{{kind}} {{result}}"
            ),
        ),
    ),
    Panel(
        Kind.SERIES,
        "Queue of the manager",
        "Nodes that wait for a worker; withdrawals are in the urgent lane.",
        COUNT,
        (PanelQuery("sum by (lane) (koord_manager_queue_depth)", "{{lane}}"),),
    ),
    Panel(
        Kind.SERIES,
        "Watches: time since the last event",
        "A watch of the scheduler plugin has a bookmark each minute.",
        SECONDS,
        (
            PanelQuery("max by (resource) (koord_manager_watch_age_seconds)", "manager: {{resource}}"),
            PanelQuery("max by (watch) (koord_scheduler_plugin_watch_silence_seconds)", "scheduler plugin: {{watch}}"),
        ),
        24,
    ),
    Panel(
        Kind.SERIES,
        "Agents: ticks, p99",
        "A lateness above a second: the node has no CPU time left.",
        SECONDS,
        (
            PanelQuery(
                "histogram_quantile(0.99, sum by (le) (rate(koordlet_tick_duration_seconds_bucket[$__rate_interval])))",
                "duration",
            ),
            PanelQuery(
                "histogram_quantile(0.99, sum by (le) (rate(koordlet_tick_lateness_seconds_bucket[$__rate_interval])))",
                "lateness",
            ),
        ),
        8,
    ),
    Panel(
        Kind.SERIES,
        "CPU of the programs",
        "The process with the highest usage of each job.",
        CORES,
        (PanelQuery("max by (job) (rate(process_cpu_seconds_total[$__rate_interval]))", "{{job}}"),),
        8,
    ),
    Panel(
        Kind.SERIES,
        "Memory of the programs",
        "The process with the most resident memory of each job.",
        BYTES,
        (PanelQuery("max by (job) (process_resident_memory_bytes)", "{{job}}"),),
        8,
    ),
)
