"""The annotation `koordinator.sh/mid-quota`: what it may hold, and what makes it malformed as a whole."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from api_types.kubernetes import quantities
from api_types.mid_pods import quota
from api_types.mid_pods.quota import MidQuota

DEFAULT = MidQuota(7_000, 7 << 30)


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
    assert quota.is_admissible(text)


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


AMOUNTS = st.one_of(
    st.integers(min_value=0, max_value=10**15 - 1),
    st.integers(min_value=0, max_value=10**6).map(str),
    st.sampled_from(["1.5Gi", "20", "500m", "64Ki", ".5", "1.", "..", "1.2.3", "1e3", "+1", "-0", "99Ei", "1Zi"]),
)


@given(st.dictionaries(st.sampled_from(["cpu", "memory", "disk"]), AMOUNTS))
@example({"cpu": "1.2.3"})
@example({"memory": "..Gi"})
def test_what_the_admission_policy_admits_is_read_except_for_amounts_that_are_too_large(document):
    text = json.dumps(document)
    if not quota.is_admissible(text):
        return
    try:
        quota.read(text, DEFAULT)
    except quota.MalformedQuota:
        if any(quantities.resource_units(name, amount) > quantities.MOST for name, amount in document.items()):
            return
        raise
