"""The JSON of the dashboards, made by Grafana's own library from the lists of panels."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

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

from charts.generators.dashboards import control_plane, fleet, node
from charts.generators.dashboards.panels import Kind, Panel

DASHBOARDS: Final[dict[str, tuple[str, Sequence[Panel]]]] = {
    "koord-fleet": ("Koord / Fleet", fleet.PANELS),
    "koord-node": ("Koord / Node", node.PANELS),
    "koord-control-plane": ("Koord / Control plane", control_plane.PANELS),
}
"""UID, which is also the name of the file -> title and panels."""
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
    title, panels = DASHBOARDS[uid]
    board = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description("Generated from charts/generators/dashboards/ of koord-suite.")
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
    for number, panel in enumerate(panels, start=1):
        board.with_panel(_panel(panel, matchers).id(number))
    return board.build()


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
        target.legend_format(legend or "__auto")
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
