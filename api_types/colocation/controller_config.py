"""Keys of `colocation-config`: one catalog of their types, ranges, defaults and meanings.

A strategy stands at the top level of the document (for the cluster), in a `nodeConfigs` entry (for the nodes it
selects) and in a node's annotation. Every key is optional: None is "not set here", while a present zero, false or
empty text is a value. Ranges are checked and defaults filled in from the annotations below and from nowhere else.
Reading JSON text is `colocation_document`'s part. Source: design 3.2, koordinator-core 4.2.
"""

from __future__ import annotations

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
    """Value in force where no layer sets the key."""

    value: Any


class AtMostAdvised(NamedTuple):
    """Bound that upstream's webhook enforces and its controllers do not: beyond it a value is accepted and reported."""

    value: float


class Unused(NamedTuple):
    """Marks a key that upstream knows and this project does not use."""

    by: str


_BATCH: Final = Unused("Batch resources, which this project does not publish")


def _duration_text(text: str) -> str:
    try:
        nanos = times.duration_nanos(text)
    except ValueError as error:
        raise pydantic_core.PydanticCustomError("duration_type", "want a duration such as 5m or 1h30m0s") from error
    seconds, rest = divmod(nanos, times.NANOS_PER_SECOND)
    if seconds < 1 or rest:
        raise pydantic_core.PydanticCustomError("duration_range", "want whole seconds, at least one")
    return times.format_duration(seconds)


Natural = Annotated[int, pydantic.Field(ge=0)]
Positive = Annotated[int, pydantic.Field(ge=1)]
Percent = Annotated[int, pydantic.Field(ge=0, le=100)]
PositivePercent = Annotated[int, pydantic.Field(ge=1, le=100)]
PercentileRank = Annotated[float, pydantic.Field(gt=0, le=100)]
HalfLifeSeconds = Annotated[int, pydantic.Field(ge=60)]
DurationText = Annotated[str, pydantic.AfterValidator(_duration_text)]

MemoryCollectPolicy = Literal["usageWithHotPageCache", "usageWithoutPageCache", "usageWithPageCache"]
MidFloor = Literal["allocated", "none"]
Preset = Literal["conservative", "balanced", "aggressive"]
SinglePredictor = Literal["n-sigma-v1", "n-sigma-v2", "borg-default", "resource-central", "percentile"]
PredictorName = Literal["n-sigma-v1", "n-sigma-v2", "borg-default", "resource-central", "percentile", "max"]
STATIC: Final = "static"
"""The one value of `midReclaimMode` that changes anything."""


class StrategyModel(wire_model.WireModel):
    """Base of the models here: types are taken strictly, as upstream's JSON decoder does; instances do not change."""

    model_config = pydantic.ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class MetricAggregatePolicy(StrategyModel):
    """Windows over which the agent aggregates usage."""

    durations: Annotated[list[DurationText] | None, Default(["5m0s", "10m0s", "30m0s"])] = None
    """Length of each window, as Go duration text."""


class PredictPolicy(StrategyModel):
    """How the agent predicts the peak of the Prod pods, and how often it reports."""

    resource_diff_threshold_percent: Annotated[PositivePercent | None, Default(5)] = None
    """Report early when the prediction moved by more than this share of what was published."""
    cold_start_period_seconds: Annotated[Annotated[int, pydantic.Field(ge=0, le=604800)] | None, Default(7200)] = None
    """A pod with less recorded history than this is cold: charged its full request. `percentile` wants 86400."""
    predictor: Annotated[PredictorName | None, Default("n-sigma-v2")] = None
    """Name in the predictor catalog; `percentile` without coldStartPeriodSeconds 86400 is short ten times as often."""
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
        Annotated[list[SinglePredictor], pydantic.Field(min_length=1)] | None,
        Default(["n-sigma-v2", "resource-central"]),
    ] = None
    """Predictors that `max` takes the largest answer of."""
    safety_margin_percent: Percent | None = None
    """Raises the predicted part of a peak, not the cold requests; where unset, 10 for `percentile` and 0 otherwise."""
    cpu_half_life_seconds: Annotated[HalfLifeSeconds | None, Default(43200)] = None
    """Time after which a CPU sample weighs half."""
    memory_half_life_seconds: Annotated[HalfLifeSeconds | None, Default(86400)] = None
    """Time after which a memory sample weighs half."""
    check_interval_seconds: Annotated[Positive | None, Default(20)] = None
    """How often the agent looks whether an early report is due."""
    force_update_interval_seconds: Annotated[Positive | None, Default(600)] = None
    """Upper bound on the time between two reports, whatever the report interval."""


