"""Convert the objects of manifests: Mid pods and their templates by the rules, profiles into policies. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from api_types import names
from api_types.mid_pods import policy, profile, template
from api_types.mid_pods.resources import RulesRefused, mapping, sequence

_JOB: Final = re.compile(r"Job\.spec|.+\.(jobTemplate\.spec|jobTargetRef|replicatedJobs\.template\.spec)")
"""Place of the spec of a Job: of its own kind, of a CronJob, of KEDA's ScaledJob, of a JobSet."""
_ASKS: Final = r"""(?:r\.sh/priority-class|priority_?class(?:_?name)?)["'\s]*(?:[:=]|value:)["'\s]*({})(?![\w.-])"""
"""A field that asks for one of some classes, also in YAML, JSON, TOML or a patch inside of a text."""
_NATIVE: Final = (names.CPU, names.MEMORY)
_DISRUPTION: Final = "DisruptionTarget"
"""Condition of a pod that is evicted."""


@dataclass(frozen=True)
class Options:
    """How objects are converted."""

    scheduler_name: str = ""
    """Name that replaces default-scheduler; empty keeps it."""
    mid_classes: Sequence[str] = template.MID_CLASSES
    """PriorityClasses whose pods are Mid."""
    policy_version: str = "v1"


@dataclass
class Converted:
    """Result for one object."""

    objects: list[Any]
    """The object as it is to be written; several where it is replaced."""
    refusals: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)


class WorkloadKind(NamedTuple):
    """A converted workload."""

    kind: str
    namespace: str
    name: str


def convert(value: Any, options: Options, around: Iterable[Any] = ()) -> Converted:
    """Convert one object; of a List each item. `around` are the objects whose effect on Mid pods is named."""
    kind = _kind(value)
    if kind == "List":
        return _items(value, options, around)
    try:
        if kind == profile.KIND:
            return Converted(
                policy.profile_objects(profile.read(value), options.scheduler_name, options.policy_version)
            )
        walk = _Walk(options)
        converted = walk.converted(value, kind)
        advice = [*walk.advice, *(_effects(_workload(value), around) if walk.has_mid else ())]
        return Converted([converted], advice=[f"{name(value)}: {text}" for text in advice])
    except RulesRefused as refused:
        return Converted([value], refusals=[f"{name(value)}: {refused}"])


def name(value: Any) -> str:
    """Return kind, namespace and name of an object, for messages."""
    workload = _workload(value)
    prefix = f"{workload.namespace}/" if workload.namespace else ""
    return f"{workload.kind or 'object'} {prefix}{workload.name}"


def flat(values: Iterable[Any]) -> Iterator[Any]:
    """Yield all objects, of Lists their items."""
    for value in values:
        if _kind(value) == "List" and isinstance(value.get("items"), list):
            yield from flat(value["items"])
        else:
            yield value


def _items(value: dict[str, Any], options: Options, around: Iterable[Any]) -> Converted:
    try:
        items = sequence(value.get("items"), "items")
    except RulesRefused as refused:
        return Converted([value], refusals=[f"List: {refused}"])
    results = [convert(item, options, around) for item in items]
    items_after = [item for result in results for item in result.objects]
    return Converted(
        [{**value, "items": items_after}] if items_after != list(items) else [value],
        refusals=[text for result in results for text in result.refusals],
        advice=[text for result in results for text in result.advice],
    )


