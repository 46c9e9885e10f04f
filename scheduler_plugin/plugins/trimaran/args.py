"""Arguments of Trimaran's policies: upstream's names and defaults, ours beside them (design 3.4, 4.6).

Nothing is silently replaced: a value outside of its range is a problem with path, value and what is wanted. Where
upstream replaces one (reference trimaran section 1.1) ours is an error, but for null, which is "not given".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, Self

import pydantic
from pydantic.alias_generators import to_camel

from api_types import names
from api_types.colocation import problem as config_problem
from api_types.colocation.problem import Problem
from api_types.kubernetes import quantities
from scheduler_plugin.load_watcher.providers import provider_spec
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec

Formula = Literal["corrected", "upstream", "kep"]

_DEFAULT_MULTIPLIER: Final = "1.5"
_DEFAULT_REQUESTS: Final[Mapping[Formula, str]] = {"corrected": "1000m", "upstream": "1000m", "kep": "1m"}
_DEFAULT_TARGET_PERCENT: Final = 40
DEFAULT_WEIGHT: Final = 0.5


class MetricProvider(ProviderSpec):
    """Upstream's `metricProvider`; without a type it is NodeMetric, the reports of our own agents."""

    type: str = provider_spec.NODE_METRIC


class TrimaranArgs(pydantic.BaseModel):
    """What all of them take."""

    model_config = pydantic.ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, populate_by_name=True, use_attribute_docstrings=True
    )

    watcher_address: str | None = None
    """URL of a load watcher, upstream's or ours; wins over metricProvider."""
    metric_provider: MetricProvider | None = None
    """Where measurements come from. Default: NodeMetric."""
    metric_provider_type: str | None = None
    """The same as metricProvider.type, as KEP-61 writes it."""
    metric_provider_address: str | None = None
    """The same as metricProvider.address."""
    metric_provider_token: str | None = None
    """The same as metricProvider.token."""
    metric_providers: list[MetricProvider] | None = None
    """Ours: several at once, in order of trust; they corroborate one another."""
    formula: Formula = "corrected"
    """corrected: upstream's with its known defects mended; upstream: the shipped code to the bit; kep: the design."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _null_is_not_given(cls, value: Any) -> Any:
        return {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value

    def provider_specs(self) -> list[ProviderSpec]:
        """Providers to ask, in order of trust."""
        if self.watcher_address:
            return [ProviderSpec(type=provider_spec.LOAD_WATCHER, address=self.watcher_address)]
        if self.metric_providers:
            return list(self.metric_providers)
        given = self.metric_provider or MetricProvider()
        flat = {
            "type": self.metric_provider_type,
            "address": self.metric_provider_address,
            "token": self.metric_provider_token,
        }
        merged = given.model_copy(update={key: value for key, value in flat.items() if value is not None})
        if merged.type == provider_spec.PROMETHEUS and merged.insecure_skip_verify is None:
            merged = merged.model_copy(update={"insecure_skip_verify": True})
        return [merged]

    def names_a_provider(self) -> bool:
        """Whether any of the keys above was given."""
        given = (
            self.watcher_address, self.metric_provider, self.metric_provider_type, self.metric_provider_address,
            self.metric_provider_token, self.metric_providers,
        )  # fmt: skip
        return any(each is not None for each in given)

    def with_defaults(self) -> Self:
        """Complete what is not given."""
        return self


class TargetLoadPackingArgs(TrimaranArgs):
    """Of TargetLoadPacking."""

    target_utilization: int | None = None
    """Percent of CPU to fill nodes up to, 1..100; set it 10 points below what is wished. Default 40."""
    default_requests: dict[str, str] | None = None
    """CPU that a container without requests and limits is expected to use. Default 1000m; kep: 1m."""
    default_requests_multiplier: str | None = None
    """What a container is expected to use, as a multiple of its request, where it has no limit. Default "1.5"."""

    @pydantic.field_validator("default_requests", mode="before")
    @classmethod
    def _numbers_are_quantities(cls, value: Any) -> Any:
        """`cpu: 1` is a quantity too, as everywhere in Kubernetes."""
        if not isinstance(value, dict):
            return value
        return {key: str(item) if type(item) in (int, float) else item for key, item in value.items()}

    def with_defaults(self) -> Self:
        """Complete what is not given."""
        return self.model_copy(
            update={
                "target_utilization": _given(self.target_utilization, _DEFAULT_TARGET_PERCENT),
                "default_requests": _given(self.default_requests, {names.CPU: _DEFAULT_REQUESTS[self.formula]}),
                "default_requests_multiplier": _given(self.default_requests_multiplier, _DEFAULT_MULTIPLIER),
            }
        )

    def multiplier(self) -> float:
        """Of the requests. Raises ValueError."""
        return float(_given(self.default_requests_multiplier, _DEFAULT_MULTIPLIER))

    def default_millis(self) -> int:
        """Of a container that declares nothing. Raises quantities.InvalidQuantity."""
        return quantities.cpu_millis((self.default_requests or {}).get(names.CPU, "0"))


class LoadVariationRiskBalancingArgs(TrimaranArgs):
    """Of LoadVariationRiskBalancing."""

    safe_variance_margin: float | None = None
    """How many deviations above the mean count as risk, 0 or more. Default 1; 1, 2, 3 leave 16, 2.5, 0.15 %."""
    safe_variance_sensitivity: float | None = None
    """Root that is taken of the deviation, 0 or more. Default 1; 2 makes small deviations weigh more."""

    def with_defaults(self) -> Self:
        """Complete what is not given."""
        return self.model_copy(
            update={
                "safe_variance_margin": _given(self.safe_variance_margin, 1.0),
                "safe_variance_sensitivity": _given(self.safe_variance_sensitivity, 1.0),
            }
        )


class LowRiskOverCommitmentArgs(TrimaranArgs):
    """Of LowRiskOverCommitment, also known as LoadRiskAwareCommitment."""

    smoothing_window_size: int | None = None
    """How many points the measured deviation was averaged over, 1 or more. Default 5."""
    smoothing_window_sizes: dict[str, int] | None = None
    """Ours: the same per provider, by its name (G20)."""
    risk_limit_weights: dict[str, float] | None = None
    """Share of the risk that limits promise, against the risk of the load, 0..1 for cpu and memory. Default 0.5."""
    risk_limit_weight: float | None = None
    """One share for both, as KEP-357 writes it."""

    def with_defaults(self) -> Self:
        """Complete what is not given; a resource that a given map lacks has `DEFAULT_WEIGHT`."""
        common = _given(self.risk_limit_weight, DEFAULT_WEIGHT)
        weights = self.risk_limit_weights or {}
        if not weights or self.risk_limit_weight is not None:
            weights = dict.fromkeys((names.CPU, names.MEMORY), common) | weights
        return self.model_copy(
            update={
                "smoothing_window_size": _given(self.smoothing_window_size, 5),
                "risk_limit_weights": weights,
            }
        )


class PowerModel(pydantic.BaseModel):
    """Power of a node in watts: k0 + k1 * exp(k2 * utilisation in percent)."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0


