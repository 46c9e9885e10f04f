from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.kubernetes import quantities


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("4", 4000),
        ("500m", 500),
        ("1.5", 1500),
        ("100u", 1),
        ("0", 0),
        ("1e3", 1_000_000),
        ("12k", 12_000_000),
        ("1e0003", 1_000_000),
        ("1".zfill(2**18), 1000),
        (2, 2000),
    ],
)
def test_cpu_is_counted_in_millis_rounded_up(text, millis):
    assert quantities.cpu_millis(text) == millis


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1Gi", 1 << 30),
        ("0.1Gi", 107374183),
        ("1500M", 1_500_000_000),
        ("128974848000m", 128974848),
        ("1E", 10**18),
        ("1Ei", 1 << 60),
        ("2E3", 2000),
        (".5k", 500),
    ],
)
def test_bytes_are_whole_and_rounded_up(text, count):
    assert quantities.resource_units("memory", text) == count


@pytest.mark.parametrize(
    "text", ["", "1 Gi", "Pi", "1ki", "1KB", "--1", "1e", "1e-", "NaN", "inf", "0x10", "\uff11", True, None, [1]]
)
def test_rejects_and_quotes_a_malformed_quantity(text):
    with pytest.raises(quantities.InvalidQuantity, match="is not a quantity"):
        quantities.parse(text)


def test_rejects_a_float_that_is_not_finite():
    with pytest.raises(quantities.InvalidQuantity, match="finite"):
        quantities.parse(float("nan"))


@given(st.integers(-(10**12), 10**12))
def test_formatted_cpu_reads_back_the_same(millis):
    assert quantities.cpu_millis(quantities.format_cpu_millis(millis)) == millis


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=6))
def test_rounding_never_moves_towards_zero(value):
    rounded = quantities.round_up(value)
    assert abs(rounded) >= abs(value)
    assert abs(rounded) - abs(value) < 1


def test_cores_are_written_without_a_suffix():
    assert [quantities.format_cpu_millis(each) for each in (1450, 2000, 0)] == ["1450m", "2", "0"]
    assert quantities.parse("1.50") == Decimal("1.5")


@pytest.mark.parametrize(
    "text",
    ["1" * 2**18, "1e30", "1e999999999", "-9223372036854775809", "18446744073709551616", 10**400],
    ids=["digits", "1e30", "1e999999999", "negative", "2^64", "number"],
)
def test_an_amount_that_is_more_than_kubernetes_counts_is_refused_at_once(text):
    with pytest.raises(quantities.InvalidQuantity, match=r"seen .*, want -?9223372036854775807 or ") as raised:
        quantities.resource_units("memory", text)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(("text", "count"), [("1e-999999999", 1), ("0e999999999", 0), ("9Ei", 2**63 - 1), ("-.", 0)])
def test_a_value_of_any_exponent_is_read_as_kubernetes_counts_it(text, count):
    assert quantities.resource_units("memory", text) == count


@pytest.mark.parametrize(
    ("resource", "text"), [("cpu", "1500m"), ("memory", "1500"), ("kubernetes.io/mid-cpu", "1500")]
)
def test_an_amount_is_written_in_the_unit_of_its_resource(resource, text):
    assert quantities.format_units(resource, 1500) == text
    assert quantities.resource_units(resource, text) == 1500
