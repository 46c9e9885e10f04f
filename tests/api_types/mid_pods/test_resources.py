"""Limits of one container: tables first, then properties against a model in exact decimals."""

import copy

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from api_types.kubernetes import quantities
from api_types.mid_pods import resources
from api_types.mid_pods.resources import RulesRefused

CPU, MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"


def limited(requests=None, limits=None, **more):
    given = {**({} if requests is None else {"requests": requests}), **({} if limits is None else {"limits": limits})}
    return resources.limited({**given, **more}, "spec.containers[0]")


def both(requests, limits):
    return {"requests": requests, "limits": limits}


def test_mid_resources_get_native_limits_of_the_same_amounts_and_zero_requests():
    mid = {CPU: "500", MEMORY: "64Mi"}
    assert limited(mid, mid) == both({"cpu": "0", "memory": "0", **mid}, {"cpu": "500m", "memory": "64Mi", **mid})


def test_plain_cpu_and_memory_become_mid_resources():
    plain = {"cpu": "1.5", "memory": "2Gi"}
    mid = {CPU: "1500", MEMORY: "2Gi"}
    assert limited(plain, plain) == both({"cpu": "0", "memory": "0", **mid}, {**plain, **mid})


def test_a_missing_one_is_the_other():
    assert limited({"cpu": "250m"}) == both({"cpu": "0", CPU: "250"}, {"cpu": "250m", CPU: "250"})
    assert limited(None, {"cpu": "250m"}) == both({"cpu": "0", CPU: "250"}, {"cpu": "250m", CPU: "250"})
    assert limited({CPU: "250"}) == both({"cpu": "0", CPU: "250"}, {"cpu": "250m", CPU: "250"})


def test_a_stricter_native_limit_of_the_author_is_kept_and_a_looser_one_is_not():
    assert limited({CPU: "500"}, {CPU: "500", "cpu": "0.2"})["limits"]["cpu"] == "0.2"
    assert limited({CPU: "500"}, {CPU: "500", "cpu": "2"})["limits"]["cpu"] == "500m"


def test_stated_mid_resources_never_change_even_beside_native_requests():
    """Koordinator's webhook overwrites them; with zero native requests that would take everything from the pod."""
    once = limited({"cpu": "2", CPU: "500"}, {CPU: "500"})
    assert once == both({"cpu": "0", CPU: "500"}, {"cpu": "500m", CPU: "500"})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"requests": {"cpu": "0"}},
        {"limits": {CPU: "0"}},
        {"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 1}},
        {"claims": [{"name": "gpu"}]},
    ],
)
def test_a_container_that_states_no_amount_keeps_its_values(given):
    assert limited(**given) == given


def test_other_resources_and_fields_stay():
    given = {"ephemeral-storage": "1Gi", "cpu": "1"}
    made = limited(dict(given), dict(given), claims=[{"name": "x"}])
    assert made["claims"] == [{"name": "x"}]
    assert made["requests"]["ephemeral-storage"] == made["limits"]["ephemeral-storage"] == "1Gi"


@pytest.mark.parametrize(
    ("native", "mid"),
    [
        ("1.5", "1500"),
        ("100m", "100"),
        ("0.0001", "1"),
        ("2k", "2000000"),
        ("1e1", "10000"),
        (2, "2000"),
        (0.25, "250"),
    ],
)
def test_cpu_is_counted_in_whole_milli_cores_rounded_up(native, mid):
    assert limited(None, {"cpu": native})["limits"][CPU] == mid


@pytest.mark.parametrize(
    ("native", "mid"), [("1Gi", "1Gi"), ("0.1Gi", "107374183"), ("1500m", "2"), ("1e3", "1e3"), (4096, 4096)]
)
def test_memory_keeps_its_text_or_is_rounded_up_to_bytes(native, mid):
    assert limited(None, {"memory": native})["limits"][MEMORY] == mid


@pytest.mark.parametrize(
    ("requests", "limits", "text"),
    [
        ({CPU: "0.5"}, {}, "is not a whole number"),
        ({CPU: "500m"}, {}, "is not a whole number"),
        ({"cpu": "many"}, {}, "is not a quantity"),
        ({"cpu": True}, {}, "is not a quantity"),
        ({"cpu": "-1"}, {}, "is negative"),
        ({}, {"memory": "1e99"}, "more than Kubernetes counts"),
        ({CPU: "600"}, {CPU: "500"}, "is above its limit"),
        ({"cpu": "2"}, {"cpu": "1"}, "is above its limit"),
        ([], {}, "want a mapping"),
        ({1: "1"}, {}, "want a mapping"),
    ],
)
def test_what_cannot_be_is_refused_with_place_and_fix(requests, limits, text):
    with pytest.raises(RulesRefused, match=text) as refused:
        limited(requests, limits)
    assert str(refused.value).startswith("spec.containers[0].resources")
    assert "want" in str(refused.value) or "counted in" in str(refused.value)