class PeaksArgs(TrimaranArgs):
    """Of Peaks; upstream spells its two keys with capitals, which are taken as well."""

    node_power_model: dict[str, PowerModel] | None = None
    """Power model by node name; empty means the JSON file that the variable NODE_POWER_MODEL names."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _capitals(cls, value: Any) -> Any:
        capitals = {"WatcherAddress": "watcherAddress", "NodePowerModel": "nodePowerModel"}
        return {capitals.get(key, key): item for key, item in value.items()} if isinstance(value, dict) else value


def target_load_packing_problems(args: TargetLoadPackingArgs) -> list[Problem]:
    """What is wrong with completed arguments of TargetLoadPacking."""
    found = list(_provider_problems(args))
    if not 1 <= (args.target_utilization or 0) <= 100:
        found.append(config_problem.problem(("targetUtilization",), args.target_utilization, "1..100"))
    try:
        usable = math.isfinite(args.multiplier()) and args.multiplier() > 0
    except ValueError:
        usable = False
    if not usable or "_" in (args.default_requests_multiplier or ""):  # Python reads 1_5 as 15
        wanted = 'a number above 0 as text, like "1.5"'
        found.append(config_problem.problem(("defaultRequestsMultiplier",), args.default_requests_multiplier, wanted))
    try:
        usable = args.default_millis() >= 0
    except quantities.InvalidQuantity:
        usable = False
    if not usable:
        wanted = 'a quantity of CPU, like "1000m"'
        found.append(config_problem.problem(("defaultRequests", names.CPU), args.default_requests, wanted))
    return found


def load_variation_problems(args: LoadVariationRiskBalancingArgs) -> list[Problem]:
    """What is wrong with completed arguments of LoadVariationRiskBalancing."""
    found = list(_provider_problems(args))
    for key, value in (
        ("safeVarianceMargin", args.safe_variance_margin),
        ("safeVarianceSensitivity", args.safe_variance_sensitivity),
    ):
        if value is None or not (math.isfinite(value) and value >= 0):
            found.append(config_problem.problem((key,), value, "a number of 0 or more"))
    return found


def low_risk_problems(args: LowRiskOverCommitmentArgs) -> list[Problem]:
    """What is wrong with completed arguments of LowRiskOverCommitment."""
    found = list(_provider_problems(args))
    if (args.smoothing_window_size or 0) < 1:
        found.append(config_problem.problem(("smoothingWindowSize",), args.smoothing_window_size, "1 or more"))
    found += [
        config_problem.problem(("smoothingWindowSizes", name), size, "1 or more")
        for name, size in (args.smoothing_window_sizes or {}).items()
        if size < 1
    ]
    for resource, weight in (args.risk_limit_weights or {}).items():
        if resource not in (names.CPU, names.MEMORY):
            found.append(config_problem.problem(("riskLimitWeights", resource), weight, "the keys cpu and memory only"))
        elif not 0 <= weight <= 1:
            found.append(config_problem.problem(("riskLimitWeights", resource), weight, "0..1"))
    return found


def peaks_problems(args: PeaksArgs) -> list[Problem]:
    """What is wrong with completed arguments of Peaks."""
    unusable = [
        config_problem.problem(("nodePowerModel", name), model.model_dump(), "k0, k1 and k2 that are finite")
        for name, model in (args.node_power_model or {}).items()
        if not all(map(math.isfinite, (model.k0, model.k1, model.k2)))
    ]
    return [*_provider_problems(args), *unusable]


def common_specs(all_args: Mapping[str, pydantic.BaseModel]) -> list[ProviderSpec]:
    """Providers of all policies that run, by policy; empty where none of Trimaran's runs.

    One load watcher serves them all: those that name no provider follow the one that does. Raises Contradiction.
    """
    trimaran = {name: args for name, args in all_args.items() if isinstance(args, TrimaranArgs)}
    naming = {name: args.provider_specs() for name, args in trimaran.items() if args.names_a_provider()}
    for name, specs in naming.items():
        first = next(iter(naming))
        if specs != naming[first]:
            raise Contradiction(name, f"the providers of {first}, or none: one load watcher serves all policies")
    if naming:
        return next(iter(naming.values()))
    return next((args.provider_specs() for args in trimaran.values()), [])


class Contradiction(ValueError):
    """Two policies name different providers."""

    def __init__(self, policy: str, wanted: str) -> None:
        super().__init__(f"{policy}: want {wanted}")
        self.policy = policy
        self.wanted = wanted


def _provider_problems(args: TrimaranArgs) -> Iterator[Problem]:
    if not args.watcher_address:
        yield from _contradictions(args)
    specs = args.provider_specs()
    types = [spec.type for spec in specs]
    for index, spec in enumerate(specs):
        path = ("metricProviders", index) if args.metric_providers else ("metricProvider",)
        shown = spec.model_dump(by_alias=True, exclude_defaults=True, exclude={"token", "application_key"})
        for problem in provider_spec.problems(spec):
            yield config_problem.problem(path, shown, problem)
        if spec.type == provider_spec.NODE_METRIC and (spec.address or spec.token):
            wanted = f"the type that the address or token is of: {spec.type}, the default, asks no server"
            yield config_problem.problem(path, shown, wanted)
        if spec.type in types[:index]:
            yield config_problem.problem(path, shown, f"each type at most once, {spec.type} stands before it")


def _contradictions(args: TrimaranArgs) -> Iterator[Problem]:
    """Keys of which one would hide the other; only watcherAddress wins, as upstream's."""
    nested = args.metric_provider.model_dump(exclude_unset=True) if args.metric_provider else {}
    flat = {
        "type": args.metric_provider_type,
        "address": args.metric_provider_address,
        "token": args.metric_provider_token,
    }
    given = {name: value for name, value in flat.items() if value is not None}
    for name, value in given.items():
        if nested.get(name, value) != value:
            path = (f"metricProvider{name.capitalize()}",)
            seen = "(not shown)" if name == "token" else value
            yield config_problem.problem(path, seen, f"the same as metricProvider.{name}, or one of the two")
    if args.metric_providers and (nested or given):
        wanted = "no metricProvider beside it: it is the list of all providers"
        yield config_problem.problem(("metricProviders",), [spec.type for spec in args.metric_providers], wanted)


def _given(value: Any, default: Any) -> Any:
    return default if value is None else value
