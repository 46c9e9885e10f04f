"""Define the keys of `colocation-config`: their types, ranges, defaults and meanings.

A strategy is set at the top level of the document (for the cluster), in a `nodeConfigs` entry (for the nodes it
selects) and in an annotation of a node. Every key is optional: None means "not set here", while a present zero, false
or empty text is a value. The annotations below are the only source of ranges and defaults. `document` parses the text.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

import pydantic
import pydantic_core
from pydantic.fields import FieldInfo

from api_types import wire_model
from api_types.colocation.selector import NodeSelector
from api_types.kubernetes import times

ModelT = TypeVar("ModelT", bound=pydantic.BaseModel)


class Default(NamedTuple):
    """Value of a key that no layer sets."""

    value: Any


class AtMostAdvised(NamedTuple):
    """Bound of Koordinator's webhook that its controllers do not enforce: a value beyond it is accepted with advice."""

    value: float


class Unused(NamedTuple):
    """Mark a key that is accepted and not used: one of Koordinator, or one that was removed."""

    by: str


_BATCH: Final = Unused("Batch resources, which this project does not publish")
_REMOVED: Final = Unused("emptying of nodes that other pods keep, which is left to the autoscaler")


LONGEST_WINDOW_SECONDS: Final = 43_200
"""Usage is kept for 12 hours."""
LONGEST_INTERVAL_SECONDS: Final = 604_800
"""A week, far beyond any `degradeTimeMinutes` in use."""
LONGEST_HALF_LIFE_SECONDS: Final = 10**12
"""No recorded sample loses weight. An agent refuses a checkpoint with a half-life above 1e13."""


def _duration_text(text: str) -> str:
    try:
        nanos = times.duration_nanos(text)
    except ValueError as error:
        raise pydantic_core.PydanticCustomError("duration_type", "want a duration such as 5m or 1h30m0s") from error
    seconds, rest = divmod(nanos, times.NANOS_PER_SECOND)
    if not 1 <= seconds <= LONGEST_WINDOW_SECONDS or rest:
        longest = times.format_duration(LONGEST_WINDOW_SECONDS)
        raise pydantic_core.PydanticCustomError("duration_range", f"want whole seconds, from 1s to {longest}")
    return times.format_duration(seconds)


Natural = Annotated[int, pydantic.Field(ge=0)]
Positive = Annotated[int, pydantic.Field(ge=1)]
Percent = Annotated[int, pydantic.Field(ge=0, le=100)]
PositivePercent = Annotated[int, pydantic.Field(ge=1, le=100)]
PercentileRank = Annotated[float, pydantic.Field(gt=0, le=100)]
HalfLifeSeconds = Annotated[int, pydantic.Field(ge=60, le=LONGEST_HALF_LIFE_SECONDS)]
IntervalSeconds = Annotated[int, pydantic.Field(ge=1, le=LONGEST_INTERVAL_SECONDS)]
WindowSeconds = Annotated[int, pydantic.Field(ge=1, le=LONGEST_WINDOW_SECONDS)]
DurationText = Annotated[str, pydantic.AfterValidator(_duration_text)]

MemoryCollectPolicy = Literal["usageWithHotPageCache", "usageWithoutPageCache", "usageWithPageCache"]
HOT_PAGE_CACHE: Final = "usageWithHotPageCache"
"""The one value of `metricMemoryCollectPolicy` that the agent cannot follow: hot pages are not measured."""
MidFloor = Literal["allocated", "none"]
MidPublish = Literal["node", "shadow"]
EvictionMode = Literal["off", "advise", "evict"]
MidEmergency = Literal["none", "freeze", "drain"]
ColdStart = Literal["history", "strict"]
Preset = Literal["conservative", "balanced", "aggressive"]
SinglePredictor = Literal["n-sigma-v1", "n-sigma-v2", "borg-default", "resource-central", "percentile", "calibrated"]
SINGLE_PREDICTOR_NAMES: Final[tuple[str, ...]] = typing.get_args(SinglePredictor)
PREDICTOR_NAMES: Final[tuple[str, ...]] = (*SINGLE_PREDICTOR_NAMES, "max")
"""Names of the built-in predictors; the agent's registry has an entry for each."""
_LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
PACKAGE_PREDICTOR_PATTERN: Final = f"{_LABEL}/{_LABEL}"
"""Name of a predictor of a package, `vendor/name`, which only the agents have: two DNS labels.

The slash keeps a misspelt built-in name from being taken for one.
"""
PREDICTOR_NAME_PATTERN: Final = f"^({'|'.join(PREDICTOR_NAMES)}|{PACKAGE_PREDICTOR_PATTERN})$"
LONGEST_PREDICTOR_NAME: Final = 128


