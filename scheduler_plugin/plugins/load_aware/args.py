"""Arguments of LoadAwareScheduling: the names, defaults and validation of Koordinator's LoadAwareSchedulingArgs.

`onStale`, `mode` and `usageSource` are extensions of this suite. There are three separate steps: `LoadAwareArgs`
decodes strictly, `with_defaults` completes, `problems` validates the completed arguments. The plugin always runs with
completed and validated arguments.

The limits of a node are the thresholds of the arguments, overridden by the node's annotation. Each of the three parts
(plain, prod, aggregated) comes from the annotation if it is present there, else from the arguments. Maps are replaced
whole, never merged per resource. A malformed annotation changes nothing, as upstream, and is reported. Its values are
not range-checked, as upstream.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

import msgspec
import pydantic

from api_types import names
from api_types.colocation.problem import Problem, problem, quoted
from api_types.kubernetes import times
from scheduler_plugin.framework.interface import PluginArgs
from scheduler_plugin.state.estimator import EstimatorArgs
from scheduler_plugin.state.vectors import Vector

_INT64_MAX: Final = 2**63 - 1
_STATISTICS: Final = ("avg", "p50", "p90", "p95", "p99")
_DEFAULT_WEIGHTS: Final = {names.CPU: 1, names.MEMORY: 1}
_DEFAULT_THRESHOLDS_PERCENT: Final = {names.CPU: 65, names.MEMORY: 95}
_DEFAULT_FACTORS_PERCENT: Final = {names.CPU: 85, names.MEMORY: 70}
_DEFAULT_EXPIRATION_SECONDS: Final = 180

OnStale = Literal["reject", "pass", "use"]
UsageSource = Literal["reported", "predicted", "max"]

_FLAGS_OF: Final[Mapping[OnStale | None, tuple[bool, bool | None]]] = {
    None: (True, False),
    "reject": (True, False),
    "pass": (True, True),
    "use": (False, None),
}
"""Equivalent filterExpiredNodeMetrics and enableScheduleWhenNodeMetricsExpired; None: either value."""


def _go_duration(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("want a duration as text, like 5m0s")  # noqa: TRY004  # pydantic turns only ValueError into a problem
    times.duration_nanos(value)
    return value


Int64 = Annotated[int, pydantic.Field(ge=-_INT64_MAX - 1, le=_INT64_MAX), pydantic.WithJsonSchema({"type": "integer"})]
Percents = dict[str, Int64]
Duration = Annotated[str, pydantic.PlainValidator(_go_duration)]


class _Args(PluginArgs, pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _null_is_not_given(cls, value: Any) -> Any:
        return {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value


class AggregatedArgs(_Args):
    """Limits and scores by a percentile instead of the mean."""

    usage_thresholds: Percents = {}
    """Percent of allocatable per resource above which the filter rejects a node."""
    usage_aggregation_type: str = ""
    """Statistic that the filter compares: avg, p50, p90, p95 or p99. Empty: the block does not filter."""
    usage_aggregated_duration: Duration = "0s"
    """Window of that statistic; 0s is the longest one reported."""
    score_aggregation_type: str = ""
    """Statistic that the score uses; empty: the mean."""
    score_aggregated_duration: Duration = "0s"
    """Window of that statistic; 0s is the longest one reported."""


class LoadAwareArgs(_Args):
    """Arguments as an administrator writes them; None and empty mean "not set"."""

    filter_expired_node_metrics: bool | None = None
    """Whether `enableScheduleWhenNodeMetricsExpired` decides on a node whose report is too old. Default true."""
    node_metric_expiration_seconds: Int64 | None = None
    """Age from which a report is too old. Default 180."""
    enable_schedule_when_node_metrics_expired: bool | None = None
    """Whether a node whose report is too old passes unchecked (true) or is rejected (false). Default false."""
    resource_weights: Percents = {}
    """Weight of each resource in the score, 1..100. Default cpu 1, memory 1, unless dominantResourceWeight is set."""
    dominant_resource_weight: Int64 = 0
    """Weight of the scarcest resource in the score, 0..100."""
    usage_thresholds: Percents = {}
    """Percent of allocatable above which the filter rejects a node, 0 = not checked. Default cpu 65, memory 95."""
    prod_usage_thresholds: Percents = {}
    """The same for Prod pods, compared with the usage of the Prod pods only."""
    prod_usage_include_sys: bool = False
    """Whether system usage is part of the Prod usage."""
    score_according_prod_usage: bool | None = None
    """Whether Prod pods are scored by the usage of the Prod pods only."""
    estimator: str = ""
    """Accepted for compatibility; there is one estimator, defaultEstimator."""
    estimated_scaling_factors: Percents = {}
    """Expected usage of a pod in percent of max(request, limit), 1..100. Default cpu 85, memory 70, set per key."""
    estimated_seconds_after_pod_scheduled: Int64 | None = None
    """Seconds after scheduling in which the estimate counts even if usage is reported."""
    estimated_seconds_after_initialized: Int64 | None = None
    """The same after initialisation; takes precedence over the seconds after scheduling."""
    allow_customize_estimation: bool = False
    """Whether pods may override factors and seconds by annotation."""
    aggregated: AggregatedArgs | None = None
    """Limits and scores by a percentile instead of the mean."""
    supported_resources: list[str] = []
    """Further resources to track."""
    on_stale: OnStale | None = None
    """Extension: decision on a node whose report is too old. reject: the node is rejected; pass: it is not checked;
    use: it is checked by its last report. Unset: filterExpiredNodeMetrics and enableScheduleWhenNodeMetricsExpired
    decide. Its score is 0 in any case."""
    mode: Literal["hard", "soft"] = "hard"
    """Extension. hard: a node above its limits, or stale, is rejected; soft: it gets the score 0 instead."""
    soft_after_seconds: Int64 | None = None
    """Extension. Seconds for which load alone may refuse a Prod pod on every node; from then on `mode` is soft for this
    pod. Unset: without a bound."""
    exempt_namespaces: list[str] | None = None
    """Extension. Namespaces whose pods may exempt themselves: by the label skip-load-aware, an owner of kind DaemonSet
    or Node, or the annotation reserve-pod. Unset: all namespaces."""
    usage_source: UsageSource = "reported"
    """Extension: source of a node's usage: reported, the predicted peak, or max of both per resource. Reported without
    a prediction; the usage of the Prod pods alone is always as reported."""

    def with_defaults(self) -> Self:
        """Fill in the defaults. Thresholds and weights are completed only as a whole, scaling factors per key."""
        weights = self.resource_weights
        if not weights and self.dominant_resource_weight == 0:
            weights = _DEFAULT_WEIGHTS
        filter_expired, schedule_expired = _FLAGS_OF[self.on_stale]
        whole = {
            "resource_weights": weights,
            "usage_thresholds": self.usage_thresholds or _DEFAULT_THRESHOLDS_PERCENT,
            "estimated_scaling_factors": {**_DEFAULT_FACTORS_PERCENT, **self.estimated_scaling_factors},
        }
        return self.model_copy(update=whole).completed(
            filter_expired_node_metrics=filter_expired,
            enable_schedule_when_node_metrics_expired=bool(schedule_expired),
            node_metric_expiration_seconds=_DEFAULT_EXPIRATION_SECONDS,
        )

    def resources(self) -> tuple[str, ...]:
        """Return the tracked resources, in the order of every vector: cpu, memory and all named ones, bytewise."""
        named = {
            names.CPU,
            names.MEMORY,
            *self.usage_thresholds,
            *self.prod_usage_thresholds,
            *(self.aggregated.usage_thresholds if self.aggregated else ()),
            *self.resource_weights,
            *self.estimated_scaling_factors,
            *self.supported_resources,
        }
        return tuple(sorted(named, key=str.encode))

    def stale_node(self) -> OnStale:
        """Return the decision on a node whose report is too old, from whichever argument sets it."""
        if not self.filter_expired_node_metrics:
            return "use"
        return "reject" if self.enable_schedule_when_node_metrics_expired is False else "pass"

    def estimator_args(self) -> EstimatorArgs:
        """Return the arguments of the estimator."""
        return EstimatorArgs(
            resources=self.resources(),
            scaling_factors_percent=self.estimated_scaling_factors,
            allow_customize=self.allow_customize_estimation,
            seconds_after_scheduled=self.estimated_seconds_after_pod_scheduled,
            seconds_after_initialized=self.estimated_seconds_after_initialized,
            exempt_namespaces=None if self.exempt_namespaces is None else frozenset(self.exempt_namespaces),
        )

    def problems(self) -> list[Problem]:
        """Return the problems of completed arguments, in upstream's order; at most one for each map."""
        aggregated = _aggregated_problems(self.aggregated) if self.aggregated else ()
        return [*_problems_of_the_maps(self), *aggregated, *_contradictions(self)]


