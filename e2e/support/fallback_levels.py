"""On which rung nodes stand, as a metric and the records of decisions tell it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from e2e.support.host_scheduler import HostScheduler
from scheduler_plugin.plugins.trimaran.fallback import FallbackLevel

METRIC: Final = "koord_scheduler_plugin_ladder_nodes"


def counts(scheduler: HostScheduler) -> dict[FallbackLevel, int]:
    """Nodes of the whole cluster on each rung; empty before the first look at the providers."""
    families = text_string_to_metric_families(scheduler.extender_page("/metrics"))
    samples = [sample for family in families if family.name == METRIC for sample in family.samples]
    return {FallbackLevel[sample.labels["rung"].upper()]: int(sample.value) for sample in samples}


def decided_by(scheduler: HostScheduler, policy: str, pod: str, nodes: Iterable[str]) -> dict[str, FallbackLevel]:
    """On which rung these nodes stood when the newest decision on a pod (namespace/name) was made."""
    newest = json.loads(scheduler.extender_page(f"/debug/pods/{pod}"))["decisions"][0]
    rungs = {each["node"]: FallbackLevel(each["inputs"][policy]["rung"]) for each in newest["nodes"]}
    return {name: rungs[name] for name in nodes}
