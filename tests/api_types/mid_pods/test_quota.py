"""The annotation `koordinator.sh/mid-quota`: what it may hold, and what makes it malformed as a whole."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_types.mid_pods import quota
from api_types.mid_pods.quota import MidQuota

DEFAULT = MidQuota(7_000, 7 << 30)
FRACTION = "([.][0-9]{0,20})?"
MOST_DIGITS = (
    ("[0-9]{1,15}", "m?"),
    ("[0-9]{1,12}", "(k|Ki)"),
    ("[0-9]{1,9}", "Mi?"),
    ("[0-9]{1,6}", "Gi?"),
    ("[0-9]{1,3}", "Ti?"),
    ("[0-7]", "Pi?"),
)
"""Digits before the point, by suffix: the amount in milli-cores or bytes is below 2^63."""
TEXT = "|".join([*(digits + FRACTION + suffix for digits, suffix in MOST_DIGITS), "[.][0-9]{1,20}([mkMGTP]|[KMGTP]i)?"])
AMOUNT = f'("({TEXT})"|(0|[1-9][0-9]{{0,14}}))'
SPACE = r"[ \t\n\r]*"
"""White space of JSON: the class of a regular expression has more, and other in Python than in the API server."""
PAIRS = tuple(f'"{name}"{SPACE}:{SPACE}{AMOUNT}' for name in ("cpu", "memory"))
THEN = f"{SPACE},{SPACE}"
PATTERN = rf"^{SPACE}\{{{SPACE}({PAIRS[0]}({THEN}{PAIRS[1]})?|{PAIRS[1]}({THEN}{PAIRS[0]})?)?{SPACE}\}}{SPACE}$"
"""What the policy of the chart admits: a part of what `read` accepts, without signs, exponents, exa, repeated keys."""


def is_admissible(text):
    return len(text) <= quota.MOST_CHARACTERS and re.match(PATTERN, text) is not None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"cpu": "20", "memory": "64Gi"}', (20_000, 64 << 30)),
        (' {"memory":"1.5Gi" , "cpu":"1500m"} ', (1_500, 3 << 29)),
        ('{"cpu": 20, "memory": 1024}', (20_000, 1024)),
        ('{"cpu": "0"}', (0, 7 << 30)),
        ('{"memory": "0"}', (7_000, 0)),
        ("{}", (7_000, 7 << 30)),
    ],
)
def test_reads_cores_and_bytes_and_completes_them_from_the_default(text, wanted):
    assert quota.read(text, DEFAULT) == wanted
    assert is_admissible(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "20",
        "null",
        "[]",
        '{"cpu": "20"',
        '{"cpu": NaN}',
        '{"cpu": "NaN"}',
        '{"cpu": Infinity}',
        '{"cpu": "-1"}',
        '{"cpu": -1}',
        '{"cpu": "1e999"}',
        '{"cpu": "9223372036854775808"}',
        '{"cpu": true}',
        '{"cpu": null}',
        '{"cpu": ["1"]}',
        '{"cpu": "20", "memroy": "1Gi"}',
        '{"cpu": "' + "1" * 300 + '"}',
        "[" * 100_000,
        '{"cpu": "20 cores"}',
        '{"cpu": "\udfff"}',
    ],
)
def test_anything_else_is_malformed_as_a_whole(text):
    with pytest.raises(quota.MalformedQuota):
        quota.read(text, DEFAULT)


@pytest.mark.parametrize(
    "text",
    [
        '{"cpu": 007}',
        '{"memory": 00}',
        "\f{}",
        "\v{}",
        "{}\u00a0",
        "{\u2028}",
        '{"cpu": "99999999999999999999E"}',
        '{"cpu": "1E"}',
        '{"cpu": "8P"}',
        '{"memory": "99999999999999999999"}',
        '{"memory": "8Ei"}',
        '{"memory": "7.99999999999999999999Ei"}',
        '{"cpu": "1.2.3"}',
        '{"memory": "..Gi"}',
        '{"cpu": "1e3"}',
        '{"cpu": "1", "cpu": "2"}',
    ],
)
def test_the_admission_policy_refuses(text):
    assert not is_admissible(text)


@pytest.mark.parametrize(
    "text",
    [
        '\t{ "cpu"\t:\r\n"1" }\n',
        '{"cpu": "999999999999.5k", "memory": "999999999999Ki"}',
        '{"cpu": "7.5P", "memory": "7.5Pi"}',
        '{"cpu": "100000", "memory": "67108864Ki"}',
        '{"cpu": "07", "memory": ".5Gi"}',
        '{"memory": "999Ti"}',
        '{"memory": 999999999999999}',
    ],
)
def test_the_admission_policy_admits_what_a_namespace_may_need(text):
    assert is_admissible(text)
    quota.read(text, DEFAULT)


AMOUNTS = st.one_of(
    st.from_regex(r"[0-9]{0,21}([.][0-9]{0,21})?([numkMGTPE]|[KMGTPE]i)?", fullmatch=True).map(json.dumps),
    st.from_regex(r"-?[0-9]{1,20}([.][0-9]+)?([eE][0-9]{1,3})?", fullmatch=True),
)
SPACES = st.text(" \t\n\r\f\v\u00a0\u2028", max_size=3)


@given(st.from_regex(PATTERN, fullmatch=True))
@settings(max_examples=500)
def test_what_the_admission_policy_admits_is_never_malformed(text):
    if is_admissible(text):
        quota.read(text, DEFAULT)


@given(
    st.lists(st.tuples(st.sampled_from(["cpu", "memory", "disk"]), AMOUNTS), max_size=3), st.lists(SPACES, min_size=4)
)
@settings(max_examples=500)
def test_a_text_of_any_amounts_and_spaces_that_the_admission_policy_admits_is_never_malformed(pairs, spaces):
    first, second, third, last = spaces[:4]
    body = f"{second},".join(f'"{name}"{third}:{first}{amount}' for name, amount in pairs)
    text = f"{first}{{{second}{body}{third}}}{last}"
    if is_admissible(text):
        quota.read(text, DEFAULT)


def test_nothing_permits_no_milli_core_and_no_byte_and_unlimited_has_no_limit():
    assert quota.NOTHING == quota.read('{"cpu": "0", "memory": "0"}', DEFAULT) == (0, 0)
    assert quota.UNLIMITED == quota.from_document({}) == (None, None)
