"""The dashboards: complete panels, and queries that Prometheus parses and that name metrics and labels which exist."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.generators import dashboards
from console.history import prometheus
from docs.generators import metrics_page
from docs.generators.alerts_page import RULES
from koordctl.export import command as export
from tests.charts.test_alerts import promtool

pytestmark = pytest.mark.slow

BOARDS: dict[str, dict[str, Any]] = {name: json.loads(text) for name, text in dashboards.texts().items()}
PANELS = [(name, panel) for name, board in BOARDS.items() for panel in board["panels"]]
METRIC = re.compile(r"\b(?:koord(?:let|_[a-z]+)|process)_[a-z_]+")
OF_PROCESSES = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
OF_THE_TARGET = {"job", "node", "instance", "pod", "le", "__name__"}
"""Labels that Prometheus adds to the series of a target, and those of PromQL."""
LABELS = re.compile(r"(?:by|on|ignoring|without|group_left) \(([^)]*)\)|\{\{(\w+)\}\}|(\w+)=~?\"")


@functools.cache
def metrics() -> dict[str, frozenset[str]]:
    """Return the labels of each series that the programs have, by its name, from their registries."""
    found = {"koord_suite_unasked_pods_total": frozenset({"result"})}  # of the plugin inside kube-scheduler
    for registry in metrics_page.REGISTRIES.values():
        for name, kind, labels, _ in metrics_page.described(registry()):
            own = frozenset(re.findall(r"\w+", labels))
            for suffix in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
                found[name.strip("`") + suffix] = own
    return found


def unknown_metrics(expression: str, known: Collection[str]) -> set[str]:
    """Return the metrics in an expression that no program has."""
    return set(METRIC.findall(_without_strings(expression))) - set(known) - OF_PROCESSES


def _without_strings(expression: str) -> str:
    return re.sub(r'"[^"]*"', '""', expression)


def queries() -> Iterator[tuple[str, str, str]]:
    """Yield title, query and legend of each query of each panel, and of each series of the console."""
    for name, panel in PANELS:
        for target in panel["targets"]:
            yield f"{name}: {panel['title']}", target["expr"], target["legendFormat"]
    for name, query in prometheus.QUERIES.items():
        yield f"console: {name}", query.format(node=',node="n1"'), ""


def filled(expression: str) -> str:
    """Return a query with the variables of Grafana replaced."""
    return expression.replace("$__rate_interval", "5m").replace("$job", ".*").replace("$node", "n1")


def test_koordctl_has_the_dashboards_of_the_chart() -> None:
    assert export.dashboards() == dict(sorted(dashboards.texts().items()))


def test_each_has_an_identity_and_its_variables() -> None:
    assert len({board["uid"] for board in BOARDS.values()}) == len(BOARDS) == 3
    for name, board in BOARDS.items():
        variables = {each["name"]: each for each in board["templating"]["list"]}
        assert set(variables) == {"datasource", "job"} | ({"node"} if name == "koord-node.json" else set())
        assert variables["datasource"]["type"] == "datasource"
        assert variables["job"]["multi"]
        assert variables["job"]["includeAll"]


@pytest.mark.parametrize(("name", "panel"), PANELS, ids=[f"{name}-{panel['title']}" for name, panel in PANELS])
def test_each_panel_states_what_it_shows(name: str, panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert re.fullmatch(r"[A-Za-z].{10,}\.", panel["description"])
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    for target in panel["targets"]:
        for selector in re.findall(r"(?:koord|process)\w+(\{[^}]*\})?", _without_strings(target["expr"])):
            assert selector.startswith('{job=~"",node=""' if name == "koord-node.json" else '{job=~""'), target["expr"]


@pytest.mark.parametrize("name", BOARDS)
def test_panels_lie_side_by_side(name: str) -> None:
    panels = BOARDS[name]["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(each["x"] + each["w"] <= 24 for each in places)
    for one, other in itertools.combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": filled(each)} for number, (_, each, _) in enumerate(queries())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    result = promtool("check", "rules", file)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(rules)} rules found" in result.stdout


def test_every_query_names_metrics_that_exist() -> None:
    named = {title: unknown_metrics(expression, metrics()) for title, expression, _ in queries()}
    assert {title: unknown for title, unknown in named.items() if unknown} == {}


def test_every_alert_names_metrics_that_exist() -> None:
    named = {rule["alert"]: unknown_metrics(rule["expr"], metrics()) for rule in RULES}
    assert {name: unknown for name, unknown in named.items() if unknown} == {}


def test_every_label_of_a_query_is_one_of_its_metrics() -> None:
    for title, expression, legend in [*queries(), *((rule["alert"], rule["expr"], "") for rule in RULES)]:
        named = METRIC.findall(_without_strings(expression))
        known = OF_THE_TARGET.union(*(metrics().get(each, frozenset()) for each in named))
        used = {
            word
            for groups in LABELS.findall(expression + legend)
            for each in groups
            for word in re.findall(r"\w+", each)
        }
        assert used <= known, f"{title}: {used - known}"


def test_a_renamed_metric_is_found_wherever_it_is_named() -> None:
    expressions = [expression for _, expression, _ in queries()] + [rule["expr"] for rule in RULES]
    used = {each for expression in expressions for each in METRIC.findall(_without_strings(expression))} - OF_PROCESSES
    assert len(used) > 60
    for name in used:
        renamed = {f"{each}_renamed" if each == name else each for each in metrics()}
        affected = [each for each in expressions if re.search(rf"\b{name}\b", each)]
        assert affected
        assert all(unknown_metrics(each, renamed) == {name} for each in affected), name


def test_the_series_of_namespaces_are_drawn() -> None:
    drawn = " ".join(expression for _, expression, _ in queries())
    assert [each for each in metrics() if "_namespace_mid_" in each and each not in drawn] == []
