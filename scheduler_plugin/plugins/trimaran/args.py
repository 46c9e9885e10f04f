"""Arguments of Trimaran's plugins: upstream's names and defaults, with this project's additional keys.

A value outside its range is a problem with path, value and accepted values. Upstream replaces some such values by a
default; here only null means "not given".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, Self

import pydantic

from api_types import names
from api_types.colocation.problem import Problem, problem
from api_types.kubernetes import quantities
from api_types.wire_model import Address
from scheduler_plugin.framework.interface import PluginArgs
from scheduler_plugin.load_watcher.providers import provider_spec
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec

Formula = Literal["corrected", "upstream", "kep"]

_DEFAULT_MULTIPLIERS: Final[Mapping[Formula, str]] = {"corrected": "1.5", "upstream": "1.5", "kep": "1"}
_DEFAULT_REQUESTS: Final[Mapping[Formula, str]] = {"corrected": "1000m", "upstream": "1000m", "kep": "1m"}
_DEFAULT_TARGET_PERCENT: Final = 40
DEFAULT_WEIGHT: Final = 0.5
_UNSMOOTHED: Final[Mapping[str, int]] = {provider_spec.NODE_METRIC: 1, provider_spec.INFLUXDB: 1}
"""Providers whose deviation is that of koordlet's own samples, which are not averaged."""


class MetricProvider(ProviderSpec):
    """Upstream's `metricProvider`. The default type is NodeMetric, koordlet's reports."""

    type: str = provider_spec.NODE_METRIC


