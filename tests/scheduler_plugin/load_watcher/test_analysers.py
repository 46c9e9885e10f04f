"""Tests of the hook for models: selection by entry point, and everything a model may do wrong."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.analysers import analyser
from scheduler_plugin.load_watcher.analysers.analyser import AnalyserFailed, AnalyserUnusable, GuardedAnalyser
from scheduler_plugin.load_watcher.analysers.seasonal_forecast import SeasonalForecast
from scheduler_plugin.load_watcher.providers.provider import Fetched
from scheduler_plugin.load_watcher.records import Metric, NodeMetrics, Window, Windows
from scheduler_plugin.load_watcher.watcher import Watcher, WatcherMetrics
from tests.scheduler_plugin.load_watcher.test_watcher import Scripted

ROOT = Path(__file__).parents[3]
NOW = 1_700_000_000.0
WINDOW = records.window_ending_at("15m", NOW)


def node(cpu: float, *more: Metric) -> NodeMetrics:
    values = {"CPU": cpu, "Memory": 20.0}
    return NodeMetrics([Metric(type=kind, operator="AVG", value=value) for kind, value in values.items()] + [*more])


NODES = {"a": node(40.0), "b": node(60.0)}


class Model:
    """Analyser that calls a function."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer
        self.calls = 0

    def analyse(self, _window: Window, nodes: Mapping[str, NodeMetrics]) -> Any:
        self.calls += 1
        return self.answer(nodes)


def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: Mapping[str, str]) -> None:
    """Install a package with these entry points."""
    folder = tmp_path / "some_models-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: some-models\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (folder / "entry_points.txt").write_text("\n".join([f"[{analyser.GROUP}]", *lines]) + "\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


def shipped() -> Mapping[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return dict(project["entry-points"][analyser.GROUP])


def test_the_shipped_analyser_is_loaded_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, shipped())
    assert isinstance(analyser.load(["seasonal-forecast"])["seasonal-forecast"], SeasonalForecast)


def test_an_installed_analyser_that_is_not_named_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unwanted_model.py").write_text("raise RuntimeError('imported')\n")
    installed(tmp_path, monkeypatch, {"unwanted": "unwanted_model:Model", **shipped()})
    assert list(analyser.load(["seasonal-forecast"])) == ["seasonal-forecast"]
    assert analyser.load([]) == {}


@pytest.mark.parametrize(
    ("name", "point", "message"),
    [
        ("other", "model_of_test:Model", "analyser other is not installed; .*mine"),
        ("mine", "model_of_test:Absent", "analyser mine .model_of_test:Absent. cannot be loaded: AttributeError"),
        ("mine", "no_such_module:Model", "analyser mine .* cannot be loaded: ModuleNotFoundError"),
        ("mine", "model_of_test:Broken", "analyser mine .* cannot be loaded: ZeroDivisionError"),
        ("mine", "model_of_test:Other", "has no method analyse"),
    ],
)
def test_an_analyser_that_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, point: str, message: str
) -> None:
    (tmp_path / "model_of_test.py").write_text("class Other: pass\nclass Broken:\n    def __init__(self): 1 / 0\n")
    installed(tmp_path, monkeypatch, {"mine": point})
    with pytest.raises(AnalyserUnusable, match=message):
        analyser.load([name])


async def served(*models: Any) -> tuple[Mapping[str, NodeMetrics], float]:
    """Return the nodes that a watcher with these models serves, and the failures it counts."""
    windows = Windows(300)
    guarded = [GuardedAnalyser(f"model-{place}", model) for place, model in enumerate(models)]
    watcher = Watcher([Scripted("Prometheus", Fetched(NODES))], windows, clock=lambda: NOW, analysers=guarded)
    registry = CollectorRegistry()
    metrics = WatcherMetrics(registry, ["Prometheus"], windows, lambda: NOW, [one.name for one in guarded])
    metrics.observe(await watcher.refresh("15m"))
    sample = "koord_load_watcher_analyser_failures_total"
    failures = sum(registry.get_sample_value(sample, {"analyser": one.name}) or 0 for one in guarded)
    return windows.latest("15m", NOW).data.nodes, failures


async def test_the_result_of_the_analysers_is_served_in_their_order() -> None:
    forecast = Metric("mine", "CPU", "Forecast", "15m", 70.0)
    first = Model(lambda nodes: {name: node(one.metrics[0].value / 2, forecast) for name, one in nodes.items()})
    second = Model(lambda nodes: {name: one for name, one in nodes.items() if one.metrics[0].value == 20.0})
    nodes, failures = await served(first, second)
    assert [(metric.operator, metric.value) for metric in nodes["a"].metrics] == [
        ("AVG", 20.0),
        ("AVG", 20.0),
        ("Forecast", 70.0),
    ]
    assert (set(nodes), failures) == ({"a"}, 0)