def _problems_of_the_maps(args: LoadAwareArgs) -> Iterator[Problem]:
    expiration = args.node_metric_expiration_seconds
    if expiration is not None and expiration <= 0:
        yield problem(("nodeMetricExpirationSeconds",), expiration, "a number of seconds above 0")
    if args.soft_after_seconds is not None and args.soft_after_seconds < 0:
        yield problem(("softAfterSeconds",), args.soft_after_seconds, "a number of seconds of 0 or more")
    yield from _out_of_range(("resourceWeights",), args.resource_weights, 1)
    if not 0 <= args.dominant_resource_weight <= 100:
        yield problem(("dominantResourceWeight",), args.dominant_resource_weight, "0..100")
    yield from _out_of_range(("usageThresholds",), args.usage_thresholds, 0)
    yield from _out_of_range(("estimatedScalingFactors",), args.estimated_scaling_factors, 1)
    without_factor = sorted(args.resource_weights.keys() - args.estimated_scaling_factors.keys())
    if without_factor:
        accepted = f"a factor for each resource that has a weight ({', '.join(without_factor)} has none)"
        yield problem(("estimatedScalingFactors",), args.estimated_scaling_factors, accepted)


def _contradictions(args: LoadAwareArgs) -> Iterator[Problem]:
    """Report upstream flags that contradict `onStale`.

    `with_defaults` sets unset flags in agreement with it, so a flag that disagrees was set by the user.
    """
    if args.on_stale is None:
        return
    values = (args.filter_expired_node_metrics, args.enable_schedule_when_node_metrics_expired)
    flags = ("filterExpiredNodeMetrics", "enableScheduleWhenNodeMetricsExpired")
    for flag, value, agreeing_value in zip(flags, values, _FLAGS_OF[args.on_stale], strict=True):
        if agreeing_value is not None and value is not agreeing_value:
            agreeing = quoted(agreeing_value)
            yield problem((flag,), value, f"{agreeing} beside onStale: {args.on_stale}, or one of the two left out")


