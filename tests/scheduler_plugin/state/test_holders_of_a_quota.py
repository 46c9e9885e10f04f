"""What holds a quota of Mid, from when and until when."""

import pytest

from api_types.mid_pods import quota
from scheduler_plugin.state.mid_quotas import EXPECTED_SECONDS, MidQuotas
from scheduler_plugin.state.pod_info import AssignedPod


def pod(name="a", mid=(1000, 5), *, uid=None, observed=False, namespace="shop"):
    return AssignedPod(uid or f"uid-{name}", f"{namespace}/{name}", False, None, *mid, 0.0, None, 0, observed)


def held(quotas, namespace="shop"):
    return tuple(quotas.use_of(namespace).held)


@pytest.mark.parametrize("mid", [(1000, 0), (0, 5), (1000, 5)])
def test_a_pod_with_either_resource_holds_it(mid):
    quotas = MidQuotas()
    quotas.expect(pod(mid=mid), 0.0)
    assert held(quotas) == mid
    quotas.end("uid-a")
    assert held(quotas) == (0, 0)
    quotas.assigned(pod(mid=mid))
    assert held(quotas) == mid
    assert quotas.holders_of("shop") == {"shop/a": mid}
    quotas.removed("shop/a")
    assert (held(quotas), quotas.holders_of("shop"), quotas.uses()) == ((0, 0), {}, {})


def test_a_pod_without_mid_requests_holds_nothing_and_frees_its_name():
    quotas = MidQuotas()
    quotas.expect(pod(mid=(0, 0)), 0.0)
    assert quotas.holders_of("shop") == {}
    quotas.assigned(pod())
    quotas.assigned(pod(mid=(0, 0)))
    assert quotas.holders_of("shop") == {}


def test_an_assumed_pod_counts_after_its_removal_while_it_is_expected_and_a_bound_one_does_not():
    quotas = MidQuotas()
    quotas.expect(pod(), 0.0)
    quotas.assigned(pod())
    quotas.removed("shop/a")
    assert held(quotas) == (1000, 5)
    quotas.assigned(pod(observed=True))
    quotas.removed("shop/a")
    assert held(quotas) == (0, 0)


def test_an_assigned_pod_counts_on_when_it_is_no_longer_expected():
    quotas = MidQuotas()
    quotas.expect(pod(), 0.0)
    quotas.assigned(pod())
    quotas.end("uid-a")
    assert held(quotas) == (1000, 5)
    quotas.end("uid-a")
    assert held(quotas) == (1000, 5)


def test_another_pod_of_the_name_takes_the_place_of_the_one_before():
    quotas = MidQuotas()
    quotas.expect(pod(uid="first"), 0.0)
    quotas.expect(pod(mid=(300, 2), uid="second"), 1.0)
    assert held(quotas) == (300, 2)
    quotas.end("first")
    quotas.attempt_ended("first", 10.0)
    assert held(quotas) == (300, 2)
    quotas.end("second")
    assert held(quotas) == (0, 0)


def test_the_same_pod_with_other_requests_holds_the_new_ones():
    quotas = MidQuotas()
    quotas.assigned(pod())
    quotas.assigned(pod(mid=(300, 2)))
    quotas.assigned(pod("b", (10, 1)))
    assert held(quotas) == (310, 3)


def test_an_expectation_ends_at_its_last_second():
    quotas = MidQuotas()
    quotas.expect(pod("a", (1, 0)), 0.0)
    quotas.expect(pod("b", (10, 0)), 0.0)
    quotas.expect(pod("c", (100, 0)), 5.0)
    quotas.expire(EXPECTED_SECONDS - 0.5)
    assert held(quotas) == (111, 0)
    quotas.expire(EXPECTED_SECONDS)
    assert held(quotas) == (100, 0)
    quotas.expire(EXPECTED_SECONDS + 5)
    assert held(quotas) == (0, 0)


def test_an_expectation_that_is_renewed_ends_after_those_before_it():
    quotas = MidQuotas()
    quotas.expect(pod("a", (1, 0)), 0.0)
    quotas.expect(pod("b", (10, 0)), 1.0)
    quotas.expect(pod("a", (1, 0)), 2.0)
    quotas.expire(EXPECTED_SECONDS + 1)
    assert held(quotas) == (1, 0)


@pytest.mark.parametrize(("seconds", "left"), [(0.2, (1000, 5)), (0.3, (0, 0))])
def test_a_failed_attempt_ends_the_expectation_unless_it_is_the_attempt_before(seconds, left):
    quotas = MidQuotas()
    quotas.expect(pod(), 100.0)
    quotas.attempt_ended("uid-a", 100.0 + seconds)
    quotas.attempt_ended("uid-unknown", 200.0)
    assert held(quotas) == left


def test_a_pod_is_limited_by_a_quota_of_its_namespace_or_the_default():
    quotas = MidQuotas()
    quotas.assigned(pod())
    assert not quotas.limits("shop/a")
    quotas.namespace_changed("shop", '{"cpu": "1"}')
    assert quotas.limits("shop/a")
    assert not quotas.limits("shop/b")
    assert not quotas.limits("lab/a")
    quotas.namespace_deleted("shop")
    quotas.default = quota.MidQuota(None, 7)
    assert quotas.limits("shop/a")


def test_a_malformed_quota_is_a_problem_once_until_it_is_corrected():
    quotas = MidQuotas()
    assert "{" in quotas.namespace_changed("shop", "{")
    assert quotas.namespace_changed("shop", "[") == ""
    assert quotas.namespace_changed("shop", '{"cpu": "1"}') == ""
    assert quotas.namespace_changed("shop", "{")


def test_namespaces_with_a_quota_or_with_holders_have_a_use():
    quotas = MidQuotas()
    quotas.namespace_changed("lab", '{"cpu": "1"}')
    quotas.assigned(pod())
    assert {name: tuple(use.held) for name, use in quotas.uses().items()} == {"lab": (0, 0), "shop": (1000, 5)}
    quotas.assigned(pod("b", namespace="lab"))
    quotas.keep_namespaces({"shop"})
    assert quotas.uses()["lab"] == ((1000, 5), quota.UNLIMITED, False)


def test_the_default_permits_anything_and_is_known_at_first():
    quotas = MidQuotas()
    assert quotas.is_known
    assert quotas.use_of("shop") == ((0, 0), (None, None), False)
