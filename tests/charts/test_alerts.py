"""The alerts: each fires on what it is for and stays quiet otherwise, as promtool evaluates the chart's file."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from docs.generators.alerts_page import RULES
from e2e.thirdparty.prometheus import packages
from tests.charts.chart import FOLDER, render, run_helm
from tools.localcluster.errors import ClusterProblem

pytestmark = pytest.mark.slow

FILE = FOLDER / "files" / "alert-rules.yaml"
RISING, STILL, ONE, ZERO = "0+1x240", "7x240", "1x240", "0x240"
"""Values of a sample every minute."""
CERTIFICATE = 'koord_admission_certificate_end_timestamp_seconds{pod="a"}'
NOT_KNOWN = " ".join(["NaN"] * 241)


class Case(NamedTuple):
    """Series by which an alert fires, and series by which it does not."""

    firing: dict[str, str]
    quiet: dict[str, str]


def one_series(series: str, firing: str, quiet: str) -> Case:
    """Return a case of one series with two courses of values."""
    return Case({series: firing}, {series: quiet})


CASES = {
    "KoordNoManagerLeads": Case({}, {'koord_manager_leader{pod="a"}': ONE, 'koord_manager_leader{pod="b"}': ZERO}),
    "KoordAdmissionDown": Case({CERTIFICATE: f"{2**33}x5 _x240"}, {CERTIFICATE: f"{2**33}x240"}),
    "KoordConfigurationRefused": one_series('koord_manager_config_state{state="refused"}', ONE, ZERO),
    "KoordConfigurationAbsent": one_series('koord_manager_config_state{state="key-absent"}', ONE, ZERO),
    "KoordNodesMisconfigured": one_series("koord_manager_misconfigured_nodes", ONE, ZERO),
    "KoordMidWithdrawn": Case(
        {'koord_manager_nodes{reason="SampleTooOld"}': ONE},
        {'koord_manager_nodes{reason="SampleTooOld"}': ZERO, 'koord_manager_nodes{reason="Calculated"}': ONE},
    ),
    "KoordMidFrozen": Case(
        {'koord_manager_nodes{reason="NoPrediction"}': ONE},
        {'koord_manager_nodes{reason="NoPrediction"}': "0x87 1x150", 'koord_manager_nodes{reason="Shadow"}': ONE},
    ),
    "KoordAgentSilent": Case(
        {
            'koord_manager_node_sample_timestamp_seconds{node="n1"}': "-200+60x240",
            'koord_manager_report_interval_seconds{pod="a"}': "60x240",
            'koord_manager_report_interval_seconds{pod="b"}': NOT_KNOWN,
        },
        {
            'koord_manager_node_sample_timestamp_seconds{node="n1"}': "-850+60x240",
            "koord_manager_report_interval_seconds": "300x240",
        },
    ),
    "KoordNodeClockWrong": one_series('koord_manager_node_clock_wrong{node="n1"}', ONE, ZERO),
    "KoordMidOverwritten": one_series("koord_manager_node_status_reverts_total", RISING, "0x80 1+1x5 6x150"),
    "KoordWritesFail": Case(
        {'koord_manager_writes_total{kind="node", outcome="error"}': RISING},
        {
            'koord_manager_writes_total{kind="node", outcome="error"}': "0x40 1x200",
            'koord_manager_writes_total{kind="node", outcome="ok"}': RISING,
        },
    ),
    "KoordSchemaDropsFields": one_series("koord_manager_node_metric_dropped_fields", ONE, ZERO),
    "KoordEvictionRefused": Case(
        {'koord_manager_mid_evictions_total{cause="MidCPUShort", outcome="refused"}': RISING},
        {'koord_manager_mid_evictions_total{cause="MidCPUShort", outcome="evicted"}': RISING},
    ),
    "KoordNodeStaysShort": one_series('koord_manager_mid_short_nodes{cause="MidCPUShort"}', ONE, "0x87 1x150"),
    "KoordForecastsTooLow": Case(
        {
            'koord_manager_evaluation_violations_ratio{predictor="calibrated", resource="cpu"}': "0.02x240",
            'koord_manager_evaluation_forecasts{predictor="calibrated", resource="cpu"}': "2000x240",
        },
        {
            'koord_manager_evaluation_violations_ratio{predictor="calibrated", resource="cpu"}': "0.02x240",
            'koord_manager_evaluation_forecasts{predictor="calibrated", resource="cpu"}': "20x240",
            'koord_manager_evaluation_violations_ratio{predictor="percentile", resource="cpu"}': "0.2x240",
            'koord_manager_evaluation_forecasts{predictor="percentile", resource="cpu"}': "2000x240",
        },
    ),
    "KoordReportsFail": Case(
        {'koordlet_reports_total{outcome="refused"}': RISING},
        {'koordlet_reports_total{outcome="refused"}': STILL, 'koordlet_reports_total{outcome="written"}': RISING},
    ),
    "KoordCheckpointFails": Case(
        {'koordlet_checkpoint_writes_total{outcome="failed"}': RISING},
        {'koordlet_checkpoint_writes_total{outcome="written"}': RISING},
    ),
    "KoordSourceUnreadable": one_series('koordlet_source_failures_total{source="psi"}', "0+30x240", RISING),
    "KoordAgentLate": Case(
        {
            'koordlet_tick_lateness_seconds_bucket{le="1.0"}': ZERO,
            'koordlet_tick_lateness_seconds_bucket{le="+Inf"}': "0+30x240",
        },
        {
            'koordlet_tick_lateness_seconds_bucket{le="0.1"}': "0+30x240",
            'koordlet_tick_lateness_seconds_bucket{le="1.0"}': "0+30x240",
            'koordlet_tick_lateness_seconds_bucket{le="+Inf"}': "0+30x240",
        },
    ),
    "KoordSuppressionFails": Case(
        {'koordlet_suppression_patches_total{kind="lower", outcome="not_permitted"}': RISING},
        {
            'koordlet_suppression_patches_total{kind="lower", outcome="patched"}': RISING,
            'koordlet_suppression_patches_total{kind="lower", outcome="conflict"}': RISING,
            "koordlet_suppression_failures_total": STILL,
        },
    ),
    "KoordExtenderFails": Case(
        {'koord_scheduler_plugin_requests_total{verb="filter", outcome="not_ready"}': RISING},
        {'koord_scheduler_plugin_requests_total{verb="filter", outcome="ok"}': RISING},
    ),
    "KoordPluginSkipped": Case(
        # The sidecar of the new leader is away; that of the old one is asked nothing.
        {
            'koord_suite_unasked_pods_total{result="passed", pod="old"}': STILL,
            'koord_suite_unasked_pods_total{result="passed", pod="new"}': RISING,
            'koord_scheduler_plugin_requests_total{verb="ask", outcome="ok", pod="old"}': STILL,
        },
        # After a change of leader all is well, but one question of a thousand was late.
        {
            'koord_suite_unasked_pods_total{result="passed", pod="old"}': STILL,
            'koord_suite_unasked_pods_total{result="passed", pod="new"}': "0x85 1x155",
            'koord_suite_unasked_pods_total{result="held", pod="new"}': ZERO,
            'koord_scheduler_plugin_requests_total{verb="ask", outcome="ok", pod="old"}': "0+100x80 8000x160",
            'koord_scheduler_plugin_requests_total{verb="ask", outcome="ok", pod="new"}': "0x80 0+100x160",
        },
    ),
    "KoordSchedulerReportsOld": Case(
        {'koord_scheduler_plugin_nodes{report_age_at_most_seconds="900"}': ONE},
        {
            'koord_scheduler_plugin_nodes{report_age_at_most_seconds="900"}': ZERO,
            'koord_scheduler_plugin_nodes{report_age_at_most_seconds="60"}': ONE,
            'koord_scheduler_plugin_nodes{report_age_at_most_seconds="none"}': ONE,
        },
    ),
    "KoordExpiredNodesPass": one_series("koord_scheduler_plugin_expired_nodes_pass", ONE, ZERO),
    "KoordMidQuotaMalformed": one_series(
        'koord_scheduler_plugin_malformed_mid_quotas{pod="a"}', "0x20 2x240", "0x20 1x4 0x240"
    ),
    "KoordLoadWatcherOld": one_series('koord_load_watcher_window_age_seconds{window="15m"}', NOT_KNOWN, "60x240"),
    "KoordInfluxDbLosesPoints": one_series('koordlet_influxdb_dropped_points_total{reason="full"}', RISING, STILL),
}


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool, or skip the test if there is none."""
    try:
        program = packages.program("promtool")
    except ClusterProblem as problem:
        pytest.skip(f"no promtool: {problem}")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def test_every_alert_has_a_case() -> None:
    assert list(CASES) == [each["alert"] for each in RULES]


