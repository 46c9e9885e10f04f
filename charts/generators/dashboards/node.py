"""Panels of the dashboard Node: usage, prediction and Mid resources of one node."""

from __future__ import annotations

from typing import Final

from charts.generators.dashboards.panels import BYTES, CORES, COUNT, PER_SECOND, SECONDS, SHARE, Kind, Panel, PanelQuery

PANELS: Final = (
    Panel(
        Kind.SERIES,
        "CPU",
        "Usage by kind, the predicted peak of Prod, and what is published as mid-cpu.",
        CORES,
        (
            PanelQuery("koordlet_allocatable_cpu_cores", "allocatable"),
            PanelQuery('koordlet_requests_cpu_cores{kind="prod"}', "Prod requests"),
            PanelQuery("koordlet_usage_cpu_cores", "used: {{kind}}"),
            PanelQuery("koordlet_prod_peak_cpu_cores", "predicted Prod peak"),
            PanelQuery("koord_manager_node_mid_cpu_cores", "Mid published"),
        ),
    ),
    Panel(
        Kind.SERIES,
        "Memory",
        "Usage by kind, the predicted peak of Prod, and what is published as mid-memory.",
        BYTES,
        (
            PanelQuery("koordlet_allocatable_memory_bytes", "allocatable"),
            PanelQuery('koordlet_requests_memory_bytes{kind="prod"}', "Prod requests"),
            PanelQuery("koordlet_usage_memory_bytes", "used: {{kind}}"),
            PanelQuery("koordlet_prod_peak_memory_bytes", "predicted Prod peak"),
            PanelQuery("koord_manager_node_mid_memory_bytes", "Mid published"),
        ),
    ),
    Panel(
        Kind.SERIES,
        "Terms of Mid CPU",
        "The terms that mid-cpu follows from, and what it should be.",
        CORES,
        (
            PanelQuery("koord_manager_node_mid_cpu_term_cores", "{{term}}"),
            PanelQuery("koord_manager_node_mid_cpu_target_cores", "target"),
        ),
    ),
    Panel(
        Kind.SERIES,
        "Terms of Mid memory",
        "The terms that mid-memory follows from, and what it should be.",
        BYTES,
        (
            PanelQuery("koord_manager_node_mid_memory_term_bytes", "{{term}}"),
            PanelQuery("koord_manager_node_mid_memory_target_bytes", "target"),
        ),
    ),
    Panel(
        Kind.STAT,
        "Prod above its predicted peak",
        "Share of the last day in which Prod used more than its predicted peak.",
        SHARE,
        (
            PanelQuery(
                "sum by (resource) (increase(koordlet_prod_peak_exceeded_seconds_total[1d]))"
                " / sum by (resource) (increase(koordlet_prod_peak_compared_seconds_total[1d]))",
                "{{resource}}",
            ),
        ),
        6,
    ),
    Panel(
        Kind.SERIES,
        "Forecasts that usage exceeded",
        "Live evaluation on this node, by predictor.",
        SHARE,
        (PanelQuery("koordlet_evaluation_violations_ratio", "{{predictor}}, {{resource}}"),),
        9,
    ),
    Panel(
        Kind.SERIES,
        "Prod pods by history",
        "A cold pod is charged its request, a warm one its predicted peak.",
        COUNT,
        (PanelQuery("koordlet_prod_pods", "{{history}}"),),
        9,
    ),
    Panel(
        Kind.SERIES,
        "Pressure",
        "Share of time in which some or all tasks waited for a resource (PSI).",
        SHARE,
        (PanelQuery("rate(koordlet_node_stalled_seconds_total[$__rate_interval])", "{{resource}} {{kind}}"),),
    ),
    Panel(
        Kind.SERIES,
        "Throttled pods",
        "Share of CPU periods in which a pod had used up its limit: the worst 10.",
        SHARE,
        (PanelQuery("topk(10, koordlet_pod_throttled_ratio)", "{{namespace}}/{{pod}}"),),
    ),
    Panel(
        Kind.SERIES,
        "Mid CPU by namespace",
        "mid-cpu that is requested, used, and taken by suppression.",
        CORES,
        (
            PanelQuery("koordlet_namespace_mid_requested_cpu_cores", "{{namespace}} requested"),
            PanelQuery("koordlet_namespace_mid_used_cpu_cores", "{{namespace}} used"),
            PanelQuery("koordlet_namespace_mid_suppressed_cpu_cores", "{{namespace}} suppressed"),
        ),
    ),
    Panel(
        Kind.SERIES,
        "Suppression",
        "CPU that the Mid pods may use while the node is busy; empty while suppression is off.",
        CORES,
        (PanelQuery("koordlet_suppression_allowed_cpu_cores", "allowed"),),
        6,
    ),
    Panel(
        Kind.SERIES,
        "Pods with lowered limits",
        "Mid pods whose CPU limit is below its original.",
        COUNT,
        (PanelQuery("koordlet_suppression_lowered_pods", "pods"),),
        6,
    ),
    Panel(
        Kind.SERIES,
        "Ages",
        "Time since the newest sample, report and checkpoint.",
        SECONDS,
        (
            PanelQuery("time() - koordlet_sample_timestamp_seconds", "sample"),
            PanelQuery("time() - koordlet_last_report_timestamp_seconds", "report"),
            PanelQuery("time() - koordlet_checkpoint_timestamp_seconds", "checkpoint"),
        ),
    ),
    Panel(
        Kind.SERIES,
        "Failed reads",
        "Reads of a source that gave no data.",
        PER_SECOND,
        (PanelQuery("sum by (source) (rate(koordlet_source_failures_total[$__rate_interval]))", "{{source}}"),),
    ),
)
