"""Panels of the dashboard Control plane: manager, scheduler plugin, load watcher, and the cost of the agents."""

from __future__ import annotations

from typing import Final

from charts.generators.dashboards.panels import BYTES, CORES, COUNT, PER_SECOND, SECONDS, STATE, Kind, Panel

PANELS: Final = (
    Panel(
        "Leader",
        "Which manager holds the Lease.",
        STATE,
        {"{{pod}} {{instance}}": "max by (pod, instance) (koord_manager_leader)"},
        12,
        6,
        kind=Kind.STATES,
    ),
    Panel(
        "Configuration",
        "State of the ConfigMap.",
        STATE,
        {"{{state}}": "max by (state) (koord_manager_config_state)"},
        6,
        6,
        kind=Kind.STATES,
    ),
    Panel(
        "Age of the configuration",
        "Time since the configuration was put in force, or the manager started.",
        SECONDS,
        {"": "time() - max(koord_manager_config_timestamp_seconds)"},
        6,
        6,
        kind=Kind.STAT,
    ),
    Panel(
        "Versions",
        "Number of processes of each program and version.",
        COUNT,
        {
            "": (
                "count by (__name__, version) (koordlet_build_info or koord_manager_build_info"
                " or koord_scheduler_plugin_build_info or koord_load_watcher_build_info)"
            )
        },
        8,
        kind=Kind.TABLE,
    ),
    Panel(
        "Calls of kube-scheduler: duration",
        "Time from a request to its response, by verb.",
        SECONDS,
        {
            "{{verb}} p50": (
                "histogram_quantile(0.5, sum by (le, verb)"
                " (rate(koord_scheduler_plugin_request_duration_seconds_bucket[$__rate_interval])))"
            ),
            "{{verb}} p99": (
                "histogram_quantile(0.99, sum by (le, verb)"
                " (rate(koord_scheduler_plugin_request_duration_seconds_bucket[$__rate_interval])))"
            ),
        },
        8,
    ),
    Panel(
        "Calls of kube-scheduler: outcome",
        "Calls by verb and outcome.",
        PER_SECOND,
        {
            "{{verb}} {{outcome}}": (
                "sum by (verb, outcome) (rate(koord_scheduler_plugin_requests_total[$__rate_interval]))"
            )
        },
        8,
    ),
    Panel(
        "Attempts without an answer",
        "Pods that kube-scheduler placed without the scheduler plugin (passed), or held back (held).",
        PER_SECOND,
        {"{{result}}": "sum by (result) (rate(koord_suite_unasked_pods_total[$__rate_interval]))"},
        6,
    ),
    Panel(
        "Bound pods by the extender's score of the node",
        "best: the highest score; other: kube-scheduler's own scores had more weight.",
        PER_SECOND,
        {"{{choice}}": "sum by (choice) (rate(koord_scheduler_plugin_bound_pods_total[$__rate_interval]))"},
        6,
    ),
    Panel(
        "Rejected nodes",
        "Nodes that filter calls rejected: the 8 most frequent reasons.",
        PER_SECOND,
        {
            "{{plugin}}: {{reason}}": (
                "topk(8, sum by (plugin, reason) (rate(koord_scheduler_plugin_rejected_nodes_total[$__rate_interval])))"
            )
        },
        6,
    ),
    Panel(
        "Pods that need attention",
        "Pods that no node passed, nodes with expired reports that pass.",
        COUNT,
        {
            "refused pods": "max(koord_scheduler_plugin_refused_pods)",
            "expired nodes pass": "max(koord_scheduler_plugin_expired_nodes_pass)",
        },
        6,
    ),
    Panel(
        "Nodes by the age of their report",
        "As the scheduler plugin has them.",
        COUNT,
        {
            "at most {{report_age_at_most_seconds}} s": (
                "max by (report_age_at_most_seconds) (koord_scheduler_plugin_nodes)"
            )
        },
        kind=Kind.STACKED,
    ),
    Panel(
        "Reports of the agents",
        "NodeMetric reports by outcome.",
        PER_SECOND,
        {"{{outcome}}": "sum by (outcome) (rate(koordlet_reports_total[$__rate_interval]))"},
    ),
    Panel(
        "Writes of the manager",
        "Writes to the API server by kind and result.",
        PER_SECOND,
        {"{{kind}} {{result}}": "sum by (kind, result) (rate(koord_manager_writes_total[$__rate_interval]))"},
    ),
    Panel(
        "Queue of the manager",
        "Nodes that wait for a worker; withdrawals are in the urgent lane.",
        COUNT,
        {"{{lane}}": "sum by (lane) (koord_manager_queue_depth)"},
    ),
    Panel(
        "Watches: time since the last event",
        "A watch of the scheduler plugin has a bookmark each minute.",
        SECONDS,
        {
            "manager: {{resource}}": "max by (resource) (koord_manager_watch_age_seconds)",
            "scheduler plugin: {{watch}}": "max by (watch) (koord_scheduler_plugin_watch_silence_seconds)",
        },
        24,
    ),
    Panel(
        "Agents: ticks, p99",
        "A lateness above a second: the node has no CPU time left.",
        SECONDS,
        {
            "duration": (
                "histogram_quantile(0.99, sum by (le) (rate(koordlet_tick_duration_seconds_bucket[$__rate_interval])))"
            ),
            "lateness": (
                "histogram_quantile(0.99, sum by (le) (rate(koordlet_tick_lateness_seconds_bucket[$__rate_interval])))"
            ),
        },
        8,
    ),
    Panel(
        "CPU of the programs",
        "The process with the highest usage of each job.",
        CORES,
        {"{{job}}": "max by (job) (rate(process_cpu_seconds_total[$__rate_interval]))"},
        8,
    ),
    Panel(
        "Memory of the programs",
        "The process with the most resident memory of each job.",
        BYTES,
        {"{{job}}": "max by (job) (process_resident_memory_bytes)"},
        8,
    ),
)
