"""Apply profiles and the rules for Mid pods to a new pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from api_types.mid_pods import profile as profiles
from api_types.mid_pods import template
from api_types.mid_pods.documents import Refused, mapping
from api_types.mid_pods.profile import Profile


class Admitted(NamedTuple):
    """A pod as it is admitted."""

    pod: dict[str, Any]
    refusal: str = ""
    """Reason for which its resources stay as they are; empty where the rules apply."""


def admitted(
    pod: Mapping[str, Any],
    namespace_labels: Mapping[str, str],
    known: Iterable[Profile],
    scheduler_name: str = "",
    *,
    native_limits: bool = True,
) -> Admitted:
    """Return a pod with the fields of each profile that selects it, in the order of their names, and under the rules.

    A profile selects by the labels of the pod as it was created. Resources stay as they are where one of the profiles
    skips them, and where the rules refuse them. Raises Refused for labels or annotations of another shape.
    """
    labels = mapping(mapping(pod.get("metadata"), "metadata").get("labels"), "metadata.labels")
    chosen = [each for each in known if profiles.selects(each, labels, namespace_labels)]
    made = dict(pod)
    for each in sorted(chosen, key=lambda one: one.name):
        made = profiles.applied(each, made)
    if any(each.skips_resources for each in chosen):
        return Admitted(made)
    try:
        return Admitted(template.limited(made, scheduler_name, native_limits=native_limits))
    except Refused as refused:
        return Admitted(made, str(refused))
