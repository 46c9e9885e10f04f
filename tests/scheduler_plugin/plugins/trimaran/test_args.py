"""Where measurements come from, in every spelling, and one load watcher for all policies (B7)."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_plugin.config import loader
from scheduler_plugin.config.loader import InvalidConfiguration
from scheduler_plugin.load_watcher.providers import provider_spec, registry
from scheduler_plugin.plugins.trimaran import args as trimaran_args

TLP, LVRB = "TargetLoadPacking", "LoadVariationRiskBalancing"


def specs(**by_policy: dict[str, Any]) -> list[tuple[str, str]]:
    document = {
        "plugins": {"score": {"enabled": [{"name": name} for name in by_policy]}},
        "pluginConfig": [{"name": name, "args": args} for name, args in by_policy.items()],
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
def test_the_provider_is_found_in_every_spelling(args: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert specs(TargetLoadPacking=args) == found


def test_b7_one_load_watcher_serves_all_and_silence_agrees() -> None:
    prometheus = {"metricProvider": {"type": "Prometheus"}}
    assert specs(TargetLoadPacking={}, LoadVariationRiskBalancing=prometheus) == [("Prometheus", "")]
    assert specs(TargetLoadPacking=prometheus, LoadVariationRiskBalancing=prometheus) == [("Prometheus", "")]


def test_b7_two_policies_that_name_different_providers_are_an_error() -> None:
    with pytest.raises(InvalidConfiguration, match="one load watcher serves all policies"):
        specs(
            TargetLoadPacking={"watcherAddress": "http://w"},
            LoadVariationRiskBalancing={"metricProviderType": "Prometheus"},
        )


@pytest.mark.parametrize(
    ("provider", "problem"),
    [
        ({"type": "Bogus"}, "type is 'Bogus', wanted one of NodeMetric"),
        ({"type": "SignalFx"}, "token is not set, and SignalFx needs it"),
        ({"type": "prometheus"}, "type is 'prometheus', wanted one of"),
        (
            {"address": "http://prometheus:9090"},
            "want the type that the address or token is of: NodeMetric, the default",
        ),
    ],
)
def test_a_provider_that_cannot_work_is_an_error_with_what_is_wanted(provider: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidConfiguration, match=problem):
        specs(TargetLoadPacking={"metricProvider": provider})


def test_a_provider_named_twice_is_an_error_because_one_would_hide_the_other() -> None:
    twice = [{"type": "Prometheus", "address": "http://a"}, {"type": "Prometheus", "address": "http://b"}]
    with pytest.raises(InvalidConfiguration, match=r"metricProviders\[1\].*each type at most once"):
        specs(TargetLoadPacking={"metricProviders": twice})


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (
            {"metricProvider": {"type": "Prometheus"}, "metricProviders": [{"type": "NodeMetric"}]},
            r"metricProviders: seen \[\"NodeMetric\"\], want no metricProvider beside it",
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
def test_of_two_keys_that_contradict_one_another_none_wins_in_silence(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidConfiguration, match=problem):
        specs(TargetLoadPacking=args)


@pytest.mark.parametrize("cpu", [1, 0.25, "1", "250m"])
def test_a_quantity_may_be_a_number_as_everywhere_in_kubernetes(cpu: object) -> None:
    args = trimaran_args.TargetLoadPackingArgs.model_validate({"defaultRequests": {"cpu": cpu}})
    assert args.default_millis() == {1: 1000, 0.25: 250, "1": 1000, "250m": 250}[cpu]


@pytest.mark.parametrize(
    ("policy", "args", "problem"),
    [
        (
            "Peaks",
            {"nodePowerModel": {"n": {"k1": float("nan")}}},
            "nodePowerModel.n: .* want k0, k1 and k2 that are fin",
        ),
        (TLP, {"defaultRequestsMultiplier": "1_5"}, 'seen "1_5", want a number above 0'),
    ],
)
def test_what_would_count_for_nothing_or_for_something_else_is_an_error(
    policy: str, args: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidConfiguration, match=problem):
        specs(**{policy: args})


def test_an_empty_multiplier_is_an_error_and_not_the_default() -> None:
    with pytest.raises(InvalidConfiguration, match='defaultRequestsMultiplier: seen "", want a number above 0'):
        specs(TargetLoadPacking={"defaultRequestsMultiplier": ""})


def test_a_map_of_weights_is_left_as_given_and_what_it_lacks_is_the_default_or_the_common_weight() -> None:
    def weights(**args: Any) -> dict[str, float] | None:
        return trimaran_args.LowRiskOverCommitmentArgs.model_validate(args).with_defaults().risk_limit_weights

    assert weights(riskLimitWeights={"cpu": 1}) == {"cpu": 1}
    assert weights(riskLimitWeights={}) == {"cpu": 0.5, "memory": 0.5}
    assert weights(riskLimitWeights={"cpu": 1}, riskLimitWeight=0.3) == {"cpu": 1, "memory": 0.3}


def test_a_token_is_never_part_of_an_error() -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        specs(TargetLoadPacking={"metricProvider": {"type": "Datadog", "token": "s3cret"}})
    assert "s3cret" not in str(refused.value)


def test_b5_prometheus_is_not_verified_by_default_as_upstream_and_that_holds_without_a_token() -> None:
    spec = trimaran_args.TrimaranArgs.model_validate({"metricProvider": {"type": "Prometheus"}}).provider_specs()[0]
    assert spec.insecure_skip_verify is True


def test_every_provider_that_can_be_named_can_be_built() -> None:
    assert registry.PROVIDERS.keys() == provider_spec.NEEDS.keys()
