"""Text that is edited for Mid pods keeps the letters and the form of its author."""

import pytest

from koordctl.convert import yaml_edit


def edited(text, after):
    return yaml_edit.edited(text, {0: [after]})


def test_letters_of_every_language_stay_letters():
    assert edited("a: one\n", {"a": "größe ✔"}) == 'a: "größe ✔"\n'


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_added_mapping_is_two_columns_deeper_than_its_key(end):
    text = end.join(["spec:", "  a: 1  # one", "  b:", "    c: 2", ""])
    wanted = end.join(["spec:", "  a: 1  # one", "  x:", "    w:", "      z: 64Mi", "  b:", "    c: 2", ""])
    assert edited(text, {"spec": {"a": 1, "b": {"c": 2}, "x": {"w": {"z": "64Mi"}}}}) == wanted


def test_a_key_is_added_before_the_first_one_where_no_entry_is_on_one_line():
    text = "spec:\n  b:\n    c: |\n      2\n  d:\n    - 3\n"
    wanted = "spec:\n  x: one\n  b:\n    c: |\n      2\n  d:\n    - 3\n"
    assert edited(text, {"spec": {"x": "one", "b": {"c": "2\n"}, "d": [3]}}) == wanted


def test_a_key_is_added_at_the_end_of_a_text_without_an_end_of_line():
    assert edited("a: 1  # one", {"a": 1, "b": "64Mi"}) == "a: 1  # one\nb: 64Mi"


def test_json_stays_json():
    assert edited('{"a": {"b": "one"}, "c": {}}', {"a": {"b": "two", "x": "y"}, "c": {"d": 1}}) == (
        '{"a": {"b": "two", "x": "y"}, "c": {"d": 1}}'
    )


def test_an_item_of_a_list_is_edited_in_its_place():
    assert (
        edited("- a: 1\n- a: 2 # two\n- [3, 4]\n", [{"a": 1}, {"a": 5}, [3, 6]]) == "- a: 1\n- a: 5 # two\n- [3, 6]\n"
    )


def test_a_number_that_becomes_its_text_is_a_change():
    assert edited("a: 1\n", {"a": "1"}) == 'a: "1"\n'
    assert edited("a: yes\n", {"a": "yes"}) == 'a: "yes"\n'
