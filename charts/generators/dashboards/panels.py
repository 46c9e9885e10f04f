"""A panel of a dashboard, as the lists of panels write it."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Kind(enum.StrEnum):
    """How a panel draws its series."""

    SERIES = "time series"
    STACKED = "stacked time series"
    STAT = "one number"
    HEAT = "heat map"
    TABLE = "table"
    STATES = "state timeline"


class PanelQuery(NamedTuple):
    """A query in PromQL, without the labels that the variables of the dashboard select by."""

    expression: str
    legend: str = ""
    """Name of a series, with its labels in double braces; empty for the one that Grafana makes."""


class Panel(NamedTuple):
    """One panel. The first one without room in a row begins the next row; a row has 24 columns."""

    kind: Kind
    title: str
    description: str
    unit: str
    """Unit of Grafana, such as `bytes`, or `suffix: cores`."""
    queries: tuple[PanelQuery, ...]
    width: int = 12
    height: int = 8


CORES, BYTES, SECONDS, SHARE, COUNT = "suffix: cores", "bytes", "s", "percentunit", "short"
PER_SECOND, STATE = "ops", "bool_yes_no"
