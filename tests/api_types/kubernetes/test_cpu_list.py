import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.kubernetes import cpu_list


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8", {0, 1, 2, 3, 8}), ("5\n", {5}), ("\n", set()), ("", set()), (" 0, 2,4-5 ", {0, 2, 4, 5})],
)
def test_parses_numbers_and_ranges(text, cpus):
    assert cpu_list.parse(text) == cpus


@given(st.sets(st.integers(0, 500), max_size=40))
def test_parses_any_list_back_to_its_set(cpus):
    assert cpu_list.parse(",".join(map(str, cpus))) == cpus


@pytest.mark.parametrize("text", ["0-", "-1", "all", "0-x", "1..3", "0,,1", "0-999999999999", "0x1", "\u0663", "4-2"])
def test_rejects_and_quotes_a_malformed_list(text):
    with pytest.raises(ValueError, match=r"not a list of CPUs, want one like 0-3,8|ends before it begins") as refused:
        cpu_list.parse(text)
    assert repr(text) in str(refused.value)
