"""Tests that the pages of Trimaran's plugins have the arguments, defaults, examples and numbers of the code."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from scheduler_plugin.config import loader
from scheduler_plugin.load_watcher.providers import provider_spec
from scheduler_plugin.plugins import registry
from scheduler_plugin.plugins.trimaran import target_load_packing
from scheduler_plugin.plugins.trimaran.args import (
    LoadVariationRiskBalancingArgs,
    TargetLoadPackingArgs,
    TrimaranArgs,
)

PAGES = Path(__file__).parents[2] / "docs" / "reference" / "scheduler-plugins"
PLUGINS = {
    "target-load-packing": "TargetLoadPacking",
    "load-variation-risk-balancing": "LoadVariationRiskBalancing",
    "low-risk-over-commitment": "LowRiskOverCommitment",
    "peaks": "Peaks",
}
COMMON = {field.alias for field in TrimaranArgs.model_fields.values()} - {"formula"}


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def listed(name: str) -> dict[str, Any]:
    rows = re.findall(r"^\| `(\w+)` \| (none|`[^`]*`) \|", page(name), re.MULTILINE)
    return {argument: None if cell == "none" else yaml.safe_load(cell.strip("`")) for argument, cell in rows}


@pytest.mark.parametrize("name", PLUGINS)
def test_a_page_lists_every_argument_with_its_default(name: str) -> None:
    entry = registry.PLUGINS[PLUGINS[name]]
    actual = entry.args.model_validate({}).with_defaults().model_dump(by_alias=True)
    assert listed(name) == {argument: value for argument, value in actual.items() if argument not in COMMON}


@pytest.mark.parametrize("name", PLUGINS)
def test_a_page_has_a_curve_and_a_valid_example(name: str) -> None:
    assert f"]({name}.svg)" in page(name)
    assert (PAGES / f"{name}.svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")
    (example,) = re.findall(r"```yaml\n(.*?)```", page(name), re.DOTALL)
    assert PLUGINS[name] in loader.parse(yaml.safe_load(example)).score_weights


def test_the_page_of_providers_lists_every_provider_with_its_required_keys_and_every_common_argument() -> None:
    text = (PAGES.parent / "providers.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (?:[^|]*\|){2} ([^|]*) \|", text, re.MULTILINE))
    assert rows.keys() >= provider_spec.NEEDS.keys()
    for name, needs in provider_spec.NEEDS.items():
        assert all(f"`{key}`" in rows[name] for key in needs), name
    assert all(f"`{argument}`" in text for argument in COMMON)
    assert all(f"`{preset}`" in text for preset in provider_spec.PRESETS)


def test_the_worked_example_of_peaks_is_right() -> None:
    rises = [91.5 * (math.exp(-3.595) - math.exp(-4.314)), 20 * (math.exp(1.2) - math.exp(1))]
    assert [f"{rise:.2f} W" in page("peaks") for rise in rises] == [True, True]


def test_the_advice_of_a_lower_target_is_on_the_page_and_in_the_description() -> None:
    described = TargetLoadPackingArgs.model_fields["target_utilization"].description or ""
    (row,) = re.findall(r"^\| `targetUtilization` .*$", page("target-load-packing"), re.MULTILINE)
    for text in (described, row):
        assert "10 points below the intended utilization" in text


def test_the_confidences_of_a_margin_are_those_of_the_normal_distribution() -> None:
    described = LoadVariationRiskBalancingArgs.model_fields["safe_variance_margin"].description or ""
    tails = [50.0 * math.erfc(margin / math.sqrt(2.0)) for margin in (1, 2, 3)]
    assert tails == pytest.approx([16, 2.5, 0.15], rel=0.12)
    assert "16, 2.5, 0.15 % of the time" in " ".join(described.split())


@pytest.mark.parametrize(("place", "target"), [(0, 40.0), (1, 60.0), (2, 80.0)])
def test_the_curve_of_target_load_packing_is_that_of_its_formula(place: int, target: float) -> None:
    drawing = (PAGES / "target-load-packing.svg").read_text(encoding="utf-8")
    paths = re.findall(r'<path d="([^"]*)" clip-path="[^"]*" style="([^"]*)"', drawing)
    lines = [np.array(re.findall(r"[ML] ([\d.]+) ([\d.]+)", path), dtype=float) for path, _style in paths]
    grid = [line for line, (_path, style) in zip(lines, paths, strict=True) if "#b0b0b0" in style]
    curve = [line for line, (_path, style) in zip(lines, paths, strict=True) if "#b0b0b0" not in style][place]
    across = [line[0, 0] for line in grid if line[0, 0] == line[1, 0]]  # at 0, 20, ... percent
    upwards = [line[0, 1] for line in grid if line[0, 1] == line[1, 1]]  # at scores of 0, 20, ...
    percent = (curve[:, 0] - across[0]) / (across[1] - across[0]) * 20.0
    score = (curve[:, 1] - upwards[0]) / (upwards[1] - upwards[0]) * 20.0
    assert score.max() == pytest.approx(100.0)
    is_beside_the_step = abs(percent - target) > 0.5
    assert is_beside_the_step.sum() > 50
    wanted = target_load_packing.target_load_score(percent, target)
    assert abs(score - wanted)[is_beside_the_step].max() < 1.1
