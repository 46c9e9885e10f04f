"""The MutatingAdmissionPolicy on real API servers changes pods exactly as the rules do that `koordctl` applies.

Each example is created as its author wrote it where the policy is bound, and as the rules rewrite it where none is. All
cases run with v1beta1 of Kubernetes 1.34, and with v1 of 1.36 in the long run.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from api_types import names
from api_types.kubernetes import quantities
from api_types.mid_pods import policy, profile, template
from api_types.mid_pods.template import Admitted
from e2e.support import admission_agreement as agreement
from e2e.support import mid_pod_examples as examples
from e2e.support.admission_agreement import PLAIN, PolicyApi
from e2e.support.waiting import until
from tools.localcluster import apiserver_requests
from tools.localcluster.apiserver_requests import Connection, RequestError

SCHEDULER = "koord-scheduler"
LIMITED, MID_ONLY = "limited", "mid-only"
FAULTY, FAULTY_AND_FATAL = "faulty", "faulty-and-fatal"
INJECTING = REINVOKED, INVOKED_ONCE = ("reinvoked", "invoked-once")
OPTED = "opted"
INJECTED = ("one-more", "another")
"""Policies that add a container of their name, before or after the policy of the limits: their order is random."""
_GIVEN, _STATED = policy.limits_of_mid_pods("limits")[0]["spec"]["variables"]
_FAULT = {"variables": [{**_GIVEN, "expression": "[dyn(object.spec.containers[99])]"}, _STATED]}
LIMITING: Mapping[str, dict[str, Any]] = {
    LIMITED: {},
    MID_ONLY: {},
    FAULTY: _FAULT,
    FAULTY_AND_FATAL: {**_FAULT, "failurePolicy": "Fail"},
    REINVOKED: {},
    INVOKED_ONCE: {"reinvocationPolicy": "Never"},
    OPTED: {},
}
"""Namespaces with the policy of the limits, and what is different in it."""
PROFILES: Mapping[str, dict[str, Any]] = {
    "all-fields": {
        "selector": {"matchLabels": {"use": "mid"}},
        "labels": {"team": "a", "example.com/tier": "low"},
        "annotations": {"example.com/note": 'a "quoted" + {x}\n'},
        "priorityClassName": "koord-mid",
        "koordinatorPriority": 7100,
        "qosClass": "BE",
        "schedulerName": "volcano",
    },
    "only-labels": {"labels": {"team": "b"}},
    "by-expression": {
        "selector": {"matchExpressions": [{"key": "use", "operator": "In", "values": ["mid", "low"]}]},
        "priorityClassName": "koord-mid",
    },
    "to-prod": {"priorityClassName": "koord-prod"},
    "by-class-label": {"labels": {"koordinator.sh/priority-class": "koord-mid"}},
    "skipping": {"priorityClassName": "koord-mid", "labels": {"team": "c"}},
}

LIMITED_RESOURCES = {
    "requests": {"cpu": "0", "memory": "0", **examples.MID},
    "limits": {**examples.PLAIN, **examples.MID},
}


def _profile(name: str) -> profile.Profile:
    selected = {"namespaceSelector": {"matchLabels": {"rules": name}}}
    skip = {profile.SKIP_ANNOTATION: "true"} if name == "skipping" else {}
    return profile.read(
        {"metadata": {"name": name, "annotations": skip}, "spec": {**selected, "probability": 100, **PROFILES[name]}}
    )


@pytest.fixture(scope="module", params=agreement.policy_apis())
def api(request: pytest.FixtureRequest) -> Iterator[Connection]:
    """Start an API server with a policy for each namespace, and wait until they are in force."""
    served: PolicyApi = request.param
    with agreement.running([*LIMITING, *PROFILES], **served.flags) as (_, api):
        for each in _policies(served.version):
            plural = each["kind"].lower().removesuffix("y")  # of a policy; a binding has an s only
            plural = f"{plural}ies" if each["kind"].endswith("y") else f"{plural}s"
            api.send("POST", f"/apis/{policy.GROUP}/{served.version}/{plural}", each)
        for name in (LIMITED, MID_ONLY, *PROFILES):
            until(
                f"the policy of {name} is in force",
                lambda name=name: _differs_from_plain(api, name),
                within_seconds=30,
            )
        until("the faulty policy is in force", lambda: _refusal(api, FAULTY_AND_FATAL), within_seconds=30)
        yield api


def _policies(version: str) -> Iterator[dict[str, Any]]:
    """Yield the policies of all namespaces, and their bindings."""
    for namespace, changed in LIMITING.items():
        name, with_limits = f"limits-{namespace}", namespace != MID_ONLY
        base, binding = policy.limits_of_mid_pods(name, SCHEDULER, version, native_limits=with_limits)
        base["spec"].update(changed)
        yield base
        yield {**binding, "spec": {**binding["spec"], "matchResources": _only(namespace)}}
    anywhere = dataclasses.replace(profile.OPT_IN, namespace_selector=None)
    made, binding = policy.profile_objects(anywhere, SCHEDULER, version)
    yield made
    yield {**binding, "spec": {**binding["spec"], "matchResources": _only(OPTED)}}
    for name in INJECTED:
        for each in policy.limits_of_mid_pods(name, "", version):
            if each["kind"] == "MutatingAdmissionPolicy":
                del each["spec"]["variables"], each["spec"]["matchConditions"]
                patch = f"[JSONPatch{{op: 'add', path: '/spec/containers/-', value: {_container(name)}}}]"
                each["spec"]["mutations"] = [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}]
                each["spec"]["reinvocationPolicy"] = "Never"
            else:
                each["spec"]["matchResources"] = _only(*INJECTING, OPTED)
            yield each
    for name in PROFILES:
        yield from policy.profile_objects(_profile(name), SCHEDULER, version)


def _only(*namespaces: str) -> dict[str, Any]:
    expression = {"key": "rules", "operator": "In", "values": list(namespaces)}
    return {"namespaceSelector": {"matchExpressions": [expression]}}


def _container(name: str) -> str:
    """Return a container with plain resources, in the language of the policies."""
    amounts = f"dyn({json.dumps(examples.PLAIN)})"
    return f"{{'name': dyn('{name}'), 'image': dyn('none'), 'resources': dyn({{'limits': {amounts}}})}}"


def _differs_from_plain(api: Connection, namespace: str) -> bool:
    sample = examples.pod(
        labels={"use": "mid"}, priorityClassName="koord-mid" if namespace in (LIMITED, MID_ONLY) else ""
    )
    return agreement.stored(api, namespace, sample) != agreement.stored(api, PLAIN, sample)


def _rewritten(namespace: str, pod: dict[str, Any]) -> Admitted:
    known = [] if namespace in (LIMITED, MID_ONLY) else [_profile(namespace)]
    if any(not profile.selects(each, pod["metadata"]["labels"], {"rules": namespace}) for each in known):
        return Admitted(pod)  # the policy of a profile is for the pods that it selects
    return template.admitted(
        agreement.completed(pod), {"rules": namespace}, known, SCHEDULER, native_limits=namespace != MID_ONLY
    )


def _disagreement(api: Connection, namespace: str, pod: dict[str, Any]) -> str:
    """Return how policy and rules differ for a pod; both leave the resources as they are that the rules refuse."""
    by_policy = agreement.stored(api, namespace, copy.deepcopy(pod))
    rewritten = _rewritten(namespace, pod)
    by_rules = agreement.stored(api, PLAIN, rewritten.pod)
    again = agreement.stored(api, namespace, rewritten.pod)
    found = agreement.difference(by_policy, by_rules) or agreement.difference(again, by_rules)
    return f"{json.dumps(pod)}: {rewritten.refusal} {found}" if found else ""


@pytest.mark.parametrize("rules", [LIMITED, MID_ONLY])
@pytest.mark.parametrize("name", examples.table())
def test_policy_and_rules_agree(api: Connection, name: str, rules: str) -> None:
    assert _disagreement(api, rules, examples.table()[name]) == ""


@pytest.mark.parametrize("rules", [LIMITED, MID_ONLY])
def test_policy_and_rules_agree_about_drawn_pods(api: Connection, rules: str) -> None:
    found = [text for pod in examples.drawn(400, seed=17) if (text := _disagreement(api, rules, pod))]
    assert found == []


def test_pods_without_a_class_are_mid_in_a_namespace_that_opts_in(api: Connection) -> None:
    differences = {
        name: agreement.difference(agreement.stored(api, OPTED, pod), agreement.stored(api, REINVOKED, by_rules))
        for name, pod in examples.table().items()
        for by_rules in [agreement.opted_in(pod)]
    }
    assert {name: text for name, text in differences.items() if text} == {}


def test_without_native_limits_a_pod_stays_best_effort(api: Connection) -> None:
    made = agreement.stored(api, MID_ONLY, examples.table()["plain resources"])
    assert made is not None
    assert made["qosClass"] == "BestEffort"
    assert made["spec"]["containers"][0]["resources"] == {"requests": examples.MID, "limits": examples.MID}


@pytest.mark.parametrize("name", PROFILES)
def test_the_policy_of_a_profile_does_what_the_profile_states(api: Connection, name: str) -> None:
    pods = [*examples.table().values(), *examples.drawn(20, seed=3)]
    found = []
    for pod in pods:
        for labels in ({}, {"use": "mid"}):
            made = copy.deepcopy(pod)
            made["metadata"]["labels"].update(labels)
            found += [text] if (text := _disagreement(api, name, made)) else []
    assert found == []


def test_most_examples_are_changed_and_some_are_refused(api: Connection) -> None:
    """Control: the comparison above would also hold for a policy and rules that do nothing."""
    changed = refused = 0
    for pod in examples.drawn(100, seed=17):
        rewritten = _rewritten(LIMITED, pod)
        refused += bool(rewritten.refusal)
        changed += rewritten.pod["spec"]["containers"] != pod["spec"]["containers"]
    assert changed >= 50
    assert refused >= 3
    sample = examples.table()["plain resources"]
    limited = agreement.stored(api, LIMITED, sample)
    assert limited is not None
    assert limited["qosClass"] == "Burstable"
    assert limited["spec"]["containers"][0]["resources"] == LIMITED_RESOURCES


def test_a_pod_that_is_updated_is_not_touched(api: Connection) -> None:
    (rule,) = policy.limits_of_mid_pods("limits")[0]["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE"], ["pods"])


def _refusal(api: Connection, namespace: str) -> str:
    try:
        agreement.stored(api, namespace, examples.table()["plain resources"])
    except RequestError as error:
        return str(error)
    return ""


def test_a_pod_passes_a_faulty_policy_as_it_is(api: Connection) -> None:
    for name in ("plain resources", "init container and sidecar", "prod"):
        pod = examples.table()[name]
        assert agreement.stored(api, FAULTY, pod) == agreement.stored(api, PLAIN, pod)
    assert f"limits-{FAULTY_AND_FATAL}" in _refusal(api, FAULTY_AND_FATAL), "control: the policy is faulty"


def test_stated_mid_resources_never_change_and_no_limit_becomes_looser(api: Connection) -> None:
    compared = 0
    for pod in examples.drawn(200, seed=29):
        before, after = (agreement.stored(api, namespace, copy.deepcopy(pod)) for namespace in (PLAIN, LIMITED))
        if before is None:
            continue  # refused as invalid
        for one, other in zip(_containers(before), _containers(after), strict=True):
            for where, amounts in one.get("resources", {}).items():
                for name, amount in amounts.items():
                    found = quantities.parse(other["resources"][where][name])
                    if name in names.MID_RESOURCES:
                        assert found == quantities.parse(amount), json.dumps(pod)
                        compared += 1
                    elif where == "limits" and quantities.parse(amount) > 0:
                        assert found <= quantities.parse(amount), json.dumps(pod)
                        compared += 1
    assert compared >= 200


def _containers(pod: dict[str, Any] | None) -> list[dict[str, Any]]:
    return [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())] if pod else []


def test_the_policy_is_reinvoked_and_gives_the_same_values_again(api: Connection) -> None:
    """A container that another policy adds after the first turn would have no limits without a second one."""
    version = _served(api)[0]
    path = f"/apis/{policy.GROUP}/{version}/mutatingadmissionpolicies/{INJECTED[0]}"

    def limited_in_another_order() -> set[str]:
        """Return the limited containers where the policy has one turn; a change of a policy draws a new order."""
        note = {"metadata": {"annotations": {"example.com/time": str(time.monotonic())}}}
        api.send("PATCH", path, note, content=apiserver_requests.MERGE_PATCH)
        assert _limited(api, REINVOKED) == {"work", *INJECTED}
        assert _limited(api, OPTED, "no class") == {"work", *INJECTED}
        return _limited(api, INVOKED_ONCE)

    until("control: one is not", limited_in_another_order, lambda seen: seen < {"work", *INJECTED}, within_seconds=30)


def _served(api: Connection) -> list[str]:
    """Return the versions of the API that have the policies."""
    found = []
    for version in policy.VERSIONS:
        with contextlib.suppress(RequestError):
            api.send("GET", f"/apis/{policy.GROUP}/{version}/mutatingadmissionpolicies")
            found.append(version)
    return found


def _limited(api: Connection, namespace: str, example: str = "plain resources") -> set[str]:
    made = agreement.stored(api, namespace, examples.table()[example])
    return {each["name"] for each in _containers(made) if each["resources"] == LIMITED_RESOURCES}