@pytest.mark.timeout(300)  # promtool calculates for ten seconds on two idle cores
def test_every_alert_fires_and_stays_quiet(tmp_path: Path) -> None:
    file = tmp_path / "tests.yaml"
    tests = [
        unit
        for name, case in CASES.items()
        for unit in (unit_test(name, case.firing, fires=True), unit_test(name, case.quiet, fires=False))
    ]
    file.write_text(yaml.safe_dump({"rule_files": [str(FILE)], "evaluation_interval": "1m", "tests": tests}))
    result = promtool("test", "rules", file)
    assert result.returncode == 0, result.stdout + result.stderr


def unit_test(name: str, series: dict[str, str], *, fires: bool) -> dict[str, Any]:
    """Return a unit test in promtool's form: whether the alert fires after 90 minutes."""
    state = f'(count(ALERTS{{alertname="{name}", alertstate="firing"}}) > bool 0) or vector(0)'
    return {
        "name": f"{name} {'fires' if fires else 'is quiet'}",
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "promql_expr_test": [
            {"expr": state, "eval_time": "90m", "exp_samples": [{"labels": "{}", "value": int(fires)}]}
        ],
    }


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_series_of_a_case_are_of_the_alert(case: Case, request: pytest.FixtureRequest) -> None:
    # An alert never fires on series of another metric, so its quiet case would always pass.
    name = request.node.callspec.id
    (alert,) = (each for each in RULES if each["alert"] == name)
    for series in (*case.firing, *case.quiet):
        assert series.partition("{")[0] in alert["expr"]


def test_every_alert_has_a_section_or_says_what_to_do() -> None:
    notes = {each["alert"]: each["annotations"] for each in RULES}
    assert len(notes) == len(RULES)
    assert [name for name, of in notes.items() if "#" not in of["runbook"] and not of.get("remedy")] == []


def test_the_rule_is_created_by_value_alone() -> None:
    assert render().of_kind("PrometheusRule") == {}


def test_the_rule_holds_the_file_and_the_labels() -> None:
    options = "monitoring.rules.enabled=true", "monitoring.rules.labels.release=prometheus"
    rule = render(*options).of_kind("PrometheusRule")["koord-suite"]
    assert rule["spec"] == yaml.safe_load(FILE.read_text(encoding="utf-8"))
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["metadata"]["labels"]["app.kubernetes.io/part-of"] == "koord-suite"


def test_a_label_that_is_no_text_is_refused() -> None:
    result = run_helm("template", "x", str(FOLDER), "--set", "monitoring.rules.labels.release=1")
    assert result.returncode != 0
    assert "monitoring" in result.stderr