def _predictor_name(name: str) -> str:
    if len(name) > LONGEST_PREDICTOR_NAME or not re.fullmatch(PREDICTOR_NAME_PATTERN, name):
        message = f"want one of {', '.join(PREDICTOR_NAMES)}, or vendor/name of a package"
        raise pydantic_core.PydanticCustomError("predictor_name", message)
    return name


PredictorName = Annotated[
    str,
    pydantic.AfterValidator(_predictor_name),
    pydantic.WithJsonSchema({"type": "string", "pattern": PREDICTOR_NAME_PATTERN, "maxLength": LONGEST_PREDICTOR_NAME}),
]
MOST_EVALUATED: Final = 6
"""Predictors that are evaluated beside the one in force."""
MOST_WINDOWS: Final = 16
"""Windows of the aggregated usages: the agent computes each at every report, and an annotation has room for 4,000."""
STATIC: Final = "static"
"""The only value of `midReclaimMode` that has an effect."""


class StrategyModel(wire_model.WireModel):
    """Base of the models here: types are strict, as in Koordinator's JSON decoder; instances are immutable."""

    model_config = pydantic.ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class MetricAggregatePolicy(StrategyModel):
    """Windows over which the agent aggregates usage."""

    durations: Annotated[
        Annotated[list[DurationText], pydantic.Field(max_length=MOST_WINDOWS)] | None,
        Default(["5m0s", "10m0s", "30m0s"]),
    ] = None
    """Length of each window, as Go duration text, at most 12h."""


class PredictPolicy(StrategyModel):
    """Parameters of the predicted peak of the Prod pods, and of the reporting intervals."""

    resource_diff_threshold_percent: Annotated[PositivePercent | None, Default(5)] = None
    """Report early when the prediction moves by more than this share of the published one."""
    cold_start_period_seconds: Annotated[Annotated[int, pydantic.Field(ge=0, le=604800)] | None, Default(7200)] = None
    """A pod with less recorded history is cold: it counts with its full request. Use 86400 with `percentile`."""
    cold_start: Annotated[ColdStart | None, Default("history")] = None
    """`history` predicts a cold pod from earlier pods of its workload, where they are known; `strict` predicts none."""
    predictor: Annotated[PredictorName | None, Default("n-sigma-v2")] = None
    """Name, built in or of a package in the agents' image; `percentile` needs coldStartPeriodSeconds 86400."""
    evaluated_predictors: Annotated[
        Annotated[list[PredictorName], pydantic.Field(max_length=MOST_EVALUATED)] | None,
        Default(["n-sigma-v2", "calibrated"]),
    ] = None
    """Predictors that are evaluated live on the node, beside the one in force. They change no Mid resource."""
    horizon_seconds: Annotated[Annotated[int, pydantic.Field(ge=900, le=10800)] | None, Default(3600)] = None
    """Horizon of `calibrated` and of the live evaluation: time for which a peak has to be high enough."""
    violation_target_percent: Annotated[Annotated[float, pydantic.Field(ge=0.5, le=5)] | None, Default(1.0)] = None
    """Of `calibrated`: share of the horizons in which usage may exceed the CPU peak; half of it for memory."""
    n: Annotated[Annotated[float, pydantic.Field(gt=0, le=20)] | None, Default(5.0)] = None
    """N of N-sigma: standard deviations above the mean."""
    percentile: Annotated[PercentileRank | None, Default(99.0)] = None
    """Percentile of `resource-central`; its window is the half-life."""
    cpu_percentile: Annotated[PercentileRank | None, Default(95.0)] = None
    """CPU percentile of `percentile`."""
    memory_percentile: Annotated[PercentileRank | None, Default(98.0)] = None
    """Memory percentile of `percentile`."""
    request_divisor: Annotated[Annotated[float, pydantic.Field(ge=1, le=10)] | None, Default(1.1)] = None
    """Divisor of the warm pods' requests in `borg-default`."""
    members: Annotated[
        Annotated[list[SinglePredictor], pydantic.Field(min_length=1, max_length=len(SINGLE_PREDICTOR_NAMES))] | None,
        Default(["n-sigma-v2", "resource-central"]),
    ] = None
    """Predictors of which `max` takes the largest peak."""
    safety_margin_percent: Percent | None = None
    """Raises the predicted part of a peak, not the cold requests; if unset, 10 for `percentile` and 0 otherwise."""
    cpu_half_life_seconds: Annotated[HalfLifeSeconds | None, Default(43200)] = None
    """Time after which a CPU sample weighs half."""
    memory_half_life_seconds: Annotated[HalfLifeSeconds | None, Default(86400)] = None
    """Time after which a memory sample weighs half."""
    check_interval_seconds: Annotated[IntervalSeconds | None, Default(20)] = None
    """Time between two checks of whether an early report is due."""
    force_update_interval_seconds: Annotated[IntervalSeconds | None, Default(600)] = None
    """Longest time between two reports, whatever the report interval."""


