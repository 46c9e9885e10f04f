"""The MutatingAdmissionPolicy on a real API server changes pods exactly as the rules do that `koordctl` applies.

Each example is created as its author wrote it where the policy is bound, and as the rules rewrite it where none is.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from api_types.mid_pods import admission, policy, profile
from api_types.mid_pods.admission import Admitted
from e2e.support import admission_agreement as agreement
from e2e.support import mid_pod_examples as examples
from e2e.support.admission_agreement import PLAIN
from e2e.support.waiting import until
from tools.localcluster.apiserver_requests import Connection

SCHEDULER = "koord-scheduler"
LIMITED, MID_ONLY = "limited", "mid-only"
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
API = "/apis/admissionregistration.k8s.io/v1beta1"
PATHS = {
    "MutatingAdmissionPolicy": f"{API}/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": f"{API}/mutatingadmissionpolicybindings",
}


def _profile(name: str) -> profile.Profile:
    selected = {"namespaceSelector": {"matchLabels": {"rules": name}}}
    skip = {profile.SKIP_ANNOTATION: "true"} if name == "skipping" else {}
    return profile.read(
        {"metadata": {"name": name, "annotations": skip}, "spec": {**selected, "probability": 100, **PROFILES[name]}}
    )


@pytest.fixture(scope="module")
def api() -> Iterator[Connection]:
    flags = {
        "feature_gates": "MutatingAdmissionPolicy=true",
        "runtime_config": "admissionregistration.k8s.io/v1beta1=true",
    }
    with agreement.running([LIMITED, MID_ONLY, *PROFILES], **flags) as (_, api):
        objects = []
        for name in (LIMITED, MID_ONLY):
            base, binding = policy.limits_of_mid_pods(name, SCHEDULER, "v1beta1", native_limits=name == LIMITED)
            binding["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": {"rules": name}}}
            objects += [base, binding]
        for name in PROFILES:
            objects += policy.of_profile(_profile(name), SCHEDULER, "v1beta1")
        for each in objects:
            api.send("POST", PATHS[each["kind"]], each)
        for name in (LIMITED, MID_ONLY, *PROFILES):
            until(
                f"the policy of {name} is in force",
                lambda name=name: _differs_from_plain(api, name),
                within_seconds=30,
            )
        yield api


def _differs_from_plain(api: Connection, namespace: str) -> bool:
    sample = examples.pod(
        labels={"use": "mid"}, priorityClassName="koord-mid" if namespace in (LIMITED, MID_ONLY) else ""
    )
    return agreement.stored(api, namespace, sample) != agreement.stored(api, PLAIN, sample)


def _rewritten(namespace: str, pod: dict[str, Any]) -> Admitted:
    known = [] if namespace in (LIMITED, MID_ONLY) else [_profile(namespace)]
    if any(not profile.selects(each, pod["metadata"]["labels"], {"rules": namespace}) for each in known):
        return Admitted(pod)  # the policy of a profile is for the pods that it selects
    return admission.admitted(
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
    assert limited["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "0", "memory": "0", **examples.MID},
        "limits": {**examples.PLAIN, **examples.MID},
    }


def test_a_pod_that_is_updated_is_not_touched(api: Connection) -> None:
    (rule,) = policy.limits_of_mid_pods("limits")[0]["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE"], ["pods"])
