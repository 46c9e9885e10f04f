"""Rules for a Mid pod, or for the template of one: which pods they apply to, and what they change.

Containers, init containers and sidecars get the limits of `resources`. `overhead` stays native, because the admission
of its RuntimeClass refuses another one. The scheduler's name is replaced only where it is Kubernetes' default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from api_types import names
from api_types.kubernetes.priority_and_qos import BANDS, PriorityClass, class_of_priority
from api_types.mid_pods import profile as profiles
from api_types.mid_pods import resources
from api_types.mid_pods.profile import Profile
from api_types.mid_pods.resources import RulesRefused, mapping, sequence, text

DEFAULT_SCHEDULER: Final = "default-scheduler"
CONTAINER_LISTS: Final = ("initContainers", "containers")
POD_LEVEL_RESOURCES: Final = (
    "spec.resources: resources of a pod as a whole cannot name Mid resources; want resources of each container instead"
)
MID_CLASSES: Final = (PriorityClass.MID.value,)
"""PriorityClasses of Mid pods, for manifests: only the API server knows the priority of another one."""


def is_mid(template: Mapping[str, Any], mid_classes: Collection[str] = MID_CLASSES) -> bool:
    """Return whether a pod is Mid: by its priority, else by its PriorityClass, and by its label where both are silent.

    The priority is absent in manifests: the API server adds it. A label only lowers the class: it counts where the
    priority is in no band and not above Mid, or no class is given. Raises RulesRefused.
    """
    labels = mapping(mapping(template.get("metadata"), "metadata").get("labels"), "metadata.labels")
    spec = _spec(template)
    is_labelled = bool(labels.get(names.LABEL_PRIORITY_CLASS) == PriorityClass.MID.value)
    priority = spec.get("priority")
    if priority is not None:
        if type(priority) is not int:
            raise RulesRefused(f"spec.priority: seen {priority!r}, want an integer")
        if (stated := class_of_priority(priority)) or priority > BANDS[PriorityClass.MID].highest:
            return stated is PriorityClass.MID
        return is_labelled
    class_name = text(spec.get("priorityClassName"), "spec.priorityClassName")
    return class_name in mid_classes or (is_labelled and not class_name)


def limited(
    template: Mapping[str, Any],
    scheduler_name: str = "",
    mid_classes: Collection[str] = MID_CLASSES,
    *,
    native_limits: bool = True,
) -> dict[str, Any]:
    """Return a Mid pod or template under the rules; any other one as it is.

    `scheduler_name` replaces Kubernetes' default scheduler; empty keeps it. The argument stays as it is.
    Raises RulesRefused.
    """
    if not is_mid(template, mid_classes):
        return dict(template)
    spec = dict(_spec(template))
    of_pod = mapping(spec.get("resources"), "spec.resources")
    if of_pod.get(resources.REQUESTS) or of_pod.get(resources.LIMITS):
        raise RulesRefused(POD_LEVEL_RESOURCES)
    for field in CONTAINER_LISTS:
        if field in spec and spec[field] is not None:
            spec[field] = [
                _limited_container(container, f"spec.{field}[{index}]", native_limits=native_limits)
                for index, container in enumerate(sequence(spec[field], f"spec.{field}"))
            ]
    if scheduler_name and text(spec.get("schedulerName"), "spec.schedulerName") in ("", DEFAULT_SCHEDULER):
        spec["schedulerName"] = scheduler_name
    return {**template, "spec": spec}


def advice(template: Mapping[str, Any]) -> Iterator[str]:
    """Yield what of a Mid pod under the rules is probably a mistake, and the fix. Raises RulesRefused."""
    for field in CONTAINER_LISTS:
        for index, container in enumerate(sequence(_spec(template).get(field), f"spec.{field}")):
            document = mapping(container, f"spec.{field}[{index}]")
            missing = [
                pair for pair in resources.PAIRS if not resources.states_an_amount(document.get("resources"), pair)
            ]
            if missing:
                native, mid = (" and ".join(name) for name in zip(*missing, strict=True))
                yield (
                    f"container {document.get('name', index)} has no limit of {native}, so the pod has none: "
                    f"set requests and limits of {mid}"
                )
            for small in resources.smallest_amounts(document.get("resources")):
                yield f"container {document.get('name', index)} has {small}"


def _limited_container(container: object, place: str, *, native_limits: bool) -> dict[str, Any]:
    document = mapping(container, place)
    limited_resources = resources.limited(document.get("resources"), place, native_limits=native_limits)
    return {**document, "resources": limited_resources} if limited_resources else dict(document)


def _spec(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(template.get("spec"), "spec")


class Admitted(NamedTuple):
    """A pod as it is admitted."""

    pod: dict[str, Any]
    refusal: str = ""
    """Reason for which its resources stay as they are; empty where the rules apply."""


def admitted(
    pod: Mapping[str, Any],
    namespace_labels: Mapping[str, str],
    candidates: Iterable[Profile],
    scheduler_name: str = "",
    *,
    native_limits: bool = True,
) -> Admitted:
    """Return a pod with the fields of each profile that selects it, in the order of their names, and under the rules.

    A profile selects by the labels of the pod as it was created. Resources stay as they are where one of the profiles
    skips them, and where the rules refuse them. Raises RulesRefused for labels or annotations of another shape.
    """
    labels = mapping(mapping(pod.get("metadata"), "metadata").get("labels"), "metadata.labels")
    chosen = [profile for profile in candidates if profiles.selects(profile, labels, namespace_labels)]
    changed = dict(pod)
    for profile in sorted(chosen, key=lambda profile: profile.name):
        changed = profiles.applied(profile, changed)
    if any(profile.skips_resources for profile in chosen):
        return Admitted(changed)
    try:
        return Admitted(limited(changed, scheduler_name, native_limits=native_limits))
    except RulesRefused as refused:
        return Admitted(changed, str(refused))