class MidEviction(StrategyModel):
    """When the manager evicts Mid pods of a node, and when the node accepts new ones again."""

    mode: Annotated[EvictionMode | None, Default("advise")] = None
    """`advise` names what would be evicted in Events and metrics; `evict` evicts, where the chart granted the right."""
    reports: Annotated[Annotated[int, pydantic.Field(ge=1, le=100)] | None, Default(3)] = None
    """Consecutive fresh reports that have to show the shortage."""
    shortage_tolerance_percent: Annotated[Annotated[int, pydantic.Field(ge=0, le=50)] | None, Default(10)] = None
    """Share of what Mid pods request that may be short before it counts; then pods leave until nothing is short."""
    memory_threshold_percent: Annotated[PositivePercent | None, Default(70)] = None
    """Share of a node's memory capacity in use from which Mid pods are evicted, where they use 5 percent or more. With
    mode evict no more Mid memory is offered than leaves the node 5 percent below it."""
    node_interval_seconds: Annotated[Annotated[int, pydantic.Field(ge=10, le=86400)] | None, Default(120)] = None
    """Shortest time between two evictions on one node."""
    readmit_percent: Annotated[Annotated[int, pydantic.Field(ge=100, le=1000)] | None, Default(110)] = None
    """After an eviction the node accepts new Mid pods once it has this share of what its Mid pods request."""
    readmit_seconds: Annotated[Annotated[int, pydantic.Field(ge=0, le=86400)] | None, Default(300)] = None
    """How long every report has to show that share."""
    empty_node_seconds: Annotated[int, pydantic.Field(ge=0, le=604800)] | None = None
    """A node that only Mid pods and DaemonSets keep so long is emptied for the autoscaler; 0 empties none. If unset,
    300 with the chart's value `autoscaling`, 0 without."""
    empty_node_without_room_seconds: Annotated[int | None, _REMOVED] = None
    """Accepted without effect."""
    empty_underused_percent: Annotated[int | None, _REMOVED] = None
    """Accepted without effect."""


class ClusterMidEviction(MidEviction):
    """The same for the cluster, with the rate that all nodes share."""

    cluster_per_minute: Positive | None = None
    """Evictions in the whole cluster within a minute; if unset, a tenth of the nodes, and at least 5."""
    empty_nodes_at_once: Positive | None = None
    """Most nodes that are emptied and still exist; if unset, a tenth of the nodes, at least 1 and at most 50."""