def _raises(error: BaseException) -> Callable[[Any], Any]:
    def answer(_nodes: Any) -> Any:
        raise error

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        _raises(ValueError("no")),
        _raises(SystemExit(1)),
        _raises(KeyboardInterrupt()),
        lambda _nodes: None,
        lambda _nodes: [1],
        lambda _nodes: {"a": 7},
        lambda _nodes: {"a": NodeMetrics([Metric(type="CPU", operator="AVG", value="hot")])},  # type: ignore[arg-type]
        lambda _nodes: {"a": node(math.nan)},
        lambda _nodes: {"a": node(-1.0)},
        lambda _nodes: {"a": node(500.0)},
        lambda _nodes: {"a": NodeMetrics([Metric(type="CPU", operator="STD", value=1.0)])},
        lambda _nodes: {"invented": node(0.0)},
        lambda _nodes: {"a": NodeMetrics([Metric(type="Energy", value=1.0)] * 101)},
    ],
)
async def test_the_measurements_are_served_whatever_an_analyser_does(answer: Callable[[Any], Any]) -> None:
    nodes, failures = await served(Model(answer))
    assert {name: one.metrics for name, one in nodes.items()} == {name: one.metrics for name, one in NODES.items()}
    assert failures == 1


async def test_an_analyser_changes_neither_its_input_nor_its_result_afterwards() -> None:
    returned: dict[str, NodeMetrics] = {}

    def empty_them(nodes: dict[str, NodeMetrics]) -> Any:
        returned.update({"a": node(50.0), "b": node(50.0)})
        for one in nodes.values():
            one.metrics.clear()
            one.tags["injected"] = "yes"
        nodes.clear()
        return returned

    guarded = GuardedAnalyser("mine", Model(empty_them))
    given = {"a": node(40.0), "b": node(60.0)}
    result = await guarded.analyse(WINDOW, given)
    returned["a"].metrics.clear()
    assert given == NODES
    assert len(result["a"].metrics) == 2


async def test_a_slow_analyser_is_not_called_again_until_it_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyser, "LONGEST_SECONDS", 0.01)
    gate = threading.Event()

    def wait(nodes: Any) -> Any:
        gate.wait(60)
        return nodes

    model = Model(wait)
    guarded = GuardedAnalyser("mine", model)
    try:
        with pytest.raises(AnalyserFailed, match=r"analyser mine: no result within 0\.01 s"):
            await guarded.analyse(WINDOW, NODES)
        for _ in range(3):
            with pytest.raises(AnalyserFailed, match="an earlier call has not returned"):
                await guarded.analyse(WINDOW, NODES)
        assert model.calls == 1
        assert all(thread.daemon for thread in threading.enumerate() if thread.name == "analyser-mine")
    finally:
        gate.set()
    monkeypatch.setattr(analyser, "LONGEST_SECONDS", 60.0)
    while any(thread.name == "analyser-mine" for thread in threading.enumerate()):
        await asyncio.sleep(0.001)
    assert await guarded.analyse(WINDOW, NODES) == NODES


def day(model: SeasonalForecast, number: int, *, peak: float) -> list[float | None]:
    """Run a day whose load is `peak` from 12 to 13 h and 20 else; return the forecasts of each quarter of an hour."""
    forecasts: list[float | None] = []
    for quarter in range(96):
        load = peak if 48 <= quarter < 52 else 20.0
        window = records.window_ending_at("15m", (number * 96 + quarter) * 900)
        metrics = model.analyse(window, {"a": node(load)})["a"].metrics
        found = [one.value for one in metrics if (one.type, one.operator) == ("CPU", "Forecast")]
        forecasts.append(found[0] if found else None)
    return forecasts


def test_the_forecast_knows_the_peak_of_the_day_before() -> None:
    model = SeasonalForecast()
    assert set(day(model, 20_000, peak=80.0)) == {None}
    second = day(model, 20_001, peak=80.0)
    assert second[46:53] == pytest.approx([20.0, 80.0, 80.0, 80.0, 80.0, 20.0, 20.0])


def test_the_forecast_follows_the_level_of_today_and_stays_a_percentage() -> None:
    model = SeasonalForecast()
    day(model, 20_000, peak=80.0)
    window = records.window_ending_at("15m", (20_001 * 96 + 47) * 900)
    hot = model.analyse(window, {"a": node(70.0)})["a"].metrics
    assert [one.value for one in hot if one.operator == "Forecast"] == [100.0, 20.0]
