from hypothesis import given
from hypothesis import strategies as st

from api_types.mid_pods.cpu_limits import MidContainer
from koordlet.mid_suppression import shares


@st.composite
def containers(draw):
    mid = draw(st.integers(1, 100_000))
    original = draw(st.integers(1, mid))
    floor, requested = min(draw(st.sampled_from([10, 101])), original), draw(st.integers(0, mid))
    return MidContainer("c0", "x", mid, floor, original, original, requested)


def allowed(prod=3.0, system=0.5, reserved=1.0, threshold=65, capacity=10_000):
    return shares.allowed_millis(capacity, threshold, prod_cores=prod, system_cores=system, reserved_cores=reserved)


def test_what_mid_may_use_is_what_prod_and_the_larger_of_system_and_reserve_leave_below_the_threshold():
    assert allowed() == 2500
    assert allowed(system=2.0) == 1500
    assert allowed(prod=9.0) == 0


def test_every_container_gets_the_same_share_of_its_mid_cpu():
    some = [MidContainer("c0", "x", mid, 10, mid, mid, mid) for mid in (1000, 2000, 500)]
    assert shares.limits_millis(1750, some) == [500, 1000, 250]
    assert shares.limits_millis(3500, some) == [1000, 2000, 500]


def test_what_a_stricter_limit_leaves_goes_to_the_others():
    some = [MidContainer("c0", "x", 1000, 10, own, own, 1000) for own in (100, 1000)]
    assert shares.limits_millis(900, some) == [100, 800]


@given(st.integers(0, 300_000), st.lists(containers(), max_size=60))
def test_limits_are_within_bounds_and_within_what_is_allowed(millis, some):
    limits = shares.limits_millis(millis, some)
    assert all(each.floor_millis <= limit <= each.original_millis for each, limit in zip(some, limits, strict=True))
    assert sum(limits) <= max(millis, sum(each.floor_millis for each in some))
    if some and sum(limits) < sum(each.original_millis for each in some):
        assert millis - sum(limits) < len(some)


def test_a_huge_limit_of_mid_cpu_takes_nothing_from_the_others():
    honest = [MidContainer("c0", "x", 2000, 10, 2000, 2000, 2000)] * 2
    huge = MidContainer("c0", "x", 10**9, 10, 10**9, 10**9, 1)
    assert shares.limits_millis(3000, [*honest, huge]) == [1495, 1495, 10]
    assert shares.limits_millis(6000, [*honest, huge]) == [2000, 2000, 2000]


def test_what_is_left_above_all_requests_goes_to_limits_above_them():
    some = [MidContainer("c0", "x", limit, 10, limit, limit, 1000) for limit in (1000, 4000)]
    assert shares.limits_millis(1000, some) == [500, 500]
    assert shares.limits_millis(3000, some) == [1000, 2000]


def test_without_requests_all_get_the_same():
    some = [MidContainer("c0", "x", 1000, 10, own, own, 0) for own in (50, 1000, 1000)]
    assert shares.limits_millis(450, some) == [50, 200, 200]


@given(st.integers(0, 300_000), st.integers(0, 300_000), st.lists(containers(), max_size=20))
def test_more_for_mid_lowers_no_limit(one, other, some):
    less, more = (shares.limits_millis(millis, some) for millis in sorted((one, other)))
    assert all(a <= b for a, b in zip(less, more, strict=True))
