"""Reading YAML: aliases that expand to more values than a program can visit are refused before there are values."""

import pytest
import yaml

from api_types.kubernetes import yaml_text

BOMB = "\n".join(["x0: &x0 [lol]", *(f"x{n}: &x{n} [*x{n - 1}, *x{n - 1}]" for n in range(1, 40))])
MERGES = "\n".join(["x0: &x0 {a: 1}", *(f"x{n}: &x{n} {{<<: [*x{n - 1}, *x{n - 1}]}}" for n in range(1, 40))])


@pytest.mark.parametrize("text", [BOMB, MERGES, "x: &x [*x]", "&x x: {*x : *x, y: &y {z: *y}}", f"a: 1\n---\n{BOMB}"])
def test_aliases_that_expand_to_too_many_values_are_refused(text):
    for read in (yaml_text.load_all, yaml_text.nodes):
        with pytest.raises(yaml_text.TooManyAliases, match="want the values written out"):
            list(read(text))


@pytest.mark.parametrize("text", ["at: 2026-13-01", f"count: {'9' * 5000}", "count: 0x_", "a: " + "[" * 3000])
def test_whatever_cannot_be_read_is_one_kind_of_error(text):
    with pytest.raises(yaml.YAMLError):
        yaml_text.load(text)


def test_other_aliases_and_any_number_of_written_values_are_read():
    text = "a: &a {b: 1}\nc: *a\nd: {<<: *a, e: =}\n---\n---\n" + "- x\n" * 3000
    first, second, third = yaml_text.load_all(text)
    assert first == {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": "="}}
    assert (second, third) == (None, ["x"] * 3000)
    assert len(list(yaml_text.nodes(text))) == 3
