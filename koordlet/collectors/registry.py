"""The one list of collectors, in the order in which a tick reads them.

A new collector is a module in this package and a line here. Pods come after the node and before all collectors that
need the groups of pods or the usage of the system.
"""

from __future__ import annotations

from typing import Final

from koordlet.collectors.interface import Collector
from koordlet.collectors.node_pressure import NodePressure
from koordlet.collectors.node_usage import NodeUsageCollector
from koordlet.collectors.numa.collector import NumaCollector
from koordlet.collectors.pod_pressure import PodPressure
from koordlet.collectors.pod_usage import PodUsageCollector

COLLECTORS: Final[tuple[type[Collector], ...]] = (
    NodeUsageCollector,
    PodUsageCollector,
    NumaCollector,
    NodePressure,
    PodPressure,
)
