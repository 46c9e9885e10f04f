"""Editing YAML text: only what changes is written, whatever the style; what cannot be edited is refused."""

import difflib
import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from api_types.mid_pods.resources import RulesRefused
from e2e.support import mid_pod_examples as examples
from koordctl.convert import objects, yaml_edit

OPTIONS = objects.Options("koord-scheduler")
STYLES = {
    "block": "a:\n  one: 1 # first\n  two: 2\n",
    "deep": "a:\n        one: 1\n\n        two: 2\n\n# end\n",
    "flow": "a: {one: 1, two: 2}\n",
    "flow on lines": "a: {\n  one: 1,  # first\n  two: 2,\n}\n",
    "json": '{"a": {"one": 1, "two": 2}}\n',
    "without an end of line": "a:\n  one: 1\n  two: 2",
    "of Windows": "a:\r\n  one: 1\r\n  two: 2\r\n",
    "in a list": "- a:\n    one: 1\n    two: 2\n",
    "quoted": "'a':\n  \"one\": 1\n  ? two\n  : 2\n",
    "nested last": "a:\n  two: 2\n  one: 1\n  three: &x\n    b: 1\n",
}


def changed(text, **values):
    (document,) = yaml_edit.documents(text)
    value = json.loads(json.dumps(document.value))
    inner = (value[0] if isinstance(value, list) else value)["a"]
    inner.update(values)
    return yaml_edit.edited(text, {0: [value]}), value


@pytest.mark.parametrize("style", STYLES)
def test_added_and_changed_values_are_all_that_changes(style):
    text = STYLES[style]
    made, value = changed(text, one="0", new="500", more={"x": "64Mi", "y": {"z": "1e3"}})
    assert yaml.safe_load(made) == value
    removed = [line[2:] for line in difflib.ndiff(text.splitlines(), made.splitlines()) if line.startswith("- ")]
    assert all("one" in line or "{" in line or "two: 2" in line for line in removed)
    assert ("\r\n" in text) == ("\r\n" in made)
    assert "\n\n\n" not in made
    for comment in ("# first", "# end"):
        assert (comment in text) == (comment in made)


@pytest.mark.parametrize("style", STYLES)
def test_the_same_values_leave_every_byte(style):
    assert changed(STYLES[style])[0] == STYLES[style]


@pytest.mark.parametrize("empty", ["a:\n", "a: {}\n", "a: # nothing\n", "a: null\nb: 1\n", "{a: }"])
def test_an_empty_value_becomes_a_mapping(empty):
    made = yaml_edit.edited(empty, {0: [{**yaml.safe_load(empty), "a": {"x": {"y": "0"}}}]})
    assert yaml.safe_load(made)["a"] == {"x": {"y": "0"}}


def test_texts_that_a_yaml_parser_could_read_as_numbers_have_quotes():
    made, _ = changed(
        "a: {}\n", a="500", b="1e3", c="0x1", d="1_000", e="off", f="64Mi", g="1E", h="1.5", i="y", j="1:30"
    )
    assert made == (
        'a: {a: "500", b: "1e3", c: "0x1", d: "1_000", e: "off", f: 64Mi, g: "1E", h: "1.5", i: "y", j: "1:30"}\n'
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &x {one: 1}\nb: *x\n", "shares an anchor"),
        ("b: &x {one: 1}\na:\n  <<: *x\n  two: 2\n", "merge key"),
        ("a:\n  one: 1\n  one: 2\n", "occurs twice"),
    ],
)
def test_what_cannot_be_edited_without_an_effect_elsewhere_is_refused(text, reason):
    (document,) = yaml_edit.documents(text)
    with pytest.raises(RulesRefused, match=reason):
        yaml_edit.edited(text, {0: [{**document.value, "a": {**document.value["a"], "one": "3"}}]})


@pytest.mark.parametrize("text", ["a: {{ .Values.x }}\n", "a: [", "\tb", "a: !!python/object:os.system {}", "[" * 1500])
def test_what_is_not_plain_yaml_is_refused(text):
    with pytest.raises(RulesRefused, match="cannot be read as YAML"):
        yaml_edit.documents(text)


