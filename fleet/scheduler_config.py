"""Read what is shown of the scheduler plugin's configuration, without the plugin's code. Pure.

The image of the manager has koordctl and not the plugin, and an import of the plugin takes longer than a command. A
document that the plugin refuses may be read all the same; `koordctl scheduler check` names its problems.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import yaml

from api_types import names
from api_types.kubernetes import yaml_text
from api_types.mid_pods import quota
from fleet.node_state import UNKNOWN, Amounts

CONFIG_MAPS: Final = ("koord-scheduler", "koord-extender")
"""ConfigMaps of the chart: that of its scheduler, and that of the extender for another one."""
KEY: Final = "scheduler-plugin.yaml"
"""Key of the document in one of them."""
_QUOTAS: Final = "MidGuard"
_LOAD: Final = "LoadAwareScheduling"
PLUGINS: Final = frozenset(
    (_QUOTAS, _LOAD, "TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment",
     "LoadRiskAwareCommitment", "Peaks")
)  # fmt: skip
"""Names that a profile of the plugin has."""
DEFAULT_LIMITS: Final = {names.CPU: 65, names.MEMORY: 95}


class SchedulerConfig(NamedTuple):
    """Values of the configuration; nothing is known without a document, or with a wrong one."""

    default_quota: Amounts = UNKNOWN
    """Mid quota of a namespace without an annotation; an amount that is None is not limited."""
    usage_limits: Mapping[str, float] = {}
    """Usage of a node in percent above which LoadAwareScheduling places no pod, by resource; empty without a check."""
    namespace_quotas: bool = True
    """Whether the annotation mid-quota of Namespaces counts."""


def read(text: str) -> SchedulerConfig:
    """Read a document: a profile, or a whole KubeSchedulerConfiguration."""
    try:
        document = yaml_text.load(text)
        if document is None:
            return SchedulerConfig()
        profile = _profile(document)
        quotas = _args(profile, _QUOTAS)
        default = Amounts(*quota.from_document(quotas.get("defaultQuota") or {}))
        return SchedulerConfig(default, _usage_limits(profile), quotas.get("namespaceQuotas") is not False)
    except (yaml.YAMLError, ValueError, quota.MalformedQuota, AttributeError, TypeError, LookupError):
        return SchedulerConfig()


def _profile(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the profile of the plugin: the first one that names it."""
    if "profiles" not in document:
        return document
    profiles = document["profiles"] or [{}]
    return next(filter(_names_a_plugin, profiles), profiles[0])


def _names_a_plugin(value: Any) -> bool:
    if isinstance(value, dict):
        return value.get("name") in PLUGINS or any(map(_names_a_plugin, value.values()))
    return isinstance(value, list) and any(map(_names_a_plugin, value))


def _args(profile: Mapping[str, Any], plugin: str) -> Mapping[str, Any]:
    for entry in profile.get("pluginConfig") or ():
        if entry["name"] == plugin:
            return entry.get("args") or {}
    return {}


def _usage_limits(profile: Mapping[str, Any]) -> Mapping[str, float]:
    if not _is_filter(profile.get("plugins") or {}):
        return {}
    thresholds = _args(profile, _LOAD).get("usageThresholds") or DEFAULT_LIMITS
    limits = {resource: thresholds.get(resource) or 0 for resource in (names.CPU, names.MEMORY)}
    return {resource: limit for resource, limit in limits.items() if 0 < limit <= 100}


def _is_filter(plugins: Mapping[str, Any]) -> bool:
    """Check whether LoadAwareScheduling filters: where it is enabled, else by default, unless it is disabled."""
    enabled, disabled = (
        {(point, entry["name"]) for point, lists in plugins.items() for entry in (lists or {}).get(key) or ()}
        for key in ("enabled", "disabled")
    )
    points = {point for point, name in enabled if name == _LOAD}
    if points:
        return "filter" in points or ("multiPoint" in points and ("filter", _LOAD) not in disabled)
    return disabled.isdisjoint({(at, name) for at in ("filter", "multiPoint") for name in (_LOAD, "*")})
