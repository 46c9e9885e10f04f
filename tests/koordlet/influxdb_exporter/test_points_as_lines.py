"""Lines in line protocol, read back by a parser of its grammar."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.influxdb_exporter import points

PARTS = re.compile(r"(?:\\.|[^\\ ])+")
TAG = re.compile(r"((?:\\.|[^\\=])+)=((?:\\.|[^\\])+)")
ESCAPE = re.compile(r"\\([,= ])")
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\\\n"), min_size=1)


def parsed(line):
    """Return (measurement, tags, fields, time), split at unescaped spaces and commas."""
    key, fields, at = PARTS.findall(line)
    measurement, *tags = re.findall(r"(?:\\.|[^\\,])+", key)
    pairs = [TAG.fullmatch(tag).groups() for tag in tags]
    return (
        ESCAPE.sub(r"\1", measurement),
        {ESCAPE.sub(r"\1", name): ESCAPE.sub(r"\1", value) for name, value in pairs},
        {name: float(value) for name, _, value in (field.partition("=") for field in fields.split(","))},
        int(at),
    )


def test_a_point_has_measurement_tags_fields_and_whole_seconds():
    written = points.line("usage", {"node": "n1", "kind": "pod"}, {"cpu_cores": 0.5, "memory": 3}, 1700000000)
    assert written == "usage,node=n1,kind=pod cpu_cores=0.5,memory=3.0 1700000000"


def test_a_whole_number_is_written_as_a_float_so_that_the_type_of_a_field_never_changes():
    assert points.line("m", {}, {"f": 1 << 40}, 1) == "m f=1099511627776.0 1"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_no_field(value):
    assert points.line("m", {}, {"a": value, "b": 2.0}, 1) == "m b=2.0 1"
    assert points.line("m", {}, {"a": value}, 1) is None


def test_a_tag_without_a_value_is_left_out():
    assert points.line("m", {"a": "", "b": "x"}, {"f": 1.0}, 1) == "m,b=x f=1.0 1"


def test_a_backslash_at_the_end_does_not_swallow_what_follows():
    assert points.line("m", {"a": "x\\"}, {"f": 1.0}, 1) == "m,a=x f=1.0 1"


def test_no_name_makes_a_second_line():
    assert "\n" not in points.line("m\nx", {"a": "x\ny"}, {"f": 1.0}, 1)


@given(NAMES, NAMES, st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 1 << 33))
def test_any_name_and_number_is_read_back_as_written(measurement, tag, number, at):
    written = points.line(measurement, {"tag": tag}, {"f": number}, at)
    if "=" in measurement:  # not escaped in a measurement, and not split there either
        measurement = measurement.replace("\\=", "=")
    assert parsed(written) == (measurement, {"tag": tag}, {"f": number}, at)
