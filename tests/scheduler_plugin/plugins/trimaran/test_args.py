"""Tests of the provider keys in every spelling, and of the load watcher that all plugins share (B7)."""

from __future__ import annotations

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


def test_an_error_never_contains_a_token() -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        specs(TargetLoadPacking={"metricProvider": {"type": "Datadog", "token": "s3cret"}})
    assert "s3cret" not in str(raised.value)


def test_b5_skips_verification_of_prometheus_by_default_also_without_a_token() -> None:
    spec = trimaran_args.TrimaranArgs.model_validate({"metricProvider": {"type": "Prometheus"}}).provider_specs()[0]
    assert spec.insecure_skip_verify is True


def test_the_defaults_are_those_of_the_design_documents() -> None:
    packing = TargetLoadPackingArgs().with_defaults()
    assert packing.target_utilization == 40
    assert packing.default_millis() == 1000
    assert packing.multiplier() == 1.5
    assert LoadVariationRiskBalancingArgs().with_defaults().safe_variance_margin == 1.0
    committing = LowRiskOverCommitmentArgs().with_defaults()
    assert (committing.smoothing_window_size, committing.risk_limit_weights) == (5, {"cpu": 0.5, "memory": 0.5})