class MidColocationPolicy(StrategyModel):
    """How the Mid resources of a node are calculated."""

    enable: Annotated[bool | None, Default(False)] = None
    """Whether the node takes part in colocation."""
    degrade_time_minutes: Annotated[Positive | None, Default(15)] = None
    """Age of the sample, and of the last prediction, beyond which Mid resources are withdrawn."""
    mid_reclaim_mode: str | None = None
    """`static` publishes a share of the node's capacity; unset or empty, what the prediction leaves."""
    mid_cpu_threshold_percent: Annotated[Percent | None, Default(100)] = None
    """Cap on reclaimed CPU, as a share of the node's allocatable (of its capacity in static mode)."""
    mid_memory_threshold_percent: Annotated[Percent | None, Default(100)] = None
    """Cap on reclaimed memory, as a share of the node's allocatable (of its capacity in static mode)."""
    mid_reclaim_ratio_percent: Annotated[Percent | None, Default(100)] = None
    """Share of the Prod requests that counts as reclaimable before the predicted peak is taken off."""
    mid_unallocated_percent: Annotated[Percent | None, Default(0)] = None
    """Share of what no Prod pod requests that is added to Mid."""
    mid_floor: Annotated[MidFloor | None, Default("allocated")] = None
    """`allocated` never publishes less than the bound Mid pods request; `none` publishes the formula."""
    mid_max_increase_percent: Annotated[PositivePercent | None, Default(100)] = None
    """Largest rise per update, as a share of the node's allocatable."""
    mid_static_cpu_reserved_percent: Annotated[Natural | None, Default(0), AtMostAdvised(100)] = None
    """Share of CPU capacity published in static mode."""
    mid_static_memory_reserved_percent: Annotated[Natural | None, Default(0), AtMostAdvised(100)] = None
    """Share of memory capacity published in static mode."""


class ColocationStrategy(MidColocationPolicy):
    """Every key a layer may set."""

    preset: Preset | None = None
    """Named set of values that lies between the defaults and the cluster strategy."""
    metric_aggregate_duration_seconds: Annotated[Positive | None, Default(300)] = None
    """Window of the reported usages; the agent's floor is 60."""
    metric_report_interval_seconds: Annotated[Positive | None, Default(60)] = None
    """Time between two reports; the agent's floor is 30."""
    metric_aggregate_policy: MetricAggregatePolicy | None = None
    """Windows of the aggregated usages."""
    metric_memory_collect_policy: Annotated[MemoryCollectPolicy | None, Default("usageWithoutPageCache")] = None
    """Which memory counts as used."""
    update_time_threshold_seconds: Annotated[Positive | None, Default(300)] = None
    """Published Mid resources are written again after this time even where they did not move."""
    resource_diff_threshold: Annotated[
        Annotated[float, pydantic.Field(gt=0)] | None, Default(0.1), AtMostAdvised(1)
    ] = None
    """Relative change of a Mid resource, as a ratio, that is worth a write."""
    node_predict_policy: PredictPolicy | None = None
    """How the agent predicts; `predictPolicy` is an alias."""
    cpu_reclaim_threshold_percent: Annotated[Natural | None, Default(60), _BATCH] = None
    """Batch only: share of CPU capacity that may be in use."""
    memory_reclaim_threshold_percent: Annotated[Natural | None, Default(65), _BATCH] = None
    """Batch only: share of memory capacity that may be in use."""
    cpu_calculate_policy: Annotated[str | None, Default("usage"), _BATCH] = None
    """Batch only: what counts as used CPU."""
    memory_calculate_policy: Annotated[str | None, Default("usage"), _BATCH] = None
    """Batch only: what counts as used memory."""
    batch_cpu_threshold_percent: Annotated[Natural | None, _BATCH] = None
    """Batch only: cap on CPU, as a share of capacity."""
    batch_memory_threshold_percent: Annotated[Natural | None, _BATCH] = None
    """Batch only: cap on memory, as a share of capacity."""
    extensions: Annotated[dict[str, Any] | None, Unused("third parties")] = None
    """Bag of third parties' settings, merged by key."""


