"""docs/reference/configuration.md: every key, preset and reason code, as the models define them."""

import re

import pytest

from api_types import names
from api_types.colocation import controller_config as slo
from api_types.colocation import presets
from crds import generate
from docs.generators import configuration_page
from manager.slo_config import evaluation, strategy

PAGE = (generate.ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")


def rows(table):
    """Return first cell -> other cells of a generated table."""
    written = configuration_page.page(f"<!-- table {table}: written by make update -->\n<!-- end -->")
    cells = [line.strip("| ").split(" | ") for line in written.splitlines() if line.startswith("| ")]
    return {first.strip("`"): rest for first, *rest in cells[1:]}


def test_every_key_of_every_model_is_in_exactly_one_table():
    tables = [rows(name) for name in ("mid", "cluster", "metric", "unused", "entry")]
    documented = [key for table in tables for key in table]
    documented += [f"nodePredictPolicy{key}" for key in rows("predict")]
    top_level = {info.alias for model in (slo.ColocationConfig, slo.NodeConfig) for info in model.model_fields.values()}
    assert {key.split(".")[0] for key in documented} == top_level - {"nodeConfigs"}
    policies = {info.alias for info in slo.PredictPolicy.model_fields.values()}
    assert set(rows("predict")) == {f".{key}" for key in policies}
    assert len(documented) == len(set(documented))


def test_a_row_has_range_default_and_meaning():
    assert rows("predict")[".n"] == [
        "a number, above 0 and at most 20",
        "`5.0`",
        "N of N-sigma: standard deviations above the mean.",
    ]
    assert rows("metric")["resourceDiffThreshold"][0] == "a number, above 0; above 1 accepted with a warning"


def test_the_example_matches_the_formula_calculated_by_hand():
    mid = {preset: cells[-2:] for preset, cells in rows("preset-example").items()}
    assert mid == {
        "none": ["6.0", "at once"],  # 12 - (4 + 5 * 0.4)
        "conservative": ["6.0", "in 4 reports"],  # rising by 1.6 a report
        "balanced": ["6.0", "in 2 reports"],  # rising by 4.0 a report
        "aggressive": ["6.0", "at once"],
    }


def test_every_preset_has_its_effect_and_its_risk():
    assert set(presets.EXPECTATIONS) == set(presets.PRESETS) == set(rows("presets"))


def test_the_page_has_every_table_reason_code_and_layer():
    assert set(re.findall(r"<!-- table ([\w-]+): written", PAGE)) == set(configuration_page.TABLES)
    for code in (*evaluation.REASONS.values(), evaluation.APPLIED, evaluation.UNUSED):
        assert f"`{code}`" in PAGE
    for name in (
        names.ANNOTATION_COLOCATION_STRATEGY,
        names.ANNOTATION_COLOCATION_CONFIG_STATUS,
        *strategy.RATIO_LABELS,
    ):
        assert name in PAGE


def test_text_outside_the_tables_stays_and_a_second_run_changes_nothing():
    text = "before\n<!-- table labels: written by make update -->\nstale row\n<!-- end -->\nafter\n"
    written = configuration_page.page(text)
    assert written.startswith("before\n<!-- table labels")
    assert written.endswith("<!-- end -->\nafter\n")
    assert "stale row" not in written
    assert configuration_page.page(written) == written


def test_rejects_an_unknown_table():
    with pytest.raises(ValueError, match="unknown table other, want one of mid, "):
        configuration_page.page("<!-- table other: written by make update -->\n<!-- end -->")
