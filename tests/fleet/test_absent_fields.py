"""Fields that the API server leaves out have the zero of the API."""

import msgspec

from fleet import wire


def test_a_priority_class_without_a_value_has_the_priority_zero():
    assert msgspec.convert({"metadata": {"name": "low"}}, wire.PriorityClass).value == 0
