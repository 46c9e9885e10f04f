"""Fallback levels of nodes, read from a metric and from the records of decisions."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from e2e.support.host_scheduler import HostScheduler

METRIC: Final = "koord_scheduler_plugin_fallback_level_nodes"
LABEL: Final = "level"
"""Label of the metric."""
KEY: Final = "fallbackLevel"
"""Key in the record of a decision."""


class FallbackLevel(enum.IntEnum):
    """The data that a Trimaran plugin uses for a node, as the records number it."""

    MEASURED = 0
    BY_REQUESTS = 1
    PREDICTED = 2
    UNKNOWN = 3


def counts(scheduler: HostScheduler) -> dict[FallbackLevel, int]:
    """Return the number of nodes on each level of CPU; empty before the first fetch from the providers."""
    families = text_string_to_metric_families(scheduler.plugin_page("/metrics"))
    samples = [sample for family in families if family.name == METRIC for sample in family.samples]
    of_cpu = [sample for sample in samples if sample.labels["resource"] == "cpu"]
    return {FallbackLevel[sample.labels[LABEL].upper()]: int(sample.value) for sample in of_cpu}


def decided_by(scheduler: HostScheduler, plugin: str, pod: str, nodes: Iterable[str]) -> dict[str, FallbackLevel]:
    """Return the levels of CPU of these nodes in the newest decision on a pod (namespace/name)."""
    newest = json.loads(scheduler.plugin_page(f"/debug/pods/{pod}"))["decisions"][0]
    levels = {each["node"]: FallbackLevel(each["inputs"][plugin][KEY]["cpu"]) for each in newest["nodes"]}
    return {name: levels[name] for name in nodes}
