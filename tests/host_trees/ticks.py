"""One tick of one collector."""

from __future__ import annotations

import dataclasses

from koordlet.collectors.interface import Tick


def collected(collector, **inputs):
    """Return the tick after a collector has added to it."""
    tick = Tick(0.0, **inputs)
    collector.collect(tick)
    return dataclasses.replace(tick, no_data=tuple(tick.no_data))
