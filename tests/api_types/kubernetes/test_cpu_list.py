import contextlib
import itertools
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.kubernetes import cpu_list

PART = st.one_of(
    st.integers(0, 60).map(lambda cpu: (cpu, cpu)), st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted)
)


def members(text):
    return {cpu for each in cpu_list.ranges(text) for cpu in each}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8", {0, 1, 2, 3, 8}), ("5\n", {5}), ("\n", set()), ("", set()), (" 0, 2,4-5 ", {0, 2, 4, 5})],
)
def test_parses_numbers_and_ranges(text, cpus):
    assert members(text) == cpus
    assert cpu_list.count(text) == len(cpus)


@given(st.lists(PART, max_size=30))
def test_equals_the_set_of_all_numbers_whatever_overlaps(parts):
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
    wanted = {cpu for first, last in parts for cpu in range(first, last + 1)}
    found = cpu_list.ranges(text)
    assert members(text) == wanted
    assert cpu_list.count(text) == len(wanted)
    assert all(one.stop < next_one.start for one, next_one in itertools.pairwise(found)), "merged, in order"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        *((text, "want a list like 0-3,8") for text in ["0-", "-1", "all", "0-x", "1..3", "0x1", "\u0663", "1" * 6]),
        ("0,,1", "'' in a list of CPUs, want a list like 0-3,8"),
        ("0-999999999999", "'0-999999999999' in a list of CPUs, want a list"),
        ("4-2", "'4-2' in a list of CPUs ends before it begins"),
        ("0-3,0-8192", "'0-8192' in a list of CPUs, want numbers below 8192"),
        ("x" * 4096, re.escape(f"'{'x' * 40}' in a list")),
        ("0," * 2048 + "0", "has 4097 characters, want at most 4096"),
    ],
)
def test_rejects_and_names_what_is_malformed(text, fault):
    with pytest.raises(ValueError, match=fault) as refused:
        cpu_list.ranges(text)
    assert len(str(refused.value)) < 200


def bytecodes(work):
    """Return the number of instructions that `work` executes, which no busy machine changes.

    The least of three: a collection of garbage may run the finalizers of other tests meanwhile.
    """
    return min(_bytecodes(work) for _ in range(3))


def _bytecodes(work):
    executed = 0

    def trace(frame, event, _argument):
        nonlocal executed
        frame.f_trace_opcodes = True
        executed += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return executed


def test_the_work_grows_with_the_text_and_not_with_its_ranges():
    small, wide = ",".join(["0-1"] * 600), ",".join(["0-8191"] * 585)
    assert max(map(len, (small, wide))) <= cpu_list.MOST_CHARACTERS
    assert bytecodes(lambda: cpu_list.count(wide)) <= bytecodes(lambda: cpu_list.count(small))


def test_a_text_beyond_the_bound_is_refused_before_it_is_parsed():
    def refuse(text):
        with contextlib.suppress(ValueError):
            cpu_list.count(text)

    texts = [",".join(["0-99999"] * ranges) for ranges in (1_000, 32_768)]
    refuse(texts[0])  # the first call costs more
    assert bytecodes(lambda: refuse(texts[0])) == bytecodes(lambda: refuse(texts[1])) < 100