class TrimaranArgs(PluginArgs):
    """Arguments that all of Trimaran's plugins take."""

    model_config = pydantic.ConfigDict(populate_by_name=True)

    watcher_address: Address | None = None
    """URL of a load watcher, upstream's or this project's; takes precedence over metricProvider."""
    metric_provider: MetricProvider | None = None
    """Source of measurements. Default: NodeMetric."""
    metric_provider_type: str | None = None
    """The same as metricProvider.type, as KEP-61 writes it."""
    metric_provider_address: Address | None = None
    """The same as metricProvider.address."""
    metric_provider_token: pydantic.SecretStr | None = None
    """The same as metricProvider.token."""
    metric_providers: list[MetricProvider] | None = None
    """Addition to upstream: several providers, in order of trust, which corroborate one another."""
    formula: Formula = "corrected"
    """corrected: upstream's formula with its known defects fixed; upstream: equal to the shipped code; kep: the KEP."""

    kep_names: ClassVar[Mapping[str, str]] = {}
    """Spelling of KEP-61 -> key."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _null_is_not_given(cls, value: Any) -> Any:
        """Remove nulls, and accept the spellings of the KEP. Raises ValueError if a key is given in both."""
        if not isinstance(value, dict):
            return value
        keys = {key: item for key, item in value.items() if item is not None}
        for spelling, key in cls.kep_names.items():
            for written in (spelling, spelling[0].lower() + spelling[1:]):
                if written != key and written in keys:
                    if key in keys:
                        raise ValueError(f"want {key} or {written}, not both")
                    keys[key] = keys.pop(written)
        return keys

    def provider_specs(self) -> list[ProviderSpec]:
        """Return the configured providers, in order of trust."""
        if self.watcher_address:
            return [ProviderSpec(type=provider_spec.LOAD_WATCHER, address=self.watcher_address)]
        if self.metric_providers:
            return list(self.metric_providers)
        provider = self.metric_provider or MetricProvider()
        merged = provider.model_copy(update=self.flat_keys())
        if merged.type == provider_spec.PROMETHEUS and merged.insecure_skip_verify is None:
            merged = merged.model_copy(update={"insecure_skip_verify": True})
        return [merged]

    def names_a_provider(self) -> bool:
        """Return whether any of the provider keys is given."""
        nested = (self.watcher_address, self.metric_provider, self.metric_providers)
        return bool(self.flat_keys()) or any(key is not None for key in nested)

    def flat_keys(self) -> dict[str, Any]:
        """Return the keys of one provider that are given as KEP-61 writes them, by the names of `metricProvider`."""
        flat = {
            "type": self.metric_provider_type,
            "address": self.metric_provider_address,
            "token": self.metric_provider_token,
        }
        return {key: value for key, value in flat.items() if value is not None}

    def problems(self) -> list[Problem]:
        """Return the problems of completed arguments, here those of the provider keys."""
        return list(_provider_problems(self))


class TargetLoadPackingArgs(TrimaranArgs):
    """Arguments of TargetLoadPacking."""

    kep_names: ClassVar[Mapping[str, str]] = {
        "TargetCPUUtilisation": "targetUtilization",
        "DefaultCPURequests": "defaultRequests",
    }
    target_utilization: int | None = None
    """Percent of CPU to fill nodes up to, 1..100; set it 10 points below the intended utilization. Default 40."""
    default_requests: dict[str, str] | None = None
    """CPU that a container without requests and limits is expected to use. Default 1000m; kep: 1m, for a recently
    placed pod without requests."""
    default_requests_multiplier: str | None = None
    """Expected usage of a container without a limit, as a multiple of its request. Default "1.5"; kep: "1", for
    recently placed pods."""

    @pydantic.field_validator("default_requests", mode="before")
    @classmethod
    def _numbers_are_quantities(cls, value: Any) -> Any:
        """Accept numbers as quantities (`cpu: 1`), as Kubernetes does."""
        if not isinstance(value, dict):
            return value
        return {key: str(item) if type(item) in (int, float) else item for key, item in value.items()}

    def with_defaults(self) -> Self:
        """Fill in the defaults."""
        return self.completed(
            target_utilization=_DEFAULT_TARGET_PERCENT,
            default_requests={names.CPU: _DEFAULT_REQUESTS[self.formula]},
            default_requests_multiplier=_DEFAULT_MULTIPLIERS[self.formula],
        )

    def multiplier(self) -> float:
        """Return the multiplier of requests. Raises ValueError."""
        multiplier = self.default_requests_multiplier
        return float(_DEFAULT_MULTIPLIERS[self.formula] if multiplier is None else multiplier)

    def default_millis(self) -> int:
        """Return the expected CPU of a container without requests and limits. Raises quantities.InvalidQuantity."""
        return quantities.cpu_millis((self.default_requests or {}).get(names.CPU, "0"))

    def problems(self) -> list[Problem]:
        """Return the problems of completed arguments."""
        problems = super().problems()
        if not 1 <= (self.target_utilization or 0) <= 100:
            problems.append(problem(("targetUtilization",), self.target_utilization, "1..100"))
        try:
            usable = math.isfinite(self.multiplier()) and self.multiplier() > 0
        except ValueError:
            usable = False
        if not usable or "_" in (self.default_requests_multiplier or ""):  # Python reads 1_5 as 15
            want = 'a number above 0 as text, like "1.5"'
            problems.append(problem(("defaultRequestsMultiplier",), self.default_requests_multiplier, want))
        try:
            usable = self.default_millis() >= 0
        except quantities.InvalidQuantity:
            usable = False
        if not usable:
            want = 'a quantity of CPU, like "1000m"'
            problems.append(problem(("defaultRequests", names.CPU), self.default_requests, want))
        return problems


class LoadVariationRiskBalancingArgs(TrimaranArgs):
    """Arguments of LoadVariationRiskBalancing."""

    kep_names: ClassVar[Mapping[str, str]] = {"SafeVarianceMargin": "safeVarianceMargin"}
    safe_variance_margin: float | None = None
    """Standard deviations added to the mean, 0 or more. Default 1; with 1, 2, 3 (sensitivity 1, normally distributed
    usage) the usage exceeds the sum 16, 2.5, 0.15 % of the time."""
    safe_variance_sensitivity: float | None = None
    """The deviation is raised to 1/this, 0 or more. Default 1; 2 makes small deviations count more."""

    def with_defaults(self) -> Self:
        """Fill in the defaults."""
        return self.completed(safe_variance_margin=1.0, safe_variance_sensitivity=1.0)

    def problems(self) -> list[Problem]:
        """Return the problems of completed arguments."""
        problems = super().problems()
        for key, value in (
            ("safeVarianceMargin", self.safe_variance_margin),
            ("safeVarianceSensitivity", self.safe_variance_sensitivity),
        ):
            if value is None or not (math.isfinite(value) and value >= 0):
                problems.append(problem((key,), value, "a number of 0 or more"))
        return problems


class LowRiskOverCommitmentArgs(TrimaranArgs):
    """Arguments of LowRiskOverCommitment, also known as LoadRiskAwareCommitment."""

    smoothing_window_size: int | None = None
    """Number of points over which the measured utilization was averaged, 1 or more. Default 5."""
    smoothing_window_sizes: dict[str, int] | None = None
    """Addition to upstream: the same for each provider, by its name. Default with formula corrected, unless
    smoothingWindowSize is given: 1 for NodeMetric and InfluxDB, and the minutes of the preset for Prometheus."""
    risk_limit_weights: dict[str, float] | None = None
    """Weight of the limit risk against the load risk, 0..1 for cpu and memory. Default 0.5."""
    risk_limit_weight: float | None = None
    """One weight for both resources, as KEP-357 writes it."""

    def with_defaults(self, specs: Sequence[ProviderSpec] | None = None) -> Self:
        """Fill in the defaults; a resource that is missing in a given map has `DEFAULT_WEIGHT`.

        `specs` are the providers that are read, if they are not those of these arguments.
        """
        common = DEFAULT_WEIGHT if self.risk_limit_weight is None else self.risk_limit_weight
        weights = self.risk_limit_weights or {}
        if not weights or self.risk_limit_weight is not None:
            weights = dict.fromkeys((names.CPU, names.MEMORY), common) | weights
        sizes = self.smoothing_window_sizes
        if self.smoothing_window_size is None and self.formula == "corrected":
            read = self.provider_specs() if specs is None else specs
            minutes = {name: max(seconds // 60, 1) for name, seconds in provider_spec.rate_seconds(read).items()}
            sizes = {**_UNSMOOTHED, **minutes, **(sizes or {})}
        changed = self.model_copy(update={"smoothing_window_sizes": sizes, "risk_limit_weights": weights})
        return changed.completed(smoothing_window_size=5)

    def problems(self) -> list[Problem]:
        """Return the problems of completed arguments."""
        problems, sizes = super().problems(), self.smoothing_window_sizes or {}
        if (self.smoothing_window_size or 0) < 1:
            problems.append(problem(("smoothingWindowSize",), self.smoothing_window_size, "1 or more"))
        problems += [
            problem(("smoothingWindowSizes", name), sizes[name], "1 or more") for name in sizes if sizes[name] < 1
        ]
        want = f"names of providers: {', '.join(provider_spec.NEEDS)}"
        problems += [
            problem(("smoothingWindowSizes",), name, want) for name in sizes if name not in provider_spec.NEEDS
        ]
        for resource, weight in (self.risk_limit_weights or {}).items():
            if resource not in (names.CPU, names.MEMORY):
                problems.append(problem(("riskLimitWeights", resource), weight, "the keys cpu and memory only"))
            elif not 0 <= weight <= 1:
                problems.append(problem(("riskLimitWeights", resource), weight, "0..1"))
        return problems


class PowerModel(pydantic.BaseModel):
    """Power of a node in watts: k0 + k1 * exp(k2 * utilization in percent)."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0


