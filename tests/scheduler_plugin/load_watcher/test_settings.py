from __future__ import annotations

from pathlib import Path

import pytest

from component_base.settings import SettingsError
from scheduler_plugin.load_watcher.settings import LoadWatcherSettings, provider_specs


def problems_of(chosen: LoadWatcherSettings, **environ: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as raised:
        provider_specs(chosen, environ)
    return raised.value.problems


def test_the_default_provider_is_metrics_server_as_upstreams() -> None:
    assert [spec.type for spec in provider_specs(LoadWatcherSettings(), {})] == ["KubernetesMetricsServer"]


def test_g7_several_names_give_several_providers_in_order_of_trust() -> None:
    specs = provider_specs(LoadWatcherSettings(), {"METRICS_PROVIDER_NAME": "NodeMetric, Prometheus"})
    assert [spec.type for spec in specs] == ["NodeMetric", "Prometheus"]


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"METRICS_PROVIDER_NAME": "Prometeus"}, "provider 1: type is 'Prometeus', want one of NodeMetric, "),
        ({"METRICS_PROVIDER_NAME": "SignalFx"}, "provider 1: token is not set, and SignalFx needs it"),
        ({"METRICS_PROVIDER_NAME": "Prometheus", "METRICS_PROVIDER_QUERIES": "x"}, "queries is 'x', want one of"),
        ({"METRICS_PROVIDER_NAME": "NodeMetric,NodeMetric"}, "provider NodeMetric is listed twice"),
        (
            {"METRICS_PROVIDER_NAME": "Prometheus,KubernetesMetricsServer,SignalFx", "METRICS_PROVIDER_TOKEN": "t"},
            "METRICS_PROVIDER_TOKEN: Prometheus and SignalFx would share it; list them in --providers-file",
        ),
        (
            {"METRICS_PROVIDER_NAME": "LoadWatcher", "METRICS_PROVIDER_ADDRESS": "koord-load-watcher:2020"},
            "address is 'koord-load-watcher:2020', want a URL that begins with http:// or https://",
        ),
        (
            {"METRICS_PROVIDER_NAME": "Prometheus", "METRICS_PROVIDER_ADDRESS": "htp://prometheus:9090"},
            "address is 'htp://prometheus:9090', want a URL that begins with http:// or https://",
        ),
    ],
)
def test_a_wrong_provider_is_an_error_with_the_accepted_values(environ: dict[str, str], problem: str) -> None:
    (found,) = problems_of(LoadWatcherSettings(), **environ)
    assert problem in found


def test_a_providers_file_has_the_keys_of_metric_provider(tmp_path: Path) -> None:
    file = tmp_path / "providers.yaml"
    file.write_text("- type: NodeMetric\n- {type: Prometheus, address: 'http://p:9090', insecureSkipVerify: true}\n")
    first, second = provider_specs(LoadWatcherSettings(providers_file=str(file)), {})
    assert first.type == "NodeMetric"
    assert (second.address, second.insecure_skip_verify) == ("http://p:9090", True)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("- type: InfluxDB", "address is not set, and InfluxDB needs it"),
        ("- {type: NodeMetric, adress: x}", "0.adress: Extra inputs are not permitted"),
        ("type: NodeMetric", "the document: Input should be a valid list"),
        ("- since: 2026-13-01", "are not YAML"),
        ("[]", "lists no provider, want at least one"),
    ],
)
def test_reports_every_problem_of_the_file_with_its_path(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "providers.yaml"
    file.write_text(content)
    found = problems_of(LoadWatcherSettings(providers_file=str(file)))
    assert any(str(file) in line and problem in line for line in found)