class NodeConfig(ColocationStrategy):
    """Overrides for the nodes a selector matches; its strategy keys stand beside name and selector."""

    name: str | None = None
    """Name of the entry, for people."""
    node_selector: NodeSelector | None = None
    """Which nodes; a missing selector matches none, an empty one matches every node."""


class ColocationConfig(ColocationStrategy):
    """The whole document: the cluster strategy's keys, and overrides per node."""

    node_configs: list[NodeConfig] | None = None
    """Overrides; the first entry whose selector matches a node applies to it."""


ALIASES: Final[Mapping[str, str]] = {"predictPolicy": "nodePredictPolicy"}
"""Other spellings of keys, and the key each stands for."""


def merge_objects(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Overlay a JSON object on another: objects merge by key, everything else replaces. Raises TypeError."""
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        raise TypeError(f"cannot merge {type(over).__name__} into {type(base).__name__}, want two objects")
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = merge_objects(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def merge(*layers: ColocationStrategy) -> ColocationStrategy:
    """Overlay strategies, lowest first; keys that are not set show what lies below."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge_objects(merged, layer.to_wire())
    return ColocationStrategy.model_validate(merged)


def nested_model(annotation: Any) -> type[pydantic.BaseModel] | None:
    """Model that a field of this annotation holds one or several of, None for other fields."""
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return annotation
    found = (nested_model(part) for part in typing.get_args(annotation))
    return next((model for model in found if model), None)


def with_defaults(model: type[ModelT]) -> ModelT:
    """Instance of a model here in which every key that has a default is set to it."""
    values: dict[str, Any] = {}
    for field, info in model.model_fields.items():
        if nested := nested_model(info.annotation):
            values[field] = with_defaults(nested)
        for mark in info.metadata:
            if isinstance(mark, Default):
                values[field] = mark.value
    return model(**values)


DEFAULTS: Final = with_defaults(ColocationStrategy)
"""The lowest layer: every key's default."""


class Key(NamedTuple):
    """A key of a strategy: its path on the wire, as `nodePredictPolicy.n`, and its field."""

    path: str
    info: FieldInfo

    @property
    def unused(self) -> str | None:
        """What the key is for, where it has no effect here."""
        return next((mark.by for mark in self.info.metadata if isinstance(mark, Unused)), None)


def keys(model: type[pydantic.BaseModel], prefix: str = "") -> Iterator[Key]:
    """Every key of a model that holds a value of its own, nested ones in the place of the object they are in."""
    for field, info in model.model_fields.items():
        path = f"{prefix}{wire_model.camel_case(field)}"
        if nested := nested_model(info.annotation):
            yield from keys(nested, f"{path}.")
        else:
            yield Key(path, info)


def unused_keys(strategy: pydantic.BaseModel) -> dict[str, str]:
    """Keys that are set and have no effect here: wire name -> what they are for."""
    known = type(strategy).model_fields
    set_here = [Key(wire_model.camel_case(field), known[field]) for field in sorted(strategy.model_fields_set)]
    return {key.path: key.unused for key in set_here if key.unused}
