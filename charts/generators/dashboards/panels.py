"""A panel of a dashboard, as the lists of panels write it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple


class Kind(enum.StrEnum):
    """How a panel draws its series."""

    SERIES = "time series"
    STACKED = "stacked time series"
    STAT = "one number"
    HEAT = "heat map"
    TABLE = "table"
    STATES = "state timeline"


class Panel(NamedTuple):
    """One panel. The first one without room in a row begins the next row; a row has 24 columns."""

    title: str
    description: str
    unit: str
    """Unit of Grafana, such as `bytes`, or `suffix: cores`."""
    queries: Mapping[str, str]
    """Queries in PromQL, without the labels that the variables of the dashboard select by, each by the name of its
    series, with labels in double braces; an empty one is made by Grafana."""
    width: int = 12
    height: int = 8
    kind: Kind = Kind.SERIES


CORES, BYTES, SECONDS, SHARE, COUNT = "suffix: cores", "bytes", "s", "percentunit", "short"
PER_SECOND, STATE = "ops", "bool_yes_no"


def about_both(panel: Panel) -> tuple[Panel, Panel]:
    """Return a panel about CPU, and the same about memory."""

    def text(of_cpu: str) -> str:
        return of_cpu.replace("CPU", "memory").replace("cpu", "memory").replace("cores", "bytes")

    title, queries = text(panel.title), {legend: text(query) for legend, query in panel.queries.items()}
    title = title[0].upper() + title[1:]
    return panel, panel._replace(title=title, description=text(panel.description), unit=BYTES, queries=queries)
