"""Tests that docs/reference/scheduler-plugins/load-aware.md lists every argument with its actual default."""

import pathlib
import re

import pytest
import yaml

from scheduler_plugin.config import loader
from scheduler_plugin.plugins.load_aware.args import AggregatedArgs, LoadAwareArgs

FILE = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "scheduler-plugins" / "load-aware.md"
PAGE = FILE.read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (none|`[^`]*`) \|", re.MULTILINE)


def table(heading):
    """Return the defaults by argument in the table with this heading of its first column."""
    text = PAGE[PAGE.index(f"| {heading} | default | meaning |") :].split("\n\n")[0]
    return {name: None if cell == "none" else yaml.safe_load(cell.strip("`")) for name, cell in ROW.findall(text)}


def test_the_page_lists_every_argument_with_its_default():
    listed = table("argument")
    actual = loader.parse({}).args["LoadAwareScheduling"].model_dump(by_alias=True)
    assert listed.keys() == {field.alias for field in LoadAwareArgs.model_fields.values()}
    assert listed == {name: actual[name] or listed[name] for name in listed}
    assert not [name for name in listed if listed[name] and not actual[name]]


def test_the_page_lists_every_argument_of_the_aggregated_block():
    assert table("`aggregated.`") == AggregatedArgs().model_dump(by_alias=True)


@pytest.mark.parametrize("example", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_the_configurations_on_the_page_load(example):
    chosen = loader.parse(yaml.safe_load(example))
    assert chosen.score_weights == {"LoadAwareScheduling": 3}