NUMBERS = st.one_of(
    st.integers(0, 2**40).map(str),
    st.integers(0, 10**6),
    st.decimals(0, 10**6, places=4, allow_nan=False).map(str),
    st.tuples(st.integers(0, 9999), st.sampled_from(["m", "k", "Ki", "Mi", "Gi", "u", "n", "e2", "E-1"])).map(
        lambda pair: f"{pair[0]}{pair[1]}"
    ),
)
WHOLE = st.one_of(st.integers(0, 10**7).map(str), st.sampled_from(["2k", "1Ki", "0", "1e3", "64Mi"]))


def amounts():
    return st.fixed_dictionaries(
        {}, optional={"cpu": NUMBERS, "memory": NUMBERS, CPU: WHOLE, MEMORY: WHOLE, "gpu": NUMBERS}
    )


GIVEN = st.fixed_dictionaries({}, optional={"requests": amounts(), "limits": amounts(), "claims": st.just([])})


def value(amounts, name):
    """Return the exact amount in cores, bytes or Mid units; None where it is absent."""
    return quantities.parse(amounts[name]) if name in amounts else None


def unlimited(amount):
    return not amount


@given(GIVEN)
@example({"limits": {"cpu": "0.1n"}})
@example({"requests": {"memory": "0"}, "limits": {"memory": "1"}})
def test_the_rules_are_idempotent_never_looser_and_exact(given):
    before = copy.deepcopy(given)
    try:
        after = resources.limited(given, "c")
    except RulesRefused:
        return
    assert given == before
    assert resources.limited(after, "c") == after
    for native, mid, in_one in (("cpu", CPU, 1000), ("memory", MEMORY, 1)):
        old_requests, old_limits = given.get("requests", {}), given.get("limits", {})
        requests, limits = after.get("requests", {}), after.get("limits", {})
        old, new = value(old_limits, native), value(limits, native)
        if not unlimited(old):
            assert 0 < new <= old
        if mid in old_requests or mid in old_limits:
            for where, old_where in ((requests, old_requests), (limits, old_limits)):
                assert mid not in old_where or where[mid] == old_where[mid]
        if unlimited(value(limits, mid)):
            assert (requests.get(native), limits.get(native)) == (old_requests.get(native), old_limits.get(native))
            continue
        assert value(requests, native) == 0
        assert 0 < new * in_one <= value(limits, mid)
        assert value(requests, mid) <= value(limits, mid)
        assert value(limits, mid) == int(value(limits, mid))
        source = old_limits.get(native, old_requests.get(native))
        if mid not in old_requests and mid not in old_limits:
            exact = quantities.parse(source) * in_one
            assert exact <= value(limits, mid) < exact + 1
    assert after.get("limits", {}).get("gpu") == given.get("limits", {}).get("gpu")


@pytest.mark.parametrize(
    ("requests", "limits", "wanted"),
    [
        ({"cpu": "250m", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"},
         ({CPU: "250", MEMORY: "1Gi"}, {CPU: "2000", MEMORY: "1Gi"})),
        ({CPU: "500", "cpu": "0"}, {CPU: "500", "cpu": "500m"}, ({CPU: "500"}, {CPU: "500"})),
        ({CPU: "500"}, {CPU: "500", "cpu": "100m"}, ({CPU: "500"}, {CPU: "500"})),
        ({"cpu": "0"}, {"memory": "64Mi"}, ({"cpu": "0", MEMORY: "64Mi"}, {MEMORY: "64Mi"})),
        ({"ephemeral-storage": "1Gi"}, None, ({"ephemeral-storage": "1Gi"}, None)),
    ],
)  # fmt: skip
def test_without_native_limits_only_mid_resources_are_left_and_again_changes_nothing(requests, limits, wanted):
    given = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    made = resources.limited(given, "c", native_limits=False)
    assert (made.get("requests"), made.get("limits")) == wanted
    assert resources.limited(made, "c", native_limits=False) == made


@pytest.mark.parametrize(("memory", "is_limited"), [(2**63 - 1, True), (2**63, False)])
def test_a_limit_is_at_most_what_kubernetes_counts(memory, is_limited):
    given = {"limits": {"memory": str(memory)}}
    if is_limited:
        assert resources.limited(given, "c")["limits"]["kubernetes.io/mid-memory"] == str(memory)
    else:
        with pytest.raises(RulesRefused, match="more than Kubernetes counts"):
            resources.limited(given, "c")
