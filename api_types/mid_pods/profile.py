"""Read Koordinator's ClusterColocationProfile, and set its fields on a pod.

Honoured: namespaceSelector, selector, labels, annotations, schedulerName, qosClass and koordinatorPriority (both become
labels), priorityClassName of the four PriorityClasses of the chart, and the annotation that skips the resources. All
other fields are refused: a policy has no random number (probability), and this project writes no free patch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pydantic

from api_types import names
from api_types.colocation import selector as selectors
from api_types.colocation.selector import NodeSelector, Requirement
from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.mid_pods.resources import RulesRefused, mapping, text

KIND: Final = "ClusterColocationProfile"
SKIP_ANNOTATION: Final = "config.koordinator.sh/skip-update-resources"
PRIORITIES: Final = {
    PriorityClass.PROD.value: 9000,
    PriorityClass.MID.value: 7000,
    PriorityClass.BATCH.value: 5000,
    PriorityClass.FREE.value: 3000,
}
"""Number of each PriorityClass that the chart creates, as Koordinator's manifests do."""
PREEMPTION_POLICY: Final = "PreemptLowerPriority"
"""Default of a PriorityClass, which those of the chart have."""
_FIELDS: Final = (
    "namespaceSelector",
    "selector",
    "labels",
    "annotations",
    "schedulerName",
    "qosClass",
    "koordinatorPriority",
    "priorityClassName",
    "probability",
)
_ALWAYS: Final = (100, "100", "100%")


@dataclass(frozen=True)
class Profile:
    """A profile: which pods it selects, and what it sets on them."""

    name: str
    namespace_selector: NodeSelector | None = None
    """Selector of the labels of the namespace; None selects every namespace."""
    selector: NodeSelector | None = None
    """Selector of the labels of the pod; None selects every pod."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    scheduler_name: str = ""
    priority_class_name: str = ""
    skips_resources: bool = False
    """Whether the resources of the pods stay as they are."""
    keeps_classes: bool = False
    """Whether a pod of another PriorityClass stays as it is."""


OPT_IN: Final = Profile(
    "koord-suite-mid-namespaces",
    NodeSelector(match_labels={names.LABEL_MID_NAMESPACE: "enabled"}),
    NodeSelector(match_expressions=[Requirement(key=names.LABEL_PRIORITY_CLASS, operator="DoesNotExist")]),
    priority_class_name=PriorityClass.MID.value,
    keeps_classes=True,
)
"""Makes pods of a namespace Mid that have no class of their own."""


def read(document: Mapping[str, Any]) -> Profile:
    """Return the profile of an object. Raises RulesRefused, with a sentence for each field that is not honoured."""
    metadata, spec = mapping(document.get("metadata"), "metadata"), mapping(document.get("spec"), "spec")
    if refusals := list(_refusals(spec)):
        raise RulesRefused("; ".join(refusals))
    class_labels = {
        names.LABEL_QOS: text(spec.get("qosClass"), "spec.qosClass"),
        names.LABEL_PRIORITY: _number(spec.get("koordinatorPriority")),
    }
    return Profile(
        name=text(metadata.get("name"), "metadata.name"),
        namespace_selector=_selector(spec, "namespaceSelector"),
        selector=_selector(spec, "selector"),
        labels={**_texts(spec, "labels"), **{key: value for key, value in class_labels.items() if value}},
        annotations=_texts(spec, "annotations"),
        scheduler_name=text(spec.get("schedulerName"), "spec.schedulerName"),
        priority_class_name=text(spec.get("priorityClassName"), "spec.priorityClassName"),
        skips_resources=SKIP_ANNOTATION in mapping(metadata.get("annotations"), "metadata.annotations"),
    )


def selects(profile: Profile, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
    """Return whether a profile selects a pod with these labels in a namespace with those."""
    return (profile.namespace_selector is None or selectors.matches(profile.namespace_selector, namespace_labels)) and (
        profile.selector is None or selectors.matches(profile.selector, labels)
    )


def applied(profile: Profile, template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod or template with the fields of the profile; its resources stay as they are. Raises RulesRefused."""
    metadata = dict(mapping(template.get("metadata"), "metadata"))
    spec = dict(mapping(template.get("spec"), "spec"))
    for key, values in (("labels", profile.labels), ("annotations", profile.annotations)):
        if values:
            metadata[key] = {**mapping(metadata.get(key), f"metadata.{key}"), **values}
    if profile.scheduler_name:
        spec["schedulerName"] = profile.scheduler_name
    if profile.priority_class_name:
        spec["priorityClassName"] = profile.priority_class_name
        spec["priority"] = PRIORITIES[profile.priority_class_name]
        spec["preemptionPolicy"] = PREEMPTION_POLICY
    return {**template, "metadata": metadata, "spec": spec}


def _refusals(spec: Mapping[str, Any]) -> Iterator[str]:
    for name, value in spec.items():
        if name not in _FIELDS and value:
            yield f"spec.{name} is not supported: write the values as labels, annotations or fields of the profile"
    probability = spec.get("probability")
    if probability is not None and probability not in _ALWAYS:
        yield f"spec.probability: seen {probability!r}, want 100%: no pod is selected at random"
    priority_class = spec.get("priorityClassName")
    if priority_class and priority_class not in list(PRIORITIES):
        classes = ", ".join(PRIORITIES)
        yield f"spec.priorityClassName: seen {priority_class!r}, want one of {classes}: other numbers are unknown"
    if priority_class == PriorityClass.BATCH.value:
        yield "spec.priorityClassName: koord-batch: no Batch resources are published; want Koordinator's webhook"


def _number(value: object) -> str:
    if value is None:
        return ""
    if type(value) is not int:
        raise RulesRefused(f"spec.koordinatorPriority: seen {value!r}, want an integer")
    return str(value)


def _texts(spec: Mapping[str, Any], name: str) -> dict[str, str]:
    texts = mapping(spec.get(name), f"spec.{name}")
    return {key: text(value, f"spec.{name}.{key}") for key, value in texts.items()}


def _selector(spec: Mapping[str, Any], name: str) -> NodeSelector | None:
    if spec.get(name) is None:
        return None
    document = mapping(spec[name], f"spec.{name}")
    try:
        selector = NodeSelector.model_validate(document)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        path = ".".join(map(str, first["loc"]))
        raise RulesRefused(
            f"spec.{name}.{path}: seen {first['input']!r}, want a label selector: {first['msg']}"
        ) from None
    if fault := selectors.fault(selector):
        path, value, expected = fault
        raise RulesRefused(f"spec.{name}.{path}: seen {value!r}, want {expected}")
    if unknown := ", ".join(sorted(set(document) - {"matchLabels", "matchExpressions"})):
        raise RulesRefused(f"spec.{name}: unknown key {unknown}; want matchLabels and matchExpressions")
    return selector