def _kind(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""


def _workload(value: Any) -> WorkloadKind:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    return WorkloadKind(
        _kind(value), str(metadata.get("namespace") or ""), str(metadata.get("name") or "without a name")
    )


class _Walk:
    """Conversion of one object: every map with a spec that has containers is a pod, or the template of one."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._asks = re.compile(_ASKS.format("|".join(map(re.escape, options.mid_classes))), re.IGNORECASE)
        self.advice: list[str] = []
        self.has_mid = False

    def converted(self, value: Any, path: str, where: str = "outside of a pod template") -> Any:
        """Return a value with its Mid pods under the rules; `path` begins with the kind. Raises RulesRefused."""
        if isinstance(value, list):
            return [self.converted(item, path, where) for item in value]
        # annotations are records, such as of the last apply
        if isinstance(value, str) and ".annotations." not in path and (asks := self._asks.search(f"{path}: {value}")):
            what = f"{asks[1]} is {where if value == asks[1] else 'in a text'} and stays as it is"
            self.advice.append(f"{path.partition('.')[2]}: {what}: only admission limits its pods, at their creation")
        if not isinstance(value, dict):
            return value
        classes = self._options.mid_classes
        if _is_pod(value):
            if template.is_mid(value, classes):
                self.has_mid = True
                after = template.limited(value, self._options.scheduler_name, classes)
                self.advice += template.advice(after)
                return after
            where = "beside another class or priority"
        after = {key: self.converted(inner, f"{path}.{key}", where) for key, inner in value.items()}
        pod: Any = after.get("template")
        if _JOB.fullmatch(path) and _is_pod(pod) and template.is_mid(pod, classes) and not _survives_evictions(after):
            if (restart := pod["spec"].get("restartPolicy")) == "Never":
                return _surviving(after)
            self.advice.append(
                "an eviction counts as a failure, because only pods with the restartPolicy Never may have a "
                f"podFailurePolicy: seen {restart}, want Never"
            )
        return after


def _is_pod(value: Any) -> bool:
    is_pod = isinstance(value, dict) and value.get("kind", "Pod") == "Pod" and isinstance(value.get("spec"), dict)
    return is_pod and "containers" in value["spec"]


def _survives_evictions(job: Mapping[str, Any]) -> bool:
    """Return whether a rule of a Job is about evictions of its pods. Raises RulesRefused."""
    conditions = [
        mapping(condition, "podFailurePolicy.rules.onPodConditions")
        for rule in _failure_rules(job)
        for condition in sequence(mapping(rule, "podFailurePolicy.rules").get("onPodConditions"), "onPodConditions")
    ]
    return any(condition.get("type") == _DISRUPTION for condition in conditions)


def _surviving(job: dict[str, Any]) -> dict[str, Any]:
    """Return a Job whose first rule takes no eviction for a failure of the pod."""
    ignore = {"action": "Ignore", "onPodConditions": [{"type": _DISRUPTION, "status": "True"}]}
    policy = mapping(job.get("podFailurePolicy"), "podFailurePolicy")
    return {**job, "podFailurePolicy": {**policy, "rules": [ignore, *_failure_rules(job)]}}


def _failure_rules(job: Mapping[str, Any]) -> Sequence[Any]:
    policy = mapping(job.get("podFailurePolicy"), "podFailurePolicy")
    return sequence(policy.get("rules"), "podFailurePolicy.rules")


def _effects(workload: WorkloadKind, around: Iterable[Any]) -> Iterator[str]:
    """Yield the effect of LimitRanges and autoscalers on a Mid workload, and the fix."""
    for value in around:
        other = _workload(value)
        if (other.namespace or "default") != (workload.namespace or "default"):
            continue
        spec = value.get("spec") if isinstance(value, dict) else None
        if not isinstance(spec, dict):
            continue
        if other.kind == "LimitRange" and _has_minimum(spec):
            yield (
                f"LimitRange {other.name} has a minimum (or maxLimitRequestRatio) of cpu or memory, which refuses the "
                'requests of "0": remove it, or use another namespace'
            )
        target = spec.get("scaleTargetRef")
        is_target = isinstance(target, dict) and (target.get("kind"), target.get("name")) == (
            workload.kind,
            workload.name,
        )
        if other.kind == "HorizontalPodAutoscaler" and is_target and _is_by_utilization(spec):
            yield (
                f"HorizontalPodAutoscaler {other.name} scales by utilization, a share of the request, which is 0: "
                "use averageValue"
            )


def _has_minimum(spec: Mapping[str, Any]) -> bool:
    bounds = _values(spec.get("limits"), "min", "maxLimitRequestRatio")
    return any(isinstance(bound, dict) and any(key in bound for key in _NATIVE) for bound in bounds)


def _values(entries: Any, *keys: str) -> list[Any]:
    """Return the values of some keys of all objects of a list; none for another value."""
    if not isinstance(entries, list):
        return []
    return [entry.get(key) for entry in entries if isinstance(entry, dict) for key in keys]


def _is_by_utilization(spec: Mapping[str, Any]) -> bool:
    if spec.get("targetCPUUtilizationPercentage") is not None:
        return True
    sources = _values(spec.get("metrics"), "resource", "containerResource")
    targets = [source.get("target") for source in sources if isinstance(source, dict)]
    return any(isinstance(target, dict) and target.get("type") == "Utilization" for target in targets)
