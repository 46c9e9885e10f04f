"""The /metrics of all programs: the same conventions everywhere, counters from 0, labels from known sets.

The rules of one part (the series of a deleted node end, an unmeasured value is absent) are tested with that part.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, metrics_core, parser

from apiserver_client import watching
from koordlet import node_observer
from koordlet.agent import Agent
from koordlet.settings import KoordletSettings
from manager.metrics import telemetry
from manager.mid_resource.reasons import Reason
from manager.slo_config.evaluation import State
from scheduler_plugin.app import metrics
from scheduler_plugin.assembly import Parts
from scheduler_plugin.config import loader
from scheduler_plugin.load_watcher.records import Windows
from scheduler_plugin.load_watcher.watcher import WatcherMetrics
from tests.host_trees.plain_files import PlainHost

# Patterns that promtool's linter rejects in a name.
NOT_BASE_UNITS = (
    "milliseconds|minutes|hours|days|weeks|millicores|kelvin|kilobytes|megabytes|gigabytes|kib|mib|gib|percent|percents"
)
TYPE_WORDS = "gauge|counter|summary|histogram|map"
UNITS = "seconds|bytes|cores|ratio"
SAYS_A_UNIT = re.compile(
    r"\b(seconds since|time (since|spent|a|of the newest)|memory that|wall time|in cores)\b", re.IGNORECASE
)

BOUNDED_BY = {"node": "the nodes of the cluster", "pod": "the pods of a node", "namespace": "the pods of a node"}
SETS = {
    "cause", "choice", "finding", "history", "kind", "lane", "le", "level", "outcome", "plugin", "predictor",
    "provider", "reason", "report_age_at_most_seconds", "resource", "result", "source", "state", "verb", "version",
    "watch", "window",
}  # fmt: skip
LARGEST_SET = 40


def _manager(registry: CollectorRegistry, _folder: Path) -> None:
    telemetry.Telemetry(registry, reasons=[*Reason], states=[*State])


def _koordlet(registry: CollectorRegistry, folder: Path) -> None:
    PlainHost(folder).set_node(1000, 1 << 30)
    Agent(KoordletSettings(node_name="n1", state_dir=""), node_observer.NodeObserver(folder, 100), registry)


def _scheduler_plugin(registry: CollectorRegistry, _folder: Path) -> None:
    parts = Parts(loader.parse({}))
    for collector in parts.collectors():
        registry.register(collector)
    registry.register(metrics.RefusedPodsCollector(parts.refused))
    registry.register(metrics.StateCollector(parts.cluster, {"pods": watching.WatchState()}))
    metrics.RequestMetrics(registry)


def _load_watcher(registry: CollectorRegistry, _folder: Path) -> None:
    WatcherMetrics(registry, ["Prometheus"], Windows(900.0), time.time)


PARTS: dict[str, Callable[[CollectorRegistry, Path], None]] = {
    "koord_manager": _manager,
    "koordlet": _koordlet,
    "koord_scheduler_plugin": _scheduler_plugin,
    "koord_load_watcher": _load_watcher,
}

Families = dict[str, metrics_core.Metric]


@pytest.fixture(params=PARTS)
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Families]]:
    """Return the prefix of the metrics of a part, and all of its metrics at its start."""
    prometheus_client.disable_created_metrics()
    registry = CollectorRegistry()
    PARTS[request.param](registry, tmp_path)
    text = prometheus_client.generate_latest(registry).decode()
    yield request.param, {family.name: family for family in parser.text_string_to_metric_families(text)}
    prometheus_client.enable_created_metrics()


def test_names_and_help_follow_the_conventions(page: tuple[str, Families]) -> None:
    prefix, families = page
    assert len(families) > 5
    for name, family in families.items():
        assert re.fullmatch(rf"{prefix}(_[a-z]+)+", name), name
        assert re.fullmatch(r"\w.{8,}[.0]", family.documentation), name
        assert not re.search(rf"_({NOT_BASE_UNITS}|{TYPE_WORDS})(_|$)", name), name
        assert family.type in ("counter", "gauge", "histogram"), name
        assert ("timestamp" in name) == name.endswith("_timestamp_seconds"), name


def test_times_and_amounts_have_their_unit_in_their_name(page: tuple[str, Families]) -> None:
    for name, family in page[1].items():
        assert re.search(rf"_({UNITS})$", name) or not SAYS_A_UNIT.search(family.documentation), name


def test_counters_exist_as_zero_from_the_start_and_are_named_as_such(page: tuple[str, Families]) -> None:
    counters = [family for family in page[1].values() if family.type == "counter"]
    assert counters
    for family in counters:
        for sample in family.samples:
            assert sample.name.endswith("_total"), sample
            assert sample.value == 0 or family.name.startswith("koordlet_source_"), sample


def test_labels_are_from_known_sets_and_none_of_them_is_large(page: tuple[str, Families]) -> None:
    for family in page[1].values():
        values: dict[str, set[str]] = {}
        for sample in family.samples:
            for label, value in sample.labels.items():
                values.setdefault(label, set()).add(value)
        assert values.keys() <= SETS | BOUNDED_BY.keys(), family.name
        for label, found in values.items():
            assert len(found) <= LARGEST_SET, f"{family.name}: {label}"


def test_a_gauge_is_not_named_like_a_part_of_a_histogram(page: tuple[str, Families]) -> None:
    for name, family in page[1].items():
        assert family.type == "histogram" or not re.search(r"_(count|sum|bucket)$", name), name
