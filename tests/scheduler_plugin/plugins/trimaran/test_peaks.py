from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler_plugin.config import loader
from scheduler_plugin.config.loader import InvalidConfiguration
from tests.scheduler_plugin.plugins.trimaran.measured_cluster import MeasuredCluster, metrics, pod

FLAT, STEEP = {"k0": 100, "k1": 1, "k2": 0.01}, {"k0": 100, "k1": 1, "k2": 0.06}


def measured(formula: str = "corrected", **loads: float) -> MeasuredCluster:
    models = {name: STEEP if name == "steep" else FLAT for name in loads if name != "unknown"}
    cluster = MeasuredCluster("Peaks", nodePowerModel=models, formula=formula)
    for name in loads:
        cluster.node(name)
    cluster.measure({name: metrics(load) for name, load in loads.items() if name != "unmeasured"})
    return cluster


def test_prefers_the_smallest_rise_of_power() -> None:
    assert measured(flat=50, steep=50).scores(pod("1"), ["flat", "steep"]) == [100, 0]
    assert measured(flat=10, other=60).scores(pod("1"), ["flat", "other"]) == [100, 0]


@pytest.mark.parametrize("name", ["unknown", "unmeasured", "full"])
def test_b12_a_node_without_model_measurement_or_room_is_not_the_best(name: str) -> None:
    loads = {"flat": 10.0, name: 95.0}
    assert measured(**loads).scores(pod("1"), list(loads)) == [100, 0]
    assert measured("upstream", **loads).scores(pod("1"), list(loads)) == [0, 100]


def test_b12_uses_the_models_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "models.json"
    file.write_text(json.dumps({"flat": FLAT, "steep": STEEP}))
    monkeypatch.setenv(loader.POWER_MODEL_VARIABLE, str(file))
    cluster = MeasuredCluster("Peaks")
    for name in ("flat", "steep"):
        cluster.node(name)
    cluster.measure({"flat": metrics(50), "steep": metrics(50)})
    assert cluster.scores(pod("1"), ["flat", "steep"]) == [100, 0]


def test_rejects_a_configuration_without_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(loader.POWER_MODEL_VARIABLE, raising=False)
    with pytest.raises(InvalidConfiguration, match="nodePowerModel: seen null, want power models by node name"):
        MeasuredCluster("Peaks")


def test_b12_handles_a_jump_above_the_integer_range() -> None:
    cluster = MeasuredCluster("Peaks", nodePowerModel={"huge": {"k0": 0, "k1": 1e6, "k2": 0.05}, "flat": FLAT})
    for name in ("huge", "flat"):
        cluster.node(name)
    cluster.measure({"huge": metrics(10), "flat": metrics(10)})
    assert cluster.scores(pod("1"), ["huge", "flat"]) == [0, 100]