class MidColocationPolicy(StrategyModel):
    """Parameters from which the Mid resources of a node are calculated."""

    enable: Annotated[bool | None, Default(False)] = None
    """Whether the node takes part in colocation."""
    degrade_time_minutes: Annotated[Positive | None, Default(15)] = None
    """Age of the sample beyond which Mid resources are withdrawn, and beyond which a prediction is not used."""
    mid_reclaim_mode: str | None = None
    """`static` publishes a share of the node's capacity; unset or empty publishes what the prediction leaves."""
    mid_cpu_threshold_percent: Annotated[Percent | None, Default(100)] = None
    """Cap on reclaimed CPU, as a share of the node's allocatable (of its capacity in static mode)."""
    mid_memory_threshold_percent: Annotated[Percent | None, Default(100)] = None
    """Cap on reclaimed memory, as a share of the node's allocatable (of its capacity in static mode)."""
    mid_reclaim_ratio_percent: Annotated[Percent | None, Default(100)] = None
    """Share of the Prod requests that counts as reclaimable, before the predicted peak is subtracted."""
    mid_unallocated_percent: Annotated[Percent | None, Default(0)] = None
    """Share of the resources that no pod requests that is added to Mid."""
    mid_total_threshold_percent: Annotated[Percent | None, Default(100)] = None
    """Cap on the sum of what is reclaimed and what is added, CPU and memory alike, as a share of allocatable."""
    mid_floor: Annotated[MidFloor | None, Default("allocated")] = None
    """`allocated` publishes at least the requests of admitted Mid pods; `none` publishes the result of the formula."""
    mid_publish: Annotated[MidPublish | None, Default("node")] = None
    """`node` writes Mid resources to the node; `shadow` calculates and exports them and writes nothing to the node."""
    mid_max_increase_percent: Annotated[PositivePercent | None, Default(100)] = None
    """Largest rise per update, as a share of the node's allocatable."""
    mid_eviction: MidEviction | None = None
    """Eviction of Mid pods."""
    mid_suppress_threshold_percent: Annotated[Percent | None, Default(65)] = None
    """Usage of the node's CPU above which agents with suppression lower CPU limits of Mid pods; 0 lowers none."""
    mid_static_cpu_reserved_percent: Annotated[Natural | None, Default(0), AtMostAdvised(100)] = None
    """Share of CPU capacity published in static mode."""
    mid_static_memory_reserved_percent: Annotated[Natural | None, Default(0), AtMostAdvised(100)] = None
    """Share of memory capacity published in static mode."""


class ColocationStrategy(MidColocationPolicy):
    """Every key that a layer may set."""

    preset: Preset | None = None
    """Named set of values, between the defaults and the cluster strategy."""
    metric_aggregate_duration_seconds: Annotated[WindowSeconds | None, Default(300)] = None
    """Window of the reported usages; the agent's floor is 60."""
    metric_report_interval_seconds: Annotated[IntervalSeconds | None, Default(60)] = None
    """Time between two reports; the agent's floor is 30."""
    metric_aggregate_policy: MetricAggregatePolicy | None = None
    """Windows of the aggregated usages."""
    metric_memory_collect_policy: Annotated[MemoryCollectPolicy | None, Default("usageWithoutPageCache")] = None
    """Memory that counts as used, in reports and predictions. usageWithHotPageCache is not supported."""
    update_time_threshold_seconds: Annotated[Positive | None, Default(300)] = None
    """Published Mid resources are written again after this time even if they have not changed."""
    resource_diff_threshold: Annotated[
        Annotated[float, pydantic.Field(gt=0)] | None, Default(0.1), AtMostAdvised(1)
    ] = None
    """Smallest relative change of a Mid resource, as a ratio, that is written."""
    node_predict_policy: PredictPolicy | None = None
    """Parameters of the prediction; `predictPolicy` is an alias."""
    cpu_reclaim_threshold_percent: Annotated[Natural | None, Default(60), _BATCH] = None
    """Batch only: share of CPU capacity that may be in use."""
    memory_reclaim_threshold_percent: Annotated[Natural | None, Default(65), _BATCH] = None
    """Batch only: share of memory capacity that may be in use."""
    cpu_calculate_policy: Annotated[str | None, Default("usage"), _BATCH] = None
    """Batch only: CPU that counts as used."""
    memory_calculate_policy: Annotated[str | None, Default("usage"), _BATCH] = None
    """Batch only: memory that counts as used."""
    batch_cpu_threshold_percent: Annotated[Natural | None, _BATCH] = None
    """Batch only: cap on CPU, as a share of capacity."""
    batch_memory_threshold_percent: Annotated[Natural | None, _BATCH] = None
    """Batch only: cap on memory, as a share of capacity."""
    extensions: Annotated[dict[str, Any] | None, Unused("third parties")] = None
    """Settings of third parties, merged by key."""


