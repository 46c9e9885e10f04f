"""Tests of the provider keys in every spelling, and of the load watcher that all plugins share (B7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler_plugin.config import loader
from scheduler_plugin.config.loader import InvalidConfiguration
from scheduler_plugin.plugins.trimaran import args as trimaran_args
from scheduler_plugin.plugins.trimaran.args import (
    LoadVariationRiskBalancingArgs,
    LowRiskOverCommitmentArgs,
    TargetLoadPackingArgs,
)

TLP, LVRB = "TargetLoadPacking", "LoadVariationRiskBalancing"


def specs(**by_plugin: dict[str, Any]) -> list[tuple[str, str]]:
    document = {
        "plugins": {"score": {"enabled": [{"name": name} for name in by_plugin]}},
        "pluginConfig": [{"name": name, "args": args} for name, args in by_plugin.items()],
    }
    chosen = loader.parse(document)
    return [(spec.type, spec.address) for spec in trimaran_args.common_specs(chosen.args)]


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ({}, [("NodeMetric", "")]),
        ({"metricProvider": {"type": "Prometheus", "address": "http://p"}}, [("Prometheus", "http://p")]),
        ({"metricProviderType": "Prometheus", "metricProviderAddress": "http://p"}, [("Prometheus", "http://p")]),
        ({"watcherAddress": "http://w:2020"}, [("LoadWatcher", "http://w:2020")]),
        ({"watcherAddress": "http://w", "metricProvider": {"type": "Prometheus"}}, [("LoadWatcher", "http://w")]),
        (
            {"metricProviders": [{"type": "NodeMetric"}, {"type": "Prometheus"}]},
            [("NodeMetric", ""), ("Prometheus", "")],
        ),
    ],
)
def test_reads_the_provider_in_every_spelling(args: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert specs(TargetLoadPacking=args) == found


def test_b7_a_plugin_without_provider_uses_that_of_the_others() -> None:
    prometheus = {"metricProvider": {"type": "Prometheus"}}
    assert specs(TargetLoadPacking={}, LoadVariationRiskBalancing=prometheus) == [("Prometheus", "")]
    assert specs(TargetLoadPacking=prometheus, LoadVariationRiskBalancing=prometheus) == [("Prometheus", "")]


def test_b7_rejects_two_plugins_with_different_providers() -> None:
    with pytest.raises(InvalidConfiguration, match="one load watcher serves all plugins"):
        specs(
            TargetLoadPacking={"watcherAddress": "http://w"},
            LoadVariationRiskBalancing={"metricProviderType": "Prometheus"},
        )


@pytest.mark.parametrize(
    ("provider", "problem"),
    [
        ({"type": "Bogus"}, "type is 'Bogus', want one of NodeMetric"),
        ({"type": "SignalFx"}, "token is not set, and SignalFx needs it"),
        ({"type": "prometheus"}, "type is 'prometheus', want one of"),
        (
            {"address": "http://prometheus:9090"},
            "want the type of the provider with this address or token: NodeMetric, the default",
        ),
    ],
)
def test_rejects_an_unusable_provider_with_the_accepted_values(provider: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidConfiguration, match=problem):
        specs(TargetLoadPacking={"metricProvider": provider})


def test_rejects_the_address_of_a_load_watcher_that_is_not_a_url() -> None:
    with pytest.raises(InvalidConfiguration, match="address is 'watcher:2020', want a URL that begins with http://"):
        specs(TargetLoadPacking={"watcherAddress": "watcher:2020"})


def test_rejects_a_provider_that_is_listed_twice() -> None:
    twice = [{"type": "Prometheus", "address": "http://a"}, {"type": "Prometheus", "address": "http://b"}]
    with pytest.raises(InvalidConfiguration, match=r"metricProviders\[1\].*each type at most once"):
        specs(TargetLoadPacking={"metricProviders": twice})


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (
            {"metricProvider": {"type": "Prometheus"}, "metricProviders": [{"type": "NodeMetric"}]},
            r"metricProviders: seen \[\"NodeMetric\"\], want metricProviders or metricProvider, not both",
        ),
        (
            {"metricProvider": {"type": "Prometheus"}, "metricProviderType": "InfluxDB"},
            r'metricProviderType: seen "InfluxDB", want the same as metricProvider\.type',
        ),
        (
            {"metricProvider": {"type": "Prometheus", "token": "s3cret"}, "metricProviderToken": "0ther"},
            r"metricProviderToken: seen \"\(not shown\)\", want the same as metricProvider\.token",
        ),
        ({"metricProvider": {"type": "Prometheus", "tokn": "x"}}, r"tokn: .*one of the keys type, address, token"),
    ],
)
def test_rejects_keys_that_contradict_each_other(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidConfiguration, match=problem):
        specs(TargetLoadPacking=args)


@pytest.mark.parametrize("cpu", [1, 0.25, "1", "250m"])
def test_accepts_a_number_as_quantity(cpu: object) -> None:
    args = trimaran_args.TargetLoadPackingArgs.model_validate({"defaultRequests": {"cpu": cpu}})
    assert args.default_millis() == {1: 1000, 0.25: 250, "1": 1000, "250m": 250}[cpu]


@pytest.mark.parametrize(
    ("plugin", "args", "problem"),
    [
        (
            "Peaks",
            {"nodePowerModel": {"n": {"k1": float("nan")}}},
            "nodePowerModel.n: .* want finite k0, k1 and k2",
        ),
        (TLP, {"defaultRequestsMultiplier": "1_5"}, 'seen "1_5", want a number above 0'),
    ],
)
def test_rejects_values_that_would_be_ignored_or_misread(plugin: str, args: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidConfiguration, match=problem):
        specs(**{plugin: args})


def test_rejects_an_empty_multiplier() -> None:
    with pytest.raises(InvalidConfiguration, match='defaultRequestsMultiplier: seen "", want a number above 0'):
        specs(TargetLoadPacking={"defaultRequestsMultiplier": ""})


def test_keeps_given_weights_and_fills_a_missing_map() -> None:
    def weights(**args: Any) -> dict[str, float] | None:
        return trimaran_args.LowRiskOverCommitmentArgs.model_validate(args).with_defaults().risk_limit_weights

    assert weights(riskLimitWeights={"cpu": 1}) == {"cpu": 1}
    assert weights(riskLimitWeights={}) == {"cpu": 0.5, "memory": 0.5}
    assert weights(riskLimitWeights={"cpu": 1}, riskLimitWeight=0.3) == {"cpu": 1, "memory": 0.3}


def test_an_error_never_contains_a_token() -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        specs(TargetLoadPacking={"metricProvider": {"type": "Datadog", "token": "s3cret"}})
    assert "s3cret" not in str(raised.value)


def test_b5_skips_verification_of_prometheus_by_default_also_without_a_token() -> None:
    spec = trimaran_args.TrimaranArgs.model_validate({"metricProvider": {"type": "Prometheus"}}).provider_specs()[0]
    assert spec.insecure_skip_verify is True


@pytest.mark.parametrize("spell", [str, lambda key: key[0].lower() + key[1:]], ids=["as in Go", "as in YAML"])
def test_reads_the_spellings_of_kep_61(spell: Callable[[str], str]) -> None:
    packing = {spell("TargetCPUUtilisation"): 70, spell("DefaultCPURequests"): {"cpu": "2"}}
    balancing = {spell("SafeVarianceMargin"): 3}
    document = {
        "plugins": {"score": {"enabled": [{"name": TLP}, {"name": LVRB}]}},
        "pluginConfig": [{"name": TLP, "args": packing}, {"name": LVRB, "args": balancing}],
    }
    found = loader.parse(document).args
    assert (found[TLP].target_utilization, found[TLP].default_requests) == (70, {"cpu": "2"})  # type: ignore[attr-defined]
    assert found[LVRB].safe_variance_margin == 3  # type: ignore[attr-defined]


def test_refuses_a_value_in_two_spellings() -> None:
    with pytest.raises(InvalidConfiguration, match="want targetUtilization or TargetCPUUtilisation, not both"):
        specs(TargetLoadPacking={"targetUtilization": 40, "TargetCPUUtilisation": 40})


def test_the_defaults_are_those_of_the_design_documents() -> None:
    packing = TargetLoadPackingArgs().with_defaults()
    assert packing.target_utilization == 40
    assert packing.default_millis() == 1000
    assert packing.multiplier() == 1.5
    assert LoadVariationRiskBalancingArgs().with_defaults().safe_variance_margin == 1.0
    committing = LowRiskOverCommitmentArgs().with_defaults()
    assert (committing.smoothing_window_size, committing.risk_limit_weights) == (5, {"cpu": 0.5, "memory": 0.5})


@pytest.mark.parametrize("cpu", ["many", "-1"])
def test_rejects_a_default_request_that_is_not_a_quantity_of_cpu(cpu: str) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        specs(TargetLoadPacking={"defaultRequests": {"cpu": cpu}})
    (problem,) = refused.value.problems
    assert problem.startswith("pluginConfig[0].args.defaultRequests.cpu: seen ")
    assert problem.endswith('want a quantity of CPU, like "1000m"')
