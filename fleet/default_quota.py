"""Find the default quota in the configuration of the scheduler plugin, without the plugin's code. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml

from api_types.mid_pods import quota
from fleet.node_state import UNKNOWN, Amounts

PLUGIN: Final = "MidGuard"
KEY: Final = "scheduler-plugin.yaml"
"""Key of the document in a ConfigMap of `CONFIG_MAPS`."""
CONFIG_MAPS: Final = ("koord-scheduler", "koord-extender")
"""ConfigMaps of the chart: that of its scheduler, and that of the extender for another one."""


def find(text: str) -> Amounts:
    """Return the default quota of a document; not limited where it has none, or where the plugin refuses it."""
    try:
        document = yaml.safe_load(text)
        for args in _args_of(document):
            return Amounts(*quota.of_document(args.get("defaultQuota") or {}))
    except (yaml.YAMLError, RecursionError, quota.MalformedQuota, AttributeError, TypeError, LookupError):
        return UNKNOWN
    return UNKNOWN


def _args_of(document: Any) -> Iterator[dict[str, Any]]:
    """Yield the arguments of the plugin, of a profile or of a whole KubeSchedulerConfiguration."""
    profiles = document.get("profiles") or [document]
    for each in profiles[0].get("pluginConfig") or ():
        if each.get("name") == PLUGIN:
            yield each.get("args") or {}
