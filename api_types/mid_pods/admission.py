"""Apply profiles and the rules for Mid pods to a new pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from api_types.mid_pods import profile as profiles
from api_types.mid_pods import template
from api_types.mid_pods.documents import RulesRefused, mapping
from api_types.mid_pods.profile import Profile


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
        return Admitted(template.limited(changed, scheduler_name, native_limits=native_limits))
    except RulesRefused as refused:
        return Admitted(changed, str(refused))
