"""Pods that filter expects in their namespace, and that the watch shows before their time is over."""

from scheduler_plugin.state.mid_quotas import EXPECTED_SECONDS, Amounts, MidQuotas
from scheduler_plugin.state.pod_info import AssignedPod, PodInfo

KEY = "shop/a"


def expected(uid="u1", key=KEY, cpu=1000, memory=100):
    return PodInfo(uid, key, False, False, None, cpu, memory)


def bound(uid="u1", key=KEY, *, observed, cpu=1000, memory=100):
    return AssignedPod(uid, key, False, None, cpu, memory, 0.0, None, 0, observed)


def held(quotas, namespace="shop"):
    return quotas.use_of(namespace).held


def test_a_pod_that_the_watch_has_shown_is_expected_no_longer():
    quotas = MidQuotas()
    quotas.expect(expected(), 0.0)
    quotas.assigned(bound(observed=True))
    quotas.removed(KEY)
    assert held(quotas) == Amounts(0, 0)
    quotas.end("u1")
    quotas.attempt_ended("u1", 10.0)
    quotas.expire(EXPECTED_SECONDS)
    assert quotas.uses() == {}


def test_an_assumed_pod_that_is_removed_holds_its_part_until_its_time_is_over():
    quotas = MidQuotas()
    quotas.expect(expected(), 0.0)
    quotas.assigned(bound(observed=False))
    quotas.removed(KEY)
    assert held(quotas) == Amounts(1000, 100)
    quotas.expire(EXPECTED_SECONDS - 0.001)
    assert held(quotas) == Amounts(1000, 100)
    quotas.expire(EXPECTED_SECONDS)
    assert held(quotas) == Amounts(0, 0)


def test_an_expected_pod_that_is_bound_meanwhile_holds_its_part_beyond_its_time():
    quotas = MidQuotas()
    quotas.expect(expected(), 0.0)
    quotas.assigned(bound(observed=False))
    quotas.expire(EXPECTED_SECONDS + 1)
    assert held(quotas) == Amounts(1000, 100)
    quotas.removed(KEY)
    assert held(quotas) == Amounts(0, 0)


def test_a_second_attempt_lasts_its_own_time_and_is_behind_those_before_it():
    quotas = MidQuotas()
    quotas.expect(expected(), 0.0)
    quotas.expect(expected("u2", "shop/b"), 1.0)
    quotas.expect(expected(), 2.0)
    quotas.expire(EXPECTED_SECONDS + 1.0)
    assert quotas.holders_of("shop") == {KEY: Amounts(1000, 100)}
    quotas.expire(EXPECTED_SECONDS + 2.0)
    assert quotas.holders_of("shop") == {}


def test_a_failure_that_arrives_at_once_belongs_to_the_attempt_before():
    quotas = MidQuotas()
    quotas.expect(expected(), 0.0)
    quotas.attempt_ended("u1", 0.25)
    assert held(quotas) == Amounts(1000, 100)
    quotas.attempt_ended("u1", 0.5)
    assert held(quotas) == Amounts(0, 0)


def test_a_pod_of_the_same_name_takes_the_place_of_the_last_one():
    quotas = MidQuotas()
    quotas.expect(expected(), 0.0)
    quotas.expect(expected("u2", cpu=3000, memory=300), 1.0)
    assert held(quotas) == Amounts(3000, 300)
    quotas.end("u1")
    assert held(quotas) == Amounts(3000, 300)
    quotas.end("u2")
    assert held(quotas) == Amounts(0, 0)


def test_a_pod_that_requests_one_resource_alone_holds_it_and_a_negative_request_holds_nothing():
    quotas = MidQuotas()
    quotas.expect(expected(cpu=0, memory=7), 0.0)
    quotas.assigned(bound("u2", "shop/b", observed=True, cpu=5, memory=0))
    quotas.assigned(bound("u3", "shop/c", observed=True, cpu=-5, memory=-7))
    quotas.expect(expected("u4", "shop/d", cpu=0, memory=0), 0.0)
    assert held(quotas) == Amounts(5, 7)
    assert set(quotas.holders_of("shop")) == {KEY, "shop/b", "shop/c"}


def test_a_pod_that_no_longer_requests_mid_holds_nothing():
    quotas = MidQuotas()
    quotas.assigned(bound(observed=True))
    quotas.assigned(bound(observed=True, cpu=0, memory=0))
    assert quotas.uses() == {}


def test_the_version_counts_changes_of_quotas_alone():
    quotas = MidQuotas()
    quotas.namespace_changed("shop", None)
    assert quotas.version == 0
    quotas.namespace_changed("shop", '{"cpu": "1"}')
    quotas.namespace_changed("shop", '{"cpu": "1"}')
    assert quotas.version == 1
    assert quotas.namespace_changed("shop", "{")
    assert quotas.namespace_changed("shop", "{") == ""
    assert quotas.version == 2
    quotas.keep_namespaces({"shop"})
    assert quotas.use_of("shop").is_malformed
    quotas.keep_namespaces(set())
    assert (quotas.version, quotas.uses()) == (3, {})


def test_only_a_pod_that_holds_something_of_a_quota_is_limited():
    quotas = MidQuotas()
    quotas.assigned(bound(observed=True))
    assert not quotas.limits(KEY)
    quotas.namespace_changed("shop", '{"cpu": "1"}')
    assert quotas.limits(KEY)
    assert not quotas.limits("shop/other")
    assert not quotas.limits("lab/a")