def _aggregated_problems(args: AggregatedArgs) -> Iterator[Problem]:
    yield from _out_of_range(("aggregated", "usageThresholds"), args.usage_thresholds, 0)
    yield from _bad_statistic(("aggregated", "usageAggregationType"), args.usage_aggregation_type)
    yield from _negative(("aggregated", "usageAggregatedDuration"), args.usage_aggregated_duration)
    yield from _bad_statistic(("aggregated", "scoreAggregationType"), args.score_aggregation_type)
    yield from _negative(("aggregated", "scoreAggregatedDuration"), args.score_aggregated_duration)


def _out_of_range(path: tuple[str, ...], percents: Mapping[str, int], lowest: int) -> Iterator[Problem]:
    if any(not lowest <= percent <= 100 for percent in percents.values()):
        yield problem(path, dict(percents), f"each of {lowest}..100")


def _bad_statistic(path: tuple[str, ...], statistic: str) -> Iterator[Problem]:
    if statistic and statistic not in _STATISTICS:
        yield problem(path, statistic, f"one of {', '.join(_STATISTICS)}, or nothing")


def _negative(path: tuple[str, ...], duration: str) -> Iterator[Problem]:
    if times.duration_nanos(duration) < 0:
        yield problem(path, duration, "a duration of 0s or more")