class NodeConfig(ColocationStrategy):
    """Overrides for the nodes that a selector matches, at the same level as name and selector."""

    name: str | None = None
    """Name of the entry, shown in messages."""
    node_selector: NodeSelector | None = None
    """Selector of the nodes; a missing selector matches no node, an empty one every node."""


class ColocationConfig(ColocationStrategy):
    """The whole document: the keys of the cluster strategy, keys of the whole cluster, and overrides for nodes."""

    mid_eviction: ClusterMidEviction | None = None
    """Eviction of Mid pods."""
    mid_emergency: Annotated[MidEmergency | None, Default("none")] = None
    """`freeze` admits no new Mid pod on any node; `drain` also evicts all Mid pods, at ten times the rate."""
    node_configs: list[NodeConfig] | None = None
    """Overrides; the first entry whose selector matches a node applies to it."""


WITH_PAGE_CACHE: Final = "usageWithPageCache"
NEVER_PERCENT: Final = 100
"""`memoryThresholdPercent` of a node whose memory evicts no pod, and bounds no offer."""

ALIASES: Final[Mapping[str, str]] = {"predictPolicy": "nodePredictPolicy"}
"""Alias -> key."""


def merge_objects(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Overlay a JSON object on another: objects merge by key, other values replace. Raises TypeError."""
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        raise TypeError(f"cannot merge {type(over).__name__} into {type(base).__name__}, want two objects")
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = merge_objects(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def merge(*layers: ColocationStrategy) -> ColocationStrategy:
    """Overlay strategies, lowest first; a key that is not set keeps the value of the lower layers."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge_objects(merged, layer.to_wire())
    return ColocationStrategy.model_validate(merged)


def nested_model(annotation: Any) -> type[pydantic.BaseModel] | None:
    """Return the model of which a field of this annotation holds one or several; None for other fields."""
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return annotation
    nested = (nested_model(part) for part in typing.get_args(annotation))
    return next((model for model in nested if model), None)


def with_defaults(model: type[ModelT]) -> ModelT:
    """Return an instance of a model here in which every key with a default is set to it."""
    values: dict[str, Any] = {}
    for field, info in model.model_fields.items():
        if nested := nested_model(info.annotation):
            values[field] = with_defaults(nested)
        for mark in info.metadata:
            if isinstance(mark, Default):
                values[field] = mark.value
    return model(**values)


DEFAULTS: Final = with_defaults(ColocationStrategy)
"""The lowest layer: the default of every key."""


class StrategyKey(NamedTuple):
    """A key of a strategy: its path on the wire, such as `nodePredictPolicy.n`, and its field."""

    path: str
    info: FieldInfo

    @property
    def unused(self) -> str | None:
        """Return the purpose of a key that has no effect here; None for a key that has one."""
        return next((mark.by for mark in self.info.metadata if isinstance(mark, Unused)), None)


def keys(model: type[pydantic.BaseModel], prefix: str = "") -> Iterator[StrategyKey]:
    """Yield every key of a model that holds a value; the keys of a nested object replace that object."""
    for field, info in model.model_fields.items():
        path = f"{prefix}{wire_model.camel_case(field)}"
        if nested := nested_model(info.annotation):
            yield from keys(nested, f"{path}.")
        else:
            yield StrategyKey(path, info)


def unused_keys(strategy: pydantic.BaseModel) -> dict[str, str]:
    """Return the keys that are set and have no effect here: wire name -> purpose."""
    fields = type(strategy).model_fields
    unused = {}
    for field in sorted(strategy.model_fields_set):
        key, value = StrategyKey(wire_model.camel_case(field), fields[field]), getattr(strategy, field)
        if key.unused:
            unused[key.path] = key.unused
        elif isinstance(value, MidEviction):
            unused |= {f"{key.path}.{path}": purpose for path, purpose in unused_keys(value).items()}
    return unused