def test_documents_are_counted_without_empty_ones_and_others_stay():
    text = "# head\n---\n---\na: {one: 1}\n---\n# only a comment\n---\nb: 2\n...\n---\nc: 3 # c\n"
    assert [each.value for each in yaml_edit.documents(text)] == [{"a": {"one": 1}}, {"b": 2}, {"c": 3}]
    made = yaml_edit.edited(text, {1: [{"b": "x"}]})
    assert made == text.replace("b: 2", "b: x")
    replaced = yaml_edit.edited(text, {1: [{"d": 1}, {"e": 2}]})
    assert replaced == text.replace("b: 2", "d: 1\n---\ne: 2")


STYLE = st.fixed_dictionaries(
    {
        "default_flow_style": st.sampled_from([None, True, False]),
        "indent": st.sampled_from([2, 4, 8]),
        "sort_keys": st.booleans(),
        "width": st.sampled_from([20, 80, 1000]),
        "explicit_start": st.booleans(),
        "default_style": st.sampled_from([None, "'", '"']),
    }
)


@settings(max_examples=25)
@given(STYLE, st.integers(0, 10**6))
def test_manifests_of_any_style_give_what_the_rules_give(style, seed):
    pods = list(examples.drawn(3, seed))
    text = yaml.safe_dump_all(pods, **{**style, "line_break": "\n"})
    results = [objects.convert(each, OPTIONS) for each in yaml.safe_load_all(text)]
    made = yaml_edit.edited(text, {index: result.objects for index, result in enumerate(results)})
    again = [objects.convert(each, OPTIONS) for each in yaml.safe_load_all(made)]
    assert yaml_edit.edited(made, {index: result.objects for index, result in enumerate(again)}) == made


def edited(text, after):
    return yaml_edit.edited(text, {0: [after]})


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_added_mapping_is_two_columns_deeper_than_its_key(end):
    text = end.join(["spec:", "  a: 1  # one", "  b:", "    c: 2", ""])
    wanted = end.join(["spec:", "  a: 1  # one", "  x:", "    w:", "      z: 64Mi", "  b:", "    c: 2", ""])
    assert edited(text, {"spec": {"a": 1, "b": {"c": 2}, "x": {"w": {"z": "64Mi"}}}}) == wanted


def test_a_key_is_added_before_the_first_one_where_no_entry_is_on_one_line():
    text = "spec:\n  b:\n    c: |\n      2\n  d:\n    - 3\n"
    wanted = "spec:\n  x: one\n  b:\n    c: |\n      2\n  d:\n    - 3\n"
    assert edited(text, {"spec": {"x": "one", "b": {"c": "2\n"}, "d": [3]}}) == wanted


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("lines", "added"),
    [
        (["a:", "  - b: 1  # one", "    c: 2", "# end", "d: 3"], "  - {x: one}"),
        (["a:", "- b: 1", "  c: 2", "", "d: 3"], "- {x: one}"),
    ],
)
def test_an_item_is_added_before_the_first_one_of_a_list(lines, added, end):
    expected = end.join([lines[0], added, *lines[1:]])
    assert edited(end.join(lines), {"a": [{"x": "one"}, {"b": 1, "c": 2}], "d": 3}) == expected


@pytest.mark.parametrize(
    ("text", "added"), [("a: [ {b: 1} ]\n", "{x: one}, "), ('{"a": [{"b": 1}]}', '{"x": "one"}, ')]
)
def test_an_item_is_added_within_the_brackets_of_a_list(text, added):
    first = text.index("{", 1)
    assert edited(text, {"a": [{"x": "one"}, {"b": 1}]}) == text[:first] + added + text[first:]


def test_a_number_that_becomes_its_text_is_a_change():
    assert edited("a: 1\n", {"a": "1"}) == 'a: "1"\n'
    assert edited("a: yes\n", {"a": "yes"}) == 'a: "yes"\n'
