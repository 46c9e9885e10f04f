"""Panels of the dashboard Node: usage, prediction and Mid resources of one node."""

from __future__ import annotations

from typing import Final

from charts.generators.dashboards.panels import CORES, COUNT, PER_SECOND, SECONDS, SHARE, Kind, Panel, about_both

PANELS: Final = (
    *about_both(
        Panel(
            "CPU",
            "Usage by kind, the predicted peak of Prod, and what is published as mid-cpu.",
            CORES,
            {
                "allocatable": "koordlet_allocatable_cpu_cores",
                "Prod requests": 'koordlet_requests_cpu_cores{kind="prod"}',
                "used: {{kind}}": "koordlet_usage_cpu_cores",
                "predicted Prod peak": "koordlet_prod_peak_cpu_cores",
                "Mid published": "koord_manager_node_mid_cpu_cores",
            },
        )
    ),
    *about_both(
        Panel(
            "Terms of Mid CPU",
            "The terms that mid-cpu follows from, and what it should be.",
            CORES,
            {"{{term}}": "koord_manager_node_mid_cpu_term_cores", "target": "koord_manager_node_mid_cpu_target_cores"},
        )
    ),
    Panel(
        "Prod above its predicted peak",
        "Share of the last day in which Prod used more than its predicted peak.",
        SHARE,
        {
            "{{resource}}": (
                "sum by (resource) (increase(koordlet_prod_peak_exceeded_seconds_total[1d]))"
                " / sum by (resource) (increase(koordlet_prod_peak_compared_seconds_total[1d]))"
            )
        },
        6,
        kind=Kind.STAT,
    ),
    Panel(
        "Forecasts that usage exceeded",
        "Live evaluation on this node, by predictor.",
        SHARE,
        {"{{predictor}}, {{resource}}": "koordlet_evaluation_violations_ratio"},
        9,
    ),
    Panel(
        "Prod pods by history",
        "A cold pod is charged its request, a warm one its predicted peak.",
        COUNT,
        {"{{history}}": "koordlet_prod_pods"},
        9,
    ),
    Panel(
        "Pressure",
        "Share of time in which some or all tasks waited for a resource (PSI).",
        SHARE,
        {"{{resource}} {{kind}}": "rate(koordlet_node_stalled_seconds_total[$__rate_interval])"},
    ),
    Panel(
        "Throttled pods",
        "Share of CPU periods in which a pod had used up its limit: the worst 10.",
        SHARE,
        {"{{namespace}}/{{pod}}": "topk(10, koordlet_pod_throttled_ratio)"},
    ),
    Panel(
        "Mid CPU by namespace",
        "mid-cpu that is requested, used, and taken by suppression.",
        CORES,
        {
            "{{namespace}} requested": "koordlet_namespace_mid_requested_cpu_cores",
            "{{namespace}} used": "koordlet_namespace_mid_used_cpu_cores",
            "{{namespace}} suppressed": "koordlet_namespace_mid_suppressed_cpu_cores",
        },
    ),
    Panel(
        "Suppression",
        "CPU that the Mid pods may use while the node is busy; empty while suppression is off.",
        CORES,
        {"allowed": "koordlet_suppression_allowed_cpu_cores"},
        6,
    ),
    Panel(
        "Pods with lowered limits",
        "Mid pods whose CPU limit is below its original.",
        COUNT,
        {"pods": "koordlet_suppression_lowered_pods"},
        6,
    ),
    Panel(
        "Ages",
        "Time since the newest sample, report and checkpoint.",
        SECONDS,
        {
            "sample": "time() - koordlet_sample_timestamp_seconds",
            "report": "time() - koordlet_last_report_timestamp_seconds",
            "checkpoint": "time() - koordlet_checkpoint_timestamp_seconds",
        },
    ),
    Panel(
        "Failed reads",
        "Reads of a source that gave no data.",
        PER_SECOND,
        {"{{source}}": "sum by (source) (rate(koordlet_source_failures_total[$__rate_interval]))"},
    ),
)
