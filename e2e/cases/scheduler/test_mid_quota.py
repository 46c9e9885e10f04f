"""A namespace is held to its quota of Mid resources by the real kube-scheduler and the extender, also in a burst."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from e2e.support import chart_rendering, lone_scheduler
from e2e.support.lone_scheduler import PLUGIN, LoneScheduler
from tools.localcluster.apiserver_requests import MERGE_PATCH, RequestError

ANNOTATION = "koordinator.sh/mid-quota"
NAMESPACES = "/api/v1/namespaces"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
DRY_RUN = "?dryRun=All"
NODES_OF_CASES, NODE_CORES = 6, 16

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]


@pytest.fixture(scope="module")
def lone() -> Iterator[LoneScheduler]:
    with lone_scheduler.running() as lone:
        for index in range(NODES_OF_CASES):
            lone.add_node(f"n{index}")
            lone.state_mid(f"n{index}", cores=NODE_CORES, memory="256Gi")
        lone.start()
        yield lone


def add_namespace(lone: LoneScheduler, name: str, quota: str | None = None) -> None:
    annotations = {} if quota is None else {ANNOTATION: quota}
    lone.api.send("POST", NAMESPACES, {"metadata": {"name": name, "annotations": annotations}})


def annotate(lone: LoneScheduler, namespace: str, quota: str | None) -> None:
    body = {"metadata": {"annotations": {ANNOTATION: quota}}}
    lone.api.send("PATCH", f"{NAMESPACES}/{namespace}", body, content=MERGE_PATCH)


def create_pods(lone: LoneScheduler, namespace: str, count: int, cores: int = 1, prefix: str = "p") -> None:
    for index in range(count):
        body = lone_scheduler.mid_pod(f"{prefix}{index}", cores=cores)
        lone.api.send("POST", f"{NAMESPACES}/{namespace}/pods", body)


def pods(lone: LoneScheduler, namespace: str) -> list[Mapping[str, Any]]:
    return lone.api.send("GET", f"{NAMESPACES}/{namespace}/pods")["items"]


def held(lone: LoneScheduler, namespace: str) -> int:
    """Return the number of bound pods."""
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods(lone, namespace))


def refusals(lone: LoneScheduler, namespace: str) -> list[str]:
    """Return the text of each pod that kube-scheduler found no node for."""
    return [
        condition["message"]
        for pod in pods(lone, namespace)
        for condition in pod["status"].get("conditions", ())
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    ]


def until_all_decided(lone: LoneScheduler, namespace: str) -> None:
    """Wait until each pod is bound or was refused."""
    lone.until(
        f"each pod of {namespace} is bound or refused",
        lambda: held(lone, namespace) + len(refusals(lone, namespace)) >= len(pods(lone, namespace)),
    )


# First, while no other pod waits: kube-scheduler places waiting pods without the extender while that is away.
def test_a_malformed_annotation_permits_nothing_new_and_a_restarted_extender_knows_what_is_held(
    lone: LoneScheduler,
) -> None:
    add_namespace(lone, "typo", '{"cpu": "2 cores"}')
    add_namespace(lone, "other", '{"cpu": "3"}')
    create_pods(lone, "other", 2)
    create_pods(lone, "typo", 1)
    until_all_decided(lone, "typo")
    lone.until("the other namespace is served", lambda: held(lone, "other") == 2)
    assert held(lone, "typo") == 0
    assert "annotation koordinator.sh/mid-quota of namespace typo is malformed" in refusals(lone, "typo")[0]
    assert lone.plugin_metric("malformed_mid_quotas") == 1
    lone.plane.stop(PLUGIN)
    lone.start_plugin()
    create_pods(lone, "other", 2, prefix="later")
    lone.until("one more is bound", lambda: held(lone, "other") == 3)
    until_all_decided(lone, "other")
    assert held(lone, "other") == 3
    annotate(lone, "typo", '{"cpu": "2"}')
    lone.until("the corrected annotation counts", lambda: held(lone, "typo") == 1)


def test_a_greedy_namespace_is_held_to_its_quota_and_gets_more_when_it_rises_or_pods_end(lone: LoneScheduler) -> None:
    add_namespace(lone, "greedy", '{"cpu": "20"}')
    create_pods(lone, "greedy", 40)
    until_all_decided(lone, "greedy")
    assert held(lone, "greedy") == 20
    assert all("namespace greedy holds 20 of 20 cores of Mid" in text for text in refusals(lone, "greedy"))
    attempts = lone.attempts()
    annotate(lone, "greedy", '{"cpu": "24"}')
    lone.until("four more are bound", lambda: held(lone, "greedy") == 24)
    assert lone.attempts() - attempts == 4
    for name in [pod["metadata"]["name"] for pod in pods(lone, "greedy") if pod["spec"].get("nodeName")][:3]:
        lone.api.send("DELETE", f"{NAMESPACES}/greedy/pods/{name}")
    lone.until("three others took their place", lambda: held(lone, "greedy") == 24 and len(pods(lone, "greedy")) == 37)
    assert lone.plugin_metric("namespace_mid_held_cpu_cores", namespace="greedy") == 24
    assert lone.plugin_metric("namespace_mid_quota_cpu_cores", namespace="greedy") == 24


def test_two_namespaces_that_want_more_than_there_is_get_what_their_quotas_permit(lone: LoneScheduler) -> None:
    there_is = NODES_OF_CASES * NODE_CORES
    add_namespace(lone, "large", '{"cpu": "40"}')
    add_namespace(lone, "small", '{"cpu": "10", "memory": "8Gi"}')
    create_pods(lone, "large", there_is)
    create_pods(lone, "small", there_is)
    until_all_decided(lone, "large")
    until_all_decided(lone, "small")
    assert (held(lone, "large"), held(lone, "small")) == (40, 8)
    assert any("namespace small holds 8 of 8 GiB of Mid memory" in text for text in refusals(lone, "small"))


@contextlib.contextmanager
def policy(lone: LoneScheduler, **who: list[str]) -> Iterator[None]:
    values = {"admissionPolicies": {"maySetMidQuota": {"users": [], "groups": [], **who}}}
    rules, binding = chart_rendering.rendered(lone.plane.binaries, values, "mid-quota-admission-policy")
    bindings = POLICIES.replace("policies", "policybindings")
    lone.api.send("POST", POLICIES, rules)
    lone.api.send("POST", bindings, binding)
    lone.until("the policy is in force", lambda: refused(lone, "default", "x", DRY_RUN))
    try:
        yield
    finally:
        for path, document in ((bindings, binding), (POLICIES, rules)):
            lone.api.send("DELETE", f"{path}/{document['metadata']['name']}")
    lone.until("the policy is gone", lambda: not refused(lone, "default", "x", DRY_RUN))


def refused(lone: LoneScheduler, namespace: str, quota: str | None, path: str = "") -> str:
    """Return why the annotation is refused; "" where it is admitted."""
    body = {"metadata": {"annotations": {ANNOTATION: quota}}}
    try:
        lone.api.send("PATCH", f"{NAMESPACES}/{namespace}{path}", body, content=MERGE_PATCH)
    except RequestError as error:
        return str(error)
    return ""


def test_the_policy_refuses_malformed_values_in_each_way_to_write_them(lone: LoneScheduler) -> None:
    add_namespace(lone, "checked")
    with policy(lone):
        for malformed in ("", "-", "{", '{"cpu": "-1"}', '{"cpu": "NaN"}', '{"gpu": "1"}', '{"cpu": "1", "cpu": "9"}'):
            assert "annotation koordinator.sh/mid-quota: want" in refused(lone, "checked", malformed), malformed
            assert refused(lone, "checked", malformed, "/status"), malformed
        for admitted in ('{"cpu": "20", "memory": "64Gi"}', '{ "memory" : 1024 , "cpu" : 2 }', "{}", None):
            assert refused(lone, "checked", admitted) == ""
        with pytest.raises(RequestError):
            add_namespace(lone, "created-so", "x")


def test_the_policy_lets_only_listed_users_change_it_or_remove_it(lone: LoneScheduler) -> None:
    add_namespace(lone, "tenant", '{"cpu": "1"}')
    with policy(lone, users=["platform"]):
        for attempt in ('{"cpu": "2"}', None):
            for path in ("", "/status"):
                assert "may not change the annotation" in refused(lone, "tenant", attempt, path)
        other = {"metadata": {"labels": {"team": "a"}}}
        lone.api.send("PATCH", f"{NAMESPACES}/tenant", other, content=MERGE_PATCH)
    found = lone.api.send("GET", f"{NAMESPACES}/tenant")["metadata"]
    assert json.loads(found["annotations"][ANNOTATION]) == {"cpu": "1"}