class AggregatedThresholds(NamedTuple):
    """Limits on a statistic of usage."""

    limits_percent: Mapping[str, int]
    statistic: str
    window_nanos: int


class Thresholds(NamedTuple):
    """Limits by resource name, in percent of allocatable."""

    plain: Mapping[str, int]
    prod: Mapping[str, int]
    aggregated: AggregatedThresholds | None


class Profiles(NamedTuple):
    """Limits of one node as vectors, 0 = not checked."""

    plain: Vector
    prod: Vector
    aggregated: Vector | None
    statistic: str
    window_nanos: int
    is_malformed: bool
    """Whether the node's annotation is ignored because of its shape."""


_WrittenLimits = dict[str, Annotated[int, msgspec.Meta(ge=-_INT64_MAX - 1, le=_INT64_MAX)] | None]


class _WrittenStatistic(msgspec.Struct):
    usagethresholds: _WrittenLimits | None = None
    usageaggregationtype: str | None = None
    usageaggregatedduration: str | None = None


class _WrittenThresholds(msgspec.Struct):
    usagethresholds: _WrittenLimits | None = None
    produsagethresholds: _WrittenLimits | None = None
    aggregatedusage: _WrittenStatistic | None = None


def argument_thresholds(args: LoadAwareArgs) -> Thresholds:
    """Return the limits of the arguments alone."""
    block = args.aggregated
    aggregated = None
    if block and block.usage_thresholds and block.usage_aggregation_type:
        window = times.duration_nanos(block.usage_aggregated_duration)
        aggregated = AggregatedThresholds(block.usage_thresholds, block.usage_aggregation_type, window)
    return Thresholds(args.usage_thresholds, args.prod_usage_thresholds, aggregated)


class ThresholdMerge:
    """Limits of any node of a cluster; an annotation that many nodes share is parsed once."""

    def __init__(self, thresholds: Thresholds, resources: tuple[str, ...]) -> None:
        self._thresholds = thresholds
        self._resources = resources
        self.profiles = functools.lru_cache(maxsize=1024)(self._profiles)

    def _profiles(self, annotation: str | None) -> Profiles:
        try:
            merged, is_malformed = merge(self._thresholds, annotation), False
        except (msgspec.MsgspecError, ValueError, RecursionError):
            merged, is_malformed = self._thresholds, True
        aggregated = merged.aggregated
        return Profiles(
            plain=self._vector(merged.plain),
            prod=self._vector(merged.prod),
            aggregated=self._vector(aggregated.limits_percent) if aggregated else None,
            statistic=aggregated.statistic if aggregated else "",
            window_nanos=aggregated.window_nanos if aggregated else 0,
            is_malformed=is_malformed,
        )

    def _vector(self, limits: Mapping[str, int]) -> Vector:
        return tuple([limits.get(resource, 0) for resource in self._resources])


def merge(thresholds: Thresholds, annotation: str | None) -> Thresholds:
    """Return the limits of one node. Raises MsgspecError, ValueError or RecursionError for an unexpected shape."""
    if not annotation:
        return thresholds
    members = _members(msgspec.json.decode(annotation))
    if isinstance(members, dict):
        members["aggregatedusage"] = _members(members.get("aggregatedusage"))
    written = msgspec.convert(members, _WrittenThresholds | None) or _WrittenThresholds()
    block = written.aggregatedusage or _WrittenStatistic()
    limits, statistic = _limits(block.usagethresholds), block.usageaggregationtype
    window = 0 if block.usageaggregatedduration is None else times.duration_nanos(block.usageaggregatedduration)
    return Thresholds(
        plain=_limits(written.usagethresholds) or thresholds.plain,
        prod=_limits(written.produsagethresholds) or thresholds.prod,
        aggregated=AggregatedThresholds(limits, statistic, window) if limits and statistic else thresholds.aggregated,
    )


def _members(value: Any) -> Any:
    """Return the members of a JSON object, keys in lower case because Go ignores the case."""
    return {key.lower(): member for key, member in value.items()} if isinstance(value, dict) else value


def _limits(written: _WrittenLimits | None) -> Mapping[str, int]:
    return {resource: limit or 0 for resource, limit in (written or {}).items()}
