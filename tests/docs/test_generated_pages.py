"""Pages of docs.generators: they are complete, and up to date."""

import re
from pathlib import Path

import pytest
import yaml

from docs.generators import (
    chart_values_page,
    decisions_index,
    markdown,
    metrics_page,
    node_metric_page,
    pages,
    stable_names,
)

ROOT = Path(__file__).parents[2]
GENERATED = pages.generated()


def sources(package):
    return "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / package).rglob("*.py")))


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_a_generated_file_is_up_to_date(path):
    assert path.read_text(encoding="utf-8") == GENERATED[path], "run `make update`"


@pytest.mark.parametrize("package", ["koordlet", "manager", "scheduler_plugin"])
def test_every_metric_that_the_code_names_is_on_the_page(package):
    text = metrics_page.page()
    listed = {name.removesuffix("_total") for name in re.findall(r"^\| `(\w+)`", text, re.MULTILINE)}
    source = sources(package)
    whole = re.findall(r'"((?:koordlet|koord_manager)_[a-z_]+[a-z])",', source)
    short = re.findall(r'f"\{_PREFIX\}([a-z_]+)"', source)
    assert whole or short
    assert set(whole) - listed == set()
    ends = {name.removeprefix("koord_scheduler_plugin_").removeprefix("koord_load_watcher_") for name in listed}
    assert set(short) - ends - {"watch_"} == set()


def test_every_value_of_the_chart_is_on_the_page_or_below_one_that_is():
    text = (chart_values_page.CHART / "values.yaml").read_text(encoding="utf-8")
    documented = {value.path for value in chart_values_page.documented(text)}

    def leaves(values, path=()):
        for key, value in values.items():
            if isinstance(value, dict) and value:
                yield from leaves(value, (*path, key))
            else:
                yield (*path, key)

    missing = [
        ".".join(leaf)
        for leaf in leaves(yaml.safe_load(text))
        if not any(leaf[: length + 1] in documented for length in range(len(leaf)))
    ]
    assert missing == []


def test_every_name_that_stays_is_in_the_code():
    gone = stable_names.listed() - set(stable_names.in_the_code())
    assert gone == set(), "give the name back; else remove its line, and say in CHANGELOG.md what replaces it"


def test_every_type_of_the_node_metric_that_is_linked_has_a_section():
    page = node_metric_page.page()
    sections = {title.lower() for title in re.findall(r"^## (\w+)$", page, re.MULTILINE)}
    assert set(re.findall(r"\(#(\w+)\)", page)) <= sections


def test_a_decision_without_a_title_is_an_error(tmp_path):
    (tmp_path / "0001-x.md").write_text("no title")
    with pytest.raises(ValueError, match=r"0001-x\.md: no title"):
        decisions_index.page(tmp_path)


def test_a_decision_is_listed_with_its_status_and_release(tmp_path):
    (tmp_path / "0001-x.md").write_text("# 1. Use tabs\n\nStatus: superseded by 2, 2026-11-21. Release: 0.1.0.\n")
    assert "| 1 | [Use tabs](0001-x.md) | superseded by 2, 2026-11-21 | 0.1.0 |" in decisions_index.page(tmp_path)


def test_text_does_not_break_out_of_its_table_cell():
    assert markdown.table(("a",), [("x | y\nz",)]).endswith("| x \\| y z |\n")