class PeaksArgs(TrimaranArgs):
    """Arguments of Peaks. Upstream's capitalised spelling of its two keys is accepted as well."""

    node_power_model: dict[str, PowerModel] | None = None
    """Power model by node name; empty means the JSON file in the environment variable NODE_POWER_MODEL."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _capitals(cls, value: Any) -> Any:
        capitals = {"WatcherAddress": "watcherAddress", "NodePowerModel": "nodePowerModel"}
        return {capitals.get(key, key): item for key, item in value.items()} if isinstance(value, dict) else value

    def problems(self) -> list[Problem]:
        """Return the problems of completed arguments."""
        unusable = [
            problem(("nodePowerModel", name), model.model_dump(), "finite k0, k1 and k2")
            for name, model in (self.node_power_model or {}).items()
            if not all(map(math.isfinite, (model.k0, model.k1, model.k2)))
        ]
        return [*super().problems(), *unusable]


def common_specs(all_args: Mapping[str, pydantic.BaseModel]) -> list[ProviderSpec]:
    """Return the providers that all running plugins share; empty if none of Trimaran's plugins runs.

    `all_args` are the arguments by plugin. One load watcher serves all plugins, so a plugin without provider keys uses
    the providers of the others. Raises Contradiction.
    """
    trimaran = {name: args for name, args in all_args.items() if isinstance(args, TrimaranArgs)}
    naming = {name: args.provider_specs() for name, args in trimaran.items() if args.names_a_provider()}
    first = next(iter(naming or trimaran), None)
    for name, specs in naming.items():
        if first is not None and specs != naming[first]:
            raise Contradiction(name, f"the providers of {first}, or none: one load watcher serves all plugins")
    return [] if first is None else trimaran[first].provider_specs()


class Contradiction(ValueError):
    """Two plugins have different providers; arguments: the plugin, and what is wanted."""


def _provider_problems(args: TrimaranArgs) -> Iterator[Problem]:
    if not args.watcher_address:
        yield from _contradictions(args)
    specs = args.provider_specs()
    types = [spec.type for spec in specs]
    for index, spec in enumerate(specs):
        path = ("metricProviders", index) if args.metric_providers else ("metricProvider",)
        shown = spec.model_dump(by_alias=True, exclude_defaults=True, exclude={"token", "application_key"})
        for text in provider_spec.problems(spec):
            yield problem(path, shown, text)
        if spec.type == provider_spec.NODE_METRIC and (spec.address or spec.token.get_secret_value()):
            want = f"the type of the provider with this address or token: {spec.type}, the default, has no server"
            yield problem(path, shown, want)
        if spec.type in types[:index]:
            yield problem(path, shown, f"each type at most once, {spec.type} is listed before it")


def _contradictions(args: TrimaranArgs) -> Iterator[Problem]:
    """Yield a problem for each pair of keys that contradict each other; watcherAddress may override, as upstream's."""
    nested = args.metric_provider.model_dump(exclude_unset=True) if args.metric_provider else {}
    flat_keys = args.flat_keys()
    for name, value in flat_keys.items():
        if nested.get(name, value) != value:
            path = (f"metricProvider{name.capitalize()}",)
            shown = "(not shown)" if name == "token" else value
            yield problem(path, shown, f"the same as metricProvider.{name}, or one of the two")
    if args.metric_providers and (nested or flat_keys):
        want = "metricProviders or metricProvider, not both"
        yield problem(("metricProviders",), [spec.type for spec in args.metric_providers], want)
