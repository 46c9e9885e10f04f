"""Texts and aliases at their longest, and values that are no text."""

import pydantic
import pytest

from api_types import wire_model
from api_types.kubernetes import quantities, times, yaml_text
from api_types.mid_pods import quota


@pytest.mark.parametrize(("length", "is_read"), [(64, True), (65, False)])
def test_a_duration_has_64_characters_at_most(length, is_read):
    text = "5m".rjust(length, "0")
    if is_read:
        assert times.duration_seconds(text) == 300
    else:
        with pytest.raises(ValueError, match="has 65 characters, want a duration of at most 64"):
            times.duration_nanos(text)


@pytest.mark.parametrize(("length", "is_read"), [(256, True), (257, False)])
def test_a_mid_quota_has_256_characters_at_most(length, is_read):
    text = '{"cpu": "1"}'.ljust(length)
    assert quota.is_admissible(text) is is_read
    if is_read:
        assert quota.read(text, quota.UNLIMITED) == (1000, None)
    else:
        with pytest.raises(quota.MalformedQuota, match="seen 257 characters, want at most 256"):
            quota.read(text, quota.UNLIMITED)


@pytest.mark.parametrize(("most", "is_read"), [(2, True), (1, False)])
def test_values_that_aliases_repeat_are_counted(monkeypatch, most, is_read):
    """The alias repeats a list and its item."""
    monkeypatch.setattr(yaml_text, "_MOST_ALIASED_VALUES", most)
    text = "a: &a [x]\nb: *a\n"
    if is_read:
        assert list(yaml_text.load_all(text)) == [{"a": ["x"], "b": ["x"]}]
    else:
        with pytest.raises(yaml_text.TooManyAliases, match="expand to more than 1 values"):
            list(yaml_text.load_all(text))


def test_yaml_has_the_letters_and_the_order_of_its_values():
    assert yaml_text.dump({"b": "日本", "a": ["y", "yes"]}) == "b: 日本\na:\n- 'y'\n- 'yes'\n"


@pytest.mark.parametrize(("resource", "units"), [("cpu", 2000), ("memory", 2), ("kubernetes.io/mid-cpu", 2)])
def test_a_number_is_exact_in_the_unit_of_its_resource(resource, units):
    assert quantities.exact_resource_units(resource, 2) == quantities.exact_resource_units(resource, "2") == units


@pytest.mark.parametrize("amount", ["many", "1 Gi", 0.5, True, None])
def test_a_resource_list_holds_quantities_alone(amount):
    wanted = pydantic.TypeAdapter(wire_model.ResourceList)
    assert wanted.validate_python({"cpu": "500m", "memory": 4096}) == {"cpu": "500m", "memory": 4096}
    with pytest.raises(pydantic.ValidationError):
        wanted.validate_python({"cpu": amount})
