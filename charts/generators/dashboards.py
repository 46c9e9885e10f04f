"""The JSON of the dashboards, made by Grafana's own library from the panels in dashboards.yaml."""

from __future__ import annotations

import enum
import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import StackingMode
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DataSourceRef, VariableRefresh
from grafana_foundation_sdk.models.prometheus import PromQueryFormat


class Kind(enum.StrEnum):
    """How a panel draws its series."""

    SERIES = "series"
    STACKED = "stacked"
    STAT = "stat"
    HEAT = "heat"
    TABLE = "table"
    STATES = "states"


class Panel(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """One panel."""

    title: str
    description: str
    unit: str
    queries: Mapping[str, str]
    kind: Kind = Kind.SERIES
    width: int = 12
    height: int = 8
    and_memory: bool = False


class Board(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One dashboard."""

    title: str
    panels: list[Panel]


DASHBOARDS: Final = msgspec.yaml.decode(pathlib.Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, Board])
"""Dashboards by their UID, which is also the name of the file."""
_OF_NODE: Final = "koord-node"
_DATASOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
_JOB, _NODE = 'job=~"$job"', 'node="$node"'
_SELECTOR: Final = re.compile(r"\b((?:koord(?:let|_[a-z_]+)|process)_[a-z_]+)\b(?:\{([^}]*)\})?")


def texts() -> dict[str, str]:
    """Return the JSON of each dashboard by the name of its file."""
    return {
        f"{uid}.json": json.dumps(json.loads(JSONEncoder(sort_keys=True).encode(_built(uid))), indent=1, sort_keys=True)
        + "\n"
        for uid in DASHBOARDS
    }


def selected(expression: str, *matchers: str) -> str:
    """Return a query of which every metric is selected by these matchers too."""
    return _SELECTOR.sub(lambda match: f"{match[1]}{{{','.join(filter(None, (*matchers, match[2])))}}}", expression)


def _built(uid: str) -> Any:
    drawn = DASHBOARDS[uid]
    board = (
        dashboard.Dashboard(drawn.title)
        .uid(uid)
        .description("Generated from charts/generators/dashboards.yaml of koord-suite.")
        .tags(["koord-suite"])
        .refresh("1m")
        .time("now-6h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(
            _variable("job", 'label_values({__name__=~"koord.*_build_info"}, job)').multi(True).include_all(True)
        )
    )
    matchers = [_JOB]
    if uid == _OF_NODE:
        board.with_variable(_variable("node", f"label_values(koordlet_build_info{{{_JOB}}}, node)"))
        matchers.append(_NODE)
    for number, panel in enumerate(_both(drawn.panels), start=1):
        board.with_panel(_panel(panel, matchers).id(number))
    return board.build()


def _both(panels: Sequence[Panel]) -> Iterator[Panel]:
    """Yield the panels, those about CPU that are wanted about memory too twice."""
    for panel in panels:
        yield panel
        if panel.and_memory:
            title = _of_memory(panel.title)
            queries = {legend: _of_memory(query) for legend, query in panel.queries.items()}
            yield msgspec.structs.replace(
                panel, title=title[0].upper() + title[1:], description=_of_memory(panel.description), unit="bytes",
                queries=queries,
            )  # fmt: skip


def _of_memory(text: str) -> str:
    return text.replace("CPU", "memory").replace("cpu", "memory").replace("cores", "bytes")


def _variable(name: str, query: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .datasource(_DATASOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    )


def _panel(panel: Panel, matchers: Sequence[str]) -> Any:
    drawing = _drawn(panel.kind)
    drawing.title(panel.title).description(panel.description).unit(panel.unit).datasource(_DATASOURCE)
    drawing.span(panel.width).height(panel.height)
    for index, (legend, query) in enumerate(panel.queries.items()):
        target = prometheus.Dataquery().expr(selected(query, *matchers)).ref_id(chr(ord("A") + index))
        target.legend_format(legend)
        if panel.kind is Kind.TABLE:
            target.format(PromQueryFormat.TABLE).instant()
        drawing.with_target(target)
    return drawing


def _drawn(kind: Kind) -> Any:
    match kind:
        case Kind.SERIES:
            return timeseries.Panel().fill_opacity(0)
        case Kind.STACKED:
            stacked = common.StackingConfig().mode(StackingMode.NORMAL)
            return timeseries.Panel().fill_opacity(30).stacking(stacked)
        case Kind.STAT:
            return stat.Panel()
        case Kind.HEAT:
            return heatmap.Panel().calculate(calculate=True)
        case Kind.TABLE:
            return table.Panel()
        case Kind.STATES:
            return statetimeline.Panel()
